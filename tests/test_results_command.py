"""`python -m results` as a user meets it: tables, JSON, exit codes, and no torch behind it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from impls.interface.problem import Problem
from results.__main__ import main
from tests.fake_cells import cell, check_record

CHECKOUT = Path(__file__).parents[1]
FORBIDDEN = """
import sys
class No:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "triton", "xformers", "suites", "numpy"}:
            raise ImportError("forbidden: " + name)
sys.meta_path.insert(0, No())
"""


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def run_python(code, *arguments, cwd=CHECKOUT):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_list_shows_each_run_in_eighty_columns(run_directory, tmp_path, capsys):
    run_directory()
    assert main(["list", "--store", str(tmp_path / "runs")]) == 0
    out, err = capsys.readouterr()
    assert "20261129T193000Z-1234567" in out
    assert "2026-11-29 19:30:00" in out
    assert "25 ok" in out and "finished" in out
    assert max(map(len, out.splitlines())) <= 80
    assert err == f"store: {tmp_path / 'runs'}\n"


def test_list_as_json_is_strict_and_complete(run_directory, tmp_path, capsys):
    run_directory()
    bad = tmp_path / "runs" / "m" / "20270101T000000Z-bad"
    bad.mkdir(parents=True)
    (bad / "cells.jsonl").touch()
    assert main(["list", "--json", "--store", str(tmp_path / "runs")]) == 0
    good, bad = strict(capsys.readouterr().out)
    assert (good["run"], good["state"], good["counts"]["ok"]) == (
        "20261129T193000Z-1234567",
        "finished",
        25,
    )
    assert bad["state"] == "unreadable" and "run.json" in bad["error"]


def test_an_empty_store_lists_nothing_and_says_how_to_begin(tmp_path, capsys):
    assert main(["list", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no runs: make one with `make bench`\n"


def test_show_has_times_reasons_counts_and_findings_in_eighty_columns(
    run_directory, tmp_path, capsys
):
    run_directory()
    assert main(["show", "--store", str(tmp_path / "runs")]) == 1
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "median ms" in out and "% of bound" in out
    assert "all: B=1, H=8, d_h=64, float32" in out
    assert "1 unavailable: needs a CUDA device (sdpa_cudnn)" in out
    assert "1 WRONG: out is 0.4 from float64" in out
    assert "near_floor" in out
    assert "- sdpa_flash is the fastest of 3" in out
    assert not any(line.startswith("sdpa_math") for line in out.splitlines())


def test_show_all_has_a_row_for_each_cell(run_directory, tmp_path, capsys):
    run_directory()
    assert main(["show", "latest", "--all", "--store", str(tmp_path / "runs")]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert next(r for r in rows if r and r[0] == "sdpa_cudnn")[-1] == "unavailable"


def test_show_as_json_has_all_of_every_cell_with_what_is_derived(run_directory, tmp_path, capsys):
    problem = Problem.parse("T=63,H=4,d_h=40,causal")
    record = cell("naive", problem, 0.002)
    path = run_directory(records=[record])
    assert main(["show", str(path), "--json", "--store", str(tmp_path)]) == 0
    shown = strict(capsys.readouterr().out)
    assert (
        shown["state"] == "finished"
        and shown["ceilings"]["gemm"]["float32"]["provider"] == "torch.mm"
    )
    assert shown["plan"][0]["pass"] == "forward"
    (read,) = shown["cells"]
    for name in set(record) - {"schema"}:
        given = record[name]
        # An absent part of a record reads as null.
        same = given == read[name] or given == {k: read[name][k] for k in given}
        assert same, name
    assert read["flop_per_s"] == record["counts"]["flop"] / 0.002
    assert read["problem_id"] == problem.id


def test_a_crashed_run_is_shown_with_its_cell_by_name(run_directory, tmp_path, capsys):
    problem = Problem.parse("T=63,H=4,d_h=40")
    done, lost = cell("naive", problem, 0.02), cell("sdpa_flash", problem)
    path = run_directory(records=[done], change=lambda header: header.update(finished_utc=None))
    note = {"cell": lost["cell"], "implementation": "sdpa_flash", "problem_id": problem.id}
    note |= {"pass": "forward", "pid": 2**22 + 1, "pid_started": 1.0}
    (path / "running.json").write_text(json.dumps(note))
    assert main(["list", "--store", str(tmp_path / "runs")]) == 0
    listed = capsys.readouterr().out
    assert "crashed" in listed and "1 ok, 1 crashed" in listed
    assert main(["show", "--store", str(tmp_path / "runs")]) == 0
    assert "1 crashed: the process died while measuring it (sdpa_flash)" in capsys.readouterr().out


def test_an_unknown_run_is_a_usage_error_that_lists_what_there_is(run_directory, tmp_path, capsys):
    run_directory()
    assert main(["show", "20261128", "--store", str(tmp_path / "runs")]) == 2
    assert "there are: 20261129T193000Z-1234567" in capsys.readouterr().err


def test_a_journal_line_that_cannot_be_read_is_noted_beside_the_others(
    run_directory, tmp_path, capsys
):
    good = cell("naive", Problem.parse("T=4,H=1,d_h=8"), 1.0)
    run_directory(records=[good, good | {"launch": "x"}])
    assert main(["show", "--store", str(tmp_path / "runs")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert 'line 2, field launch: expected a whole number, got the string "x"' in out


def test_a_broken_run_file_is_told_by_field_and_exit_code(run_directory, tmp_path, capsys):
    run_directory(change=lambda header: header.update(device=7))
    name = "20261129T193000Z-1234567"
    assert main(["show", name, "--store", str(tmp_path / "runs")]) == 5
    assert "run.json, field device: expected a string" in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_with_a_wrong_result_is_shown_and_returns_1(run_directory, tmp_path, capsys, form):
    problem = Problem.parse("T=63,H=4,d_h=40")
    wrong = cell("mine", problem, 0.001, status="wrong", reasons=["off"])
    wrong["check"] = check_record(ok=False)
    run_directory(records=[cell("naive", problem, 0.02), wrong])
    assert main(["show", *form, "--store", str(tmp_path / "runs")]) == 1
    assert "off" in capsys.readouterr().out


def test_the_interval_is_half_its_width_in_percent_of_the_median(run_directory, tmp_path, capsys):
    record = cell("naive", Problem.parse("T=63,H=4,d_h=40"), 0.02)
    record["timing"] |= {"ci_low_s": 0.0198, "ci_high_s": 0.0212}
    run_directory(records=[record])
    assert main(["show", "--store", str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    # (0.0212 - 0.0198) / 2 / 0.02
    row = next(line.split() for line in out.splitlines() if line.startswith("naive"))
    assert row[-2] == "3.5"
    assert out.count("half the width of the 95 % interval") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["show", "--help"]])
def test_help_has_two_examples(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    examples = capsys.readouterr().out.split("examples:")[1]
    assert examples.count("python -m results") == 2


@pytest.mark.parametrize("arguments", [[], ["lst"], ["show", "a", "b"], ["list", "--jsn"]])
def test_a_mistyped_command_is_a_usage_error(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_results_import_without_torch_triton_xformers_and_suites():
    code = (
        FORBIDDEN.replace(', "numpy"', "")
        + """
