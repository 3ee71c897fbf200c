"""The store is found from the checkout, and a run is read with what a crash left of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from impls.interface.problem import Problem
from reports.rows import status_counts
from results import store as store_module
from results.reading import SchemaError
from results.run_folder import is_process, load_run
from results.schema import STATUSES
from results.store import RunNotFound, find_run, list_runs, store_folder
from suites.session.options import store_folder as written_to
from tests.fake_cells import cell, check_record

PROBLEM = Problem.parse("T=63,H=4,d_h=40")


def test_a_list_reads_no_plans_and_a_run_has_its_own(run_directory, tmp_path):
    """Of two hundred cells a plan takes twenty times as long to read as all the rest."""
    path = run_directory(change=lambda header: header.update(plan=[{"cell": 3}]))
    (summary,) = list_runs(tmp_path / "runs")
    assert summary.header is not None and summary.state == "finished"
    with pytest.raises(SchemaError, match=r"field plan\.0\.cell: expected a string"):
        load_run(path)


def test_the_store_does_not_depend_on_the_current_folder(tmp_path, monkeypatch):
    """Case B09, ioc-fanger PR#77: runs were not found from a folder below."""
    monkeypatch.delenv("ATTNBENCH_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    checkout = Path(store_module.__file__).parents[1]
    assert store_folder() == checkout / "results" / "runs" == written_to(None)
    monkeypatch.setenv("ATTNBENCH_STORE", str(tmp_path / "elsewhere"))
    assert store_folder() == tmp_path / "elsewhere"
    assert store_folder(tmp_path / "chosen") == tmp_path / "chosen"


def test_runs_of_another_python_are_not_hidden(run_directory, monkeypatch):
    """Case B09: a version is what a run says of itself, and part of no way to it."""

    def measured_by(version):
        return lambda header: header["environment"].update(python=version)

    old = run_directory(change=measured_by("3.11.7"), machine_key="a")
    new = run_directory(change=measured_by("3.12.2"), machine_key="b", created="20261130T080000Z")
    monkeypatch.chdir(Path(__file__).parent)
    assert [s.path for s in list_runs(old.parents[1])] == [new, old]
    assert find_run(old.name, old.parents[1]) == old
    assert load_run(old).header.environment["python"] == "3.11.7"
    assert not [part for part in (*old.parts, *new.parts) if part.startswith("3.1")]


def test_a_run_reads_back_whole(run_directory):
    run = load_run(run_directory())
    assert run.state == "finished"
    assert run.counts == {
        "ok": 25,
        "wrong": 1,
        "unsupported": 1,
        "unavailable": 1,
        "oom": 1,
        "error": 1,
        "crashed": 1,
        "timeout": 1,
        "skipped": 1,
    }
    assert run.notes == ()
    assert run.baseline == "naive"
    assert len(run.comparable_cells) == 24


def test_a_wrong_result_keeps_its_time_and_its_mark(run_directory):
    """Case B06, pytest-benchmark#5: with its mark gone, the time of a wrong result led a ranking.

    One that raised left no trace, and a skipped one no reason.
    """
    wrong = cell("naive", PROBLEM, 0.01, status="wrong", check=check_record(ok=False))
    raised = cell("sdpa_flash", PROBLEM, status="error", reasons=["ValueError: no"])
    skipped = cell("chunked", PROBLEM, status="skipped", reasons=["beyond the budget"])
    run = load_run(run_directory(records=[wrong, raised, skipped]))
    assert [(c.status, c.time_s) for c in run.cells] == [
        ("wrong", 0.01),
        ("error", None),
        ("skipped", None),
    ]
    assert run.comparable_cells == () == run.trusted_cells and run.cells[0].flop_per_s is None
    assert run.cells[2].reasons == ("beyond the budget",)
    told = {status: 1 if status in ("wrong", "error", "skipped") else 0 for status in STATUSES}
    assert dict(status_counts(run)) == told


def test_the_last_line_for_a_cell_and_launch_wins(run_directory):
    first = cell("naive", PROBLEM, status="error", reasons=["once"])
    again = cell("naive", PROBLEM, 0.02)
    second_launch = cell("naive", PROBLEM, 0.03, launch=2)
    other_suite = cell("naive", PROBLEM, 0.04, suite="heads", series="H")
    run = load_run(run_directory(records=[first, again, second_launch, other_suite]))
    assert [c.time_s for c in run.cells] == [0.02, 0.03, 0.04]
    assert run.launches == 2


@pytest.mark.parametrize("kept", [1, 40, 200])
def test_a_line_cut_short_is_left_out_and_noted(run_directory, kept):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    journal = path / "cells.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"schema": 1, "reasons": ["\xc3\xa9'[:kept])
    run = load_run(path)
    assert run.counts == {"ok": 1}
    assert run.notes == ("line 2 of cells.jsonl is cut short and left out",)


def test_bytes_of_a_line_that_are_no_utf_8_are_noted(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02), cell("chunked", PROBLEM, 0.03)])
    journal = path / "cells.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"chunked", b"chunk\xe9d"))
    run = load_run(path)
    assert run.counts == {"ok": 2}
    assert run.notes == ("line 2 of cells.jsonl is not all UTF-8: \ufffd stands for it",)


