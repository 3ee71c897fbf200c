"""A store of thousands of runs answers at once, from the second time on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from results import waiting
from tests.big_store import commands, seconds, write_store

# What the commands may take of ten thousand runs; here a fifth, and CPU time: it is alone nowhere.
LIMIT_S = 3.0
RUNS = 2000


@pytest.mark.slow
def test_two_thousand_runs_are_listed_and_told_in_three_seconds(tmp_path):
    store = tmp_path / "runs"
    write_store(store, RUNS, cells=30)
    time.sleep(2.1)
    first = {
        what: seconds(*command, store=store)[2]
        for what, command in commands(30, tmp_path / "out").items()
    }
    for what, command in commands(30, tmp_path / "out").items():
        _, cpu_s, printed = seconds(*command, store=store)
        assert cpu_s < LIMIT_S, what
        assert printed == first[what]
    assert first["list"].count("25 ok, 5 skipped") == RUNS
    # The cell became slower after three fifths of the runs.
    assert "commits 0001199..0001200" in first["history of one cell"]
    write_store(store, 1, cells=30, first=RUNS)
    _, cpu_s, printed = seconds("results", "list", store=store)
    assert cpu_s < LIMIT_S and printed.count("25 ok, 5 skipped") == RUNS + 1


def test_what_takes_long_says_how_much_is_left(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 2.5, 3.0, 9.0])
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(clock))
    items = ["a", "b", "c", "d"]
    assert list(waiting.told(items, items, "read {done} of {total}, {left}")) == items
    assert capsys.readouterr().err == "read 2 of 4, 0:02 left\nread 4 of 4, 0:00 left\n"


def test_the_made_up_store_is_one_of_real_runs(tmp_path: Path):
    """Were its lines not read as cells, reading them fast would mean nothing."""
    from results.store import load_run

    write_store(tmp_path, 2, cells=7)
    for path in sorted(tmp_path.glob("*/*")):
        run = load_run(path)
        assert (run.counts, run.notes, run.state) == ({"ok": 6, "skipped": 1}, (), "finished")
        assert all(
            cell.timing and 0.9e-3 < (cell.timing.q1_s or 0) < 1.1e-3 for cell in run.cells[:5]
        )
