"""What a reader sees of each finished cell, and the time that is left."""

from __future__ import annotations

import time

import pytest

from suites.measure.journal import row_of
from suites.session.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """The seconds that have passed, settable."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def record(cell: str, **changed):
    problem = {"B": 1, "H": 2, "H_kv": 2, "T_q": 16, "T_kv": 16, "d_h": 8, "dtype": "float32"}
    known = {"cell": cell, "implementation": "mine", "problem": problem, "pass": "forward"}
    measured = {"timing": {"median_s": 2e-3}, "bound": {"time_s": 1e-3}}
    return known | measured | {"status": "ok", "flags": []} | changed


def shown(records, clock, *, took_s: float, due_s: float = 0.0, estimate_s: float = 12.0):
    lines: list[str] = []
    estimates = {row_of(one): estimate_s for one in records} | {"last": estimate_s}
    progress = Progress(estimates, lambda line, is_last: lines.append(line), lambda: due_s)
    for one in records:
        clock[0] += took_s
        progress.show(one)
    return lines


def test_the_time_left_counts_the_further_looks_at_what_is_measured(clock):
    """Of 12 s planned 2 are spent and 10 are due: 12 for the other cell, and the 10."""
    (line,) = shown([record("a")], clock, took_s=2.0, due_s=10.0)
    assert line.endswith("0:22 left")


def test_a_wrong_result_has_no_share_of_a_bound(clock):
    (line,) = shown([record("a", status="wrong")], clock, took_s=1.0)
    assert "2 ms  (WRONG)" in line and "%" not in line


def test_without_looks_the_pace_so_far_decides(clock):
    lines = shown([record("a"), record("b")], clock, took_s=60.0)
    assert lines[-1].startswith("[2/3] mine") and lines[-1].endswith("1:00 left")
    assert "2 ms  50 % of bound" in lines[-1]
