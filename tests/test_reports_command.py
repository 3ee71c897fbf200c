"""`python -m reports` as it is typed: what it writes, prints and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from impls.interface.problem import Problem
from reports.__main__ import COMMANDS, main
from reports.next_steps import next_steps, python, repeat_lines
from results.store import load_run
from tests.fake_run import cell, check_record, write_run

ROOT = Path(__file__).parent.parent
P = Problem.parse("T=512,H=8,d_h=64")
SMALL = [cell("naive", P, 0.01), cell("chunked", P, 0.008)]


@pytest.fixture
def call(tmp_path):
    """`call("RUN", "--json")` runs the command on tmp_path's store → its exit code."""

    def run_main(*arguments: str) -> int:
        return main([*arguments, "--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])

    return run_main


def test_the_newest_run_is_written_and_its_paths_are_printed(call, tmp_path, capsys):
    write_run(tmp_path / "runs", records=SMALL, created="20261128T000000Z", machine_key="cpu-z")
    write_run(tmp_path / "runs", records=SMALL, created="20261129T000000Z", machine_key="cpu-a")
    assert call() == 0
    folder = tmp_path / "out/20261129T000000Z-1234567"
    assert {f.name for f in folder.iterdir()} == {
        "report.html",
        "report.md",
        "points.csv",
        "roofline.png",
        "roofline.svg",
        "latency.png",
        "latency.svg",
        "speed_up.png",
        "speed_up.svg",
        "error_speed.png",
        "error_speed.svg",
        "distribution.png",
        "distribution.svg",
    }
    said = capsys.readouterr().out
    assert f"report  {folder / 'report.html'}" in said
    assert "chunked is the fastest of 2" in said


def test_rows_that_cannot_be_are_named_and_not_lost_in_silence(call, tmp_path, capsys):
    """I01: times below zero; the page told of them, the terminal and the comment did not."""
    record = cell("naive", P, 0.01)
    record["timing"]["min_s"] = -1.0
    write_run(tmp_path / "runs", records=[record])
    assert call() == 5
    why = "left out: cells.jsonl line 1, field timing.min_s: expected the seconds of a call, got -1"
    assert why in " ".join(capsys.readouterr().out.split())
    (file,) = tmp_path.glob("out/*/report.md")
    assert f"Note: {why}." in file.read_text("utf-8").replace("\\", "")


def test_a_summary_follows_what_other_steps_wrote(call, tmp_path, monkeypatch, capsys):
    write_run(tmp_path / "runs", records=SMALL)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert call("--summary") == 2 and not (tmp_path / "out").exists()
    assert "type --summary FILE" in capsys.readouterr().err
    step, own = tmp_path / "step.md", tmp_path / "own.md"
    step.write_text("## Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert call() == 0 and step.read_text() == "## Before\n"
    assert call("--summary") == 0 and call("--summary", str(own)) == 0
    text = step.read_text()
    assert text.startswith("## Before\n# Run 20261129T193000Z") and own.read_text() in text
    assert "chunked is the fastest of 2" in text and "![" not in text, "no file is beside it"


def test_a_comparison_has_a_summary_too(tmp_path, monkeypatch):
    for day in ("20261128", "20261129"):
        write_run(tmp_path / "runs", records=SMALL, created=f"{day}T000000Z")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    places = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(["compare", "20261128", "20261129", *places, "--summary"]) == 0
    text = (tmp_path / "step.md").read_text()
    assert "**2 inconclusive**" in text
    assert text.strip() == (tmp_path / "out/comparison.md").read_text().strip()


def test_json_tells_files_findings_and_counts(call, tmp_path, capsys):
    write_run(tmp_path / "runs", records=SMALL)
    assert call("latest", "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert all(Path(file).is_file() for file in record["files"])
    assert record["counts"]["ok"] == 2 and record["counts"]["crashed"] == 0
    assert record["findings"] and record["page"].endswith("report.html")


def test_another_baseline_holds_for_findings_table_and_figures(call, tmp_path, capsys):
    folder = write_run(tmp_path / "runs", records=SMALL)
    assert call("--baseline", "chunked") == 0
    assert "Nothing beats chunked at T = 512" in capsys.readouterr().out
    text = (tmp_path / "out" / folder.name / "report.html").read_text()
    assert "× chunked (1 launch)" in text and "Speed-up over chunked" in text
    assert "<option selected>chunked" in text
    assert call("--baseline", "nobody") == 5
    assert "no comparable row of nobody: chunked, naive" in capsys.readouterr().err


def test_several_runs_are_written_in_one_go(call, tmp_path):
    for day in ("20261128", "20261129"):
        write_run(tmp_path / "runs", records=SMALL[:1], created=f"{day}T000000Z")
    assert call("20261128", "20261129") == 0
    assert len(list((tmp_path / "out").glob("*/report.html"))) == 2


def test_an_unknown_run_is_a_usage_error_that_lists_what_there_is(call, tmp_path, capsys):
    write_run(tmp_path / "runs", records=SMALL)
    assert call("20991231T000000Z") == 2
    assert "20261129T193000Z-1234567" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_empty_store_is_a_usage_error_that_says_what_to_type(call, capsys):
    assert call() == 2
    assert "make bench" in capsys.readouterr().err


def test_a_run_without_an_ok_cell_returns_5_and_is_written_all_the_same(call, tmp_path, capsys):
    write_run(tmp_path / "runs", records=[cell("flex", P, status="oom", reasons=["too large"])])
    assert call() == 5
    assert "has no ok cell" in capsys.readouterr().err
    assert (tmp_path / "out/20261129T193000Z-1234567/report.html").is_file()


def test_a_run_with_a_wrong_result_returns_1_and_is_written(call, tmp_path, capsys):
    check = check_record(ok=False)
    bad = cell("mine", P, 0.001, status="wrong", reasons=["off by 3"], check=check)
    write_run(tmp_path / "runs", records=[*SMALL, bad])
    assert call() == 1
    out, err = capsys.readouterr()
    assert "has wrong results" in err
    told = next(line for line in out.splitlines() if line.startswith("      - "))
    assert told.startswith("      - mine gives a wrong result at T = 512")
    assert (tmp_path / "out/20261129T193000Z-1234567/report.html").is_file()


def test_what_to_type_next_works_as_it_is_printed(call, tmp_path, capsys, monkeypatch):
    """`python` and `pytest` were not the environment's, and a run of another store not found."""
    folder = write_run(tmp_path / "runs", records=SMALL)
    monkeypatch.chdir(tmp_path)
    assert call() == 0
    last = capsys.readouterr().out.splitlines()[-1].strip()
    assert last.startswith(f"cd {ROOT} && ") and last.endswith(f" -m results show {folder}")
    done = subprocess.run(last, shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and "chunked" in done.stdout


def test_a_run_of_chosen_problems_is_not_followed_by_the_built_in_sweeps(tmp_path):
    def chosen(header):
        header["command"] = "pytest suites --impl k.py:attention --problem T=8,H=1,d_h=8"

    folder = write_run(tmp_path / "runs", records=SMALL, change=chosen)
    assert not any("make bench" in line for line in next_steps(load_run(folder)))
    plain = write_run(tmp_path / "runs", records=SMALL, commit="2222222")
    assert next_steps(load_run(plain), ROOT)[0] == "make bench BUDGET=default"
    assert next_steps(load_run(plain), tmp_path)[0] == f"cd {ROOT} && make bench BUDGET=default"


def test_repeating_names_the_folder_and_the_interpreter(tmp_path):
    def elsewhere(header):
        header["command"] = "pytest /there/suites --impl k.py:attention"
        header["environment"]["folder"] = "/my work"

    folder = write_run(tmp_path / "runs", records=SMALL, change=elsewhere)
    lines = repeat_lines(load_run(folder))
    assert lines[1:3] == [
        "cd '/my work'",
        f"{sys.executable} -m pytest /there/suites --impl k.py:attention",
    ]
    plain = write_run(tmp_path / "runs", records=SMALL, commit="2222222")
    assert repeat_lines(load_run(plain))[1] == f"{python()} -m pytest suites --budget quick"


def test_a_broken_run_returns_5_and_the_next_is_still_written(call, tmp_path, capsys):
    broken = write_run(tmp_path / "runs", records=SMALL, created="20261128T000000Z")
    (broken / "run.json").write_text("{")
    write_run(tmp_path / "runs", records=SMALL[:1])
    assert call(str(broken), "20261129") == 5
    assert "run.json" in capsys.readouterr().err
    assert (tmp_path / "out/20261129T193000Z-1234567/report.html").is_file()


def test_a_journal_cut_short_is_reported_with_what_was_finished(call, tmp_path):
    """What `kill -9` leaves: every finished cell, half a line, and the cell it died in."""
    folder = write_run(tmp_path / "runs", records=SMALL)
    journal = folder / "cells.jsonl"
    journal.write_text(journal.read_text() + '{"schema": 1, "cel')
    running = {"cell": "f" * 16, "implementation": "flex", "problem_id": P.id, "pass": "forward"}
    (folder / "running.json").write_text(json.dumps(running | {"pid": 999_999_999}))
    assert call() == 0
    text = (tmp_path / "out/20261129T193000Z-1234567/report.html").read_text()
    assert "cut short" in text and "<b>2</b> ok" in text and "<b>1</b> crashed" in text


def test_help_has_two_examples_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    said = capsys.readouterr().out
    assert stopped.value.code == 0 and said.count("  python -m reports") >= 2
    assert "exit codes" in said


def test_no_help_is_wider_than_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], *([name] for name in COMMANDS)):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 15 and not [line for line in lines if len(line) > 80], command


def test_reports_run_where_torch_and_suites_cannot_be_imported(tmp_path):
    write_run(tmp_path / "runs", records=SMALL[:1])
    code = (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'torch', 'triton', 'xformers', 'suites'}:\n"
        "            raise ImportError('forbidden: ' + name)\n"
        "sys.meta_path.insert(0, No())\n"
        "from reports.__main__ import COMMANDS, main\n"
        "sys.exit(main(['--store', 'runs', '--out', 'out']))"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path):
    """As `| head -0`: the reading end is closed before the first line is written."""
    write_run(tmp_path / "runs", records=SMALL)
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "reports", "history", "--store", str(tmp_path / "runs")]
    line += ["--out", str(tmp_path / "out")]
    done = subprocess.run(line, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
