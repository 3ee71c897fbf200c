"""Runs whose process died or lives still: the cell it was at, and the state that is told."""

from __future__ import annotations

import json

import psutil
import pytest

from impls.interface.problem import Problem
from results.folders import run_folder
from results.run_folder import load_run
from results.summary import summarize
from tests.fake_cells import cell

PROBLEM = Problem.parse("T=63,H=4,d_h=40")


def running(record, **changes):
    mine = psutil.Process()
    return {
        **{name: record[name] for name in ("suite", "series", "cell", "implementation")},
        "problem_id": PROBLEM.id,
        "pass": "forward",
        "pid": mine.pid,
        "pid_started": mine.create_time(),
        "started_utc": "2026-11-29T19:31:00Z",
    } | changes


def died(record):
    """The process had this pid, but another has it now: the one that runs these tests."""
    return running(record, pid_started=psutil.Process().create_time() - 3600)


def unfinished(header):
    header["finished_utc"] = None


def planned_only(run_directory, measured, started, note=unfinished):
    """A run whose journal holds `measured` and whose plan holds `started` as well."""
    path = run_directory(records=[*measured, started], change=note)
    lines = [json.dumps(record) + "\n" for record in measured]
    (path / "cells.jsonl").write_text("".join(lines), encoding="utf-8")
    return path


def test_the_cell_a_process_died_in_is_crashed_by_name(run_directory):
    done, lost = cell("naive", PROBLEM, 0.02), cell("sdpa_flash", PROBLEM)
    path = planned_only(run_directory, [done], lost)
    (path / "running.json").write_text(json.dumps(died(lost)))
    run = load_run(path)
    assert run.state == "crashed"
    crashed = run.cells[-1]
    assert (crashed.status, crashed.implementation) == ("crashed", "sdpa_flash")
    assert crashed.reasons == ("the process died while measuring it",)
    assert (crashed.problem, crashed.cache, crashed.suite) == (PROBLEM, "hot", "sequence_length")
    assert run.running is None


def test_a_crash_in_a_cell_that_no_plan_has_is_named_as_well(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    lost = died(cell("sdpa_flash", PROBLEM))
    (path / "running.json").write_text(json.dumps(lost))
    crashed = load_run(path).cells[-1]
    assert (crashed.implementation, crashed.problem, crashed.pass_) == (
        "sdpa_flash",
        PROBLEM,
        "forward",
    )


def test_a_process_that_died_after_its_last_line_left_no_crashed_cell(run_directory):
    done = cell("naive", PROBLEM, 0.02)
    path = run_directory(records=[done], change=unfinished)
    (path / "running.json").write_text(json.dumps(died(done)))
    assert load_run(path).counts == {"ok": 1}


def test_a_crash_in_another_series_of_the_same_cell_is_not_hidden_by_the_first(run_directory):
    done = cell("naive", PROBLEM, 0.02)
    path = planned_only(run_directory, [done], done | {"series": "another"})
    (path / "running.json").write_text(json.dumps(died(done | {"series": "another"})))
    assert [(c.series, c.status) for c in load_run(path).cells] == [
        ("T, full", "ok"),
        ("another", "crashed"),
    ]


@pytest.mark.parametrize("text", ["", '{"cell": "1f', "[]", '{"cell": 3}', '{"pid": "none"}'])
def test_a_note_of_what_is_running_that_cannot_be_read_hides_nothing(run_directory, text):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    (path / "running.json").write_text(text)
    run = load_run(path)
    assert run.counts == {"ok": 1}
    (note,) = run.notes
    assert note.startswith("left out: ") and "running.json" in note


def test_a_crash_in_a_later_launch_is_not_hidden_by_the_first(run_directory):
    done = cell("naive", PROBLEM, 0.02)
    path = run_directory(records=[done], change=unfinished)
    (path / "running.json").write_text(json.dumps(died(done) | {"launch": 2}))
    assert load_run(path).counts == {"ok": 1, "crashed": 1}


def test_a_run_whose_process_lives_is_in_progress(run_directory):
    done, now = cell("naive", PROBLEM, 0.02), cell("sdpa_flash", PROBLEM)
    path = planned_only(run_directory, [done], now)
    (path / "running.json").write_text(json.dumps(running(now)))
    run = load_run(path)
    assert (run.state, run.counts) == ("in progress", {"ok": 1})
    assert run.running is not None and run.running.implementation == "sdpa_flash"


def test_an_interrupted_run_and_one_that_just_stopped_are_told_apart(run_directory):
    def interrupted(header):
        header["interrupted"] = True

    path = run_directory(change=interrupted)
    folder = run_folder(path)
    assert folder and load_run(path).state == summarize(folder).state == "interrupted"
    path = run_directory(change=unfinished, created="20261129T200000Z")
    assert load_run(path).state == "unfinished"