import importlib, pkgutil, results
for module in pkgutil.walk_packages(results.__path__, "results."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_a_run_is_shown_without_numpy(run_directory, tmp_path):
    """Judging needs it, and only those commands load it."""
    run_directory()
    code = FORBIDDEN + 'import runpy; runpy.run_module("results", run_name="__main__")'
    done = run_python(code, "show", "--json", "--store", str(tmp_path / "runs"))
    assert done.returncode == 1, done.stderr
    assert strict(done.stdout)["counts"]["ok"] == 25


def test_a_reader_that_stops_early_is_no_error(run_directory, tmp_path):
    records = [cell("naive", Problem.parse(f"T={T},H=4,d_h=40"), 0.01) for T in range(1, 200)]
    run_directory(records=records)
    command = [sys.executable, "-m", "results", "show", "--json", "--store", tmp_path / "runs"]
    reading = subprocess.PIPE
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=reading, stderr=reading) as shown:
        assert shown.stdout and shown.stderr
        shown.stdout.read(1)
        shown.stdout.close()
        told = shown.stderr.read().decode()
    assert (shown.returncode, told) == (0, f"store: {tmp_path / 'runs'}\n")


def test_the_store_is_the_checkouts_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNBENCH_STORE", raising=False)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import results.store as store; "
    done = run_python(code + "print(store.store_folder())", str(CHECKOUT), cwd=tmp_path)
    assert done.stdout.strip() == str(CHECKOUT / "results" / "runs")