def test_rows_that_a_finished_run_has_lost_are_noted(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02), cell("chunked", PROBLEM, 0.03)])
    header = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(header | {"counts": {"ok": 1, "wrong": 1}}))
    assert load_run(path).notes == ()
    journal = path / "cells.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    assert load_run(path).notes == ("cells.jsonl has 1 of the 2 rows that the run ended with",)
    (path / "run.json").write_text(json.dumps(header | {"finished_utc": None, "counts": {"ok": 2}}))
    assert load_run(path).notes == ()


def test_a_line_cut_short_does_not_hide_what_a_resumed_run_adds(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    with (path / "cells.jsonl").open("a") as file:
        file.write('{"schema": 1, "cel\n' + json.dumps(cell("chunked", PROBLEM, 0.03)) + "\n")
    run = load_run(path)
    assert [c.implementation for c in run.cells] == ["naive", "chunked"]
    assert len(run.notes) == 1


def test_a_whole_last_line_without_its_newline_counts(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    journal = path / "cells.jsonl"
    journal.write_text(journal.read_text().rstrip("\n"))
    run = load_run(path)
    assert (run.counts, run.notes) == ({"ok": 1}, ())


def test_a_bare_nan_in_the_journal_is_left_out_by_line(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    with (path / "cells.jsonl").open("a") as file:
        file.write('{"schema": 1, "elapsed_s": NaN}\n')
    run = load_run(path)
    assert len(run.cells) == 1
    assert run.notes == ("left out: cells.jsonl line 2: the bare word NaN is not JSON: write null",)


@pytest.mark.parametrize("bad", [1, 5])
def test_lines_that_cannot_be_read_hide_no_other_and_are_noted(run_directory, bad):
    """One `"median_s": null` made a whole run of an hour unreadable."""
    good, null = cell("naive", PROBLEM, 0.02), cell("flex", PROBLEM, 0.02)
    null["timing"]["median_s"] = None
    run = load_run(run_directory(records=[*[null] * bad, good]))
    assert [c.implementation for c in run.cells] == ["naive"]
    assert run.notes[0] == (
        "left out: cells.jsonl line 1, field timing.median_s: expected a number, got null"
    )
    assert len(run.notes) == min(bad, 4)
    if bad == 5:
        assert run.notes[-1] == "2 more lines of cells.jsonl cannot be read and are left out"


def test_a_dead_process_is_no_process():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    # Until its parent asks for its exit code, a dead child is a zombie that still has its pid.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_process(child.pid, None)
    child.wait()
    assert not is_process(child.pid, None)
    mine = psutil.Process()
    assert is_process(os.getpid(), mine.create_time())
    assert is_process(os.getpid(), None)
    assert not is_process(os.getpid(), mine.create_time() + 60)


def test_runs_are_listed_newest_first_over_all_machines(run_directory, tmp_path):
    run_directory(created="20261129T193000Z", machine_key="a")
    run_directory(created="20261201T080000Z", machine_key="b")
    run_directory(created="20261130T080000Z", machine_key="a")
    broken = tmp_path / "runs" / "a" / "20270101T000000Z-broken"
    broken.mkdir()
    # Its files make a folder a run: this one has none, and is not listed.
    (tmp_path / "runs" / "any" / "thing").mkdir(parents=True)
    (broken / "cells.jsonl").touch()
    names = [s.name for s in list_runs(tmp_path / "runs")]
    assert names[:3] == [
        f"2026{day}-1234567" for day in ("1201T080000Z", "1130T080000Z", "1129T193000Z")
    ]
    (broken,) = list_runs(tmp_path / "runs")[3:]
    assert (broken.state, broken.header) == ("unreadable", None)
    assert broken.error and "run.json" in broken.error
    assert find_run("latest", tmp_path / "runs").parent.name == "b"


def test_a_run_is_found_by_name_beginning_machine_and_path(run_directory, tmp_path, monkeypatch):
    store = tmp_path / "runs"
    path = run_directory(machine_key="a")
    other = run_directory(machine_key="b", created="20270102T000000Z")
    assert find_run("20261129T193000Z-1234567", store) == path
    assert find_run("20261129", store) == path
    assert find_run("a/2026", store) == path
    assert find_run(path, store / "nowhere") == path
    monkeypatch.chdir(path.parent)
    assert find_run(path.name, store / "nowhere") == path
    assert find_run("latest", store) == other


def test_an_exact_name_beats_a_longer_one_that_begins_with_it(run_directory, tmp_path):
    path = run_directory()
    run_directory(commit="1234567-2")
    assert find_run("20261129T193000Z-1234567", tmp_path / "runs") == path


def test_an_unknown_run_offers_a_close_name_and_lists_all(run_directory, tmp_path):
    run_directory()
    with pytest.raises(RunNotFound, match='did you mean "20261129T193000Z-1234567"'):
        find_run("20261129T193001Z-1234567", tmp_path / "runs")
    run_directory(created="20261130T193000Z")
    with pytest.raises(RunNotFound, match="is the beginning of 2 runs: cpu-0123456789ab/20261129"):
        find_run("2026", tmp_path / "runs")


def test_an_empty_store_says_how_to_fill_it(tmp_path):
    with pytest.raises(RunNotFound, match=r"no runs in .*: make one with `make bench`"):
        find_run("latest", tmp_path)
    with pytest.raises(RunNotFound, match="make one with `make bench`"):
        find_run("2026", tmp_path)
    assert list_runs(tmp_path / "missing") == []


def test_three_hundred_cells_stay_small_and_read_fast(run_directory):
    """Case B04, pytest-benchmark#96: with all samples it was hundreds of megabytes.

    A journal of 300 cells with 1000 samples each, the most that is stored.
    """
    records = []
    for i in range(300):
        record = cell("naive", PROBLEM.with_(T_q=i + 1, T_kv=i + 1), 0.02)
        record["timing"]["samples_s"] = [round(0.02 + j * 1e-6, 9) for j in range(1000)]
        records.append(record)
    path = run_directory(records=records)
    assert (path / "cells.jsonl").stat().st_size < 5e6
    assert len(load_run(path).cells) == 300


def test_a_store_that_is_a_file_is_told_apart_from_an_empty_one(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(RunNotFound, match="is a file: the store is a folder"):
        list_runs(file)


def test_where_no_run_can_be_read_the_latest_says_why(run_directory):
    path = run_directory()
    (path / "run.json").write_text('{"schema": 1')
    with pytest.raises(RunNotFound, match=r"1 cannot be read, 2026\S+: .*not JSON"):
        find_run("latest", path.parents[1])


def test_a_journal_that_is_a_folder_is_no_run_without_cells(run_directory):
    path = run_directory()
    (path / "cells.jsonl").unlink()
    (path / "cells.jsonl").mkdir()
    with pytest.raises(SchemaError, match="is a folder"):
        load_run(path)


def test_the_home_of_nobody_is_no_traceback(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert store_folder("~nobody-is-called-so/x") == tmp_path / "~nobody-is-called-so" / "x"
