"""What a reader sees while cells are measured: a line each, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from impls.interface.problem import shorten
from suites.measure.journal import row_of


class Progress:
    """Counts cells and guesses the time left: the plan's estimates at the pace seen so far."""

    def __init__(
        self,
        estimates_s: Mapping[str, float],
        write: Callable[..., None],
        looks_due_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`estimates_s` by row of the cells to be run, with their further looks.

        `write(line, is_last)` shows a line. `looks_due_s()` are the seconds that further looks at
        the cells that were shown will take.
        """
        self._looks_due_s = looks_due_s
        self._waiting = dict(estimates_s)
        self._total = len(estimates_s)
        self._planned_s = 0.0
        self._started = time.monotonic()
        self._write = write
        self._statuses: dict[str, int] = {}

    def show(self, record: Mapping[str, Any]) -> None:
        """One finished cell; those that were not to be run are not told."""
        estimate = self._waiting.pop(row_of(record), None)
        if estimate is None:
            return
        self._planned_s += estimate
        done = self._total - len(self._waiting)
        status = record["status"]
        self._statuses[status] = self._statuses.get(status, 0) + 1
        width = len(str(self._total))
        self._write(
            f"[{done:{width}}/{self._total}] {_told(record)}  {self._left()}",
            is_last=not self._waiting,
        )

    def _left(self) -> str:
        passed, due_s = time.monotonic() - self._started, self._looks_due_s()
        pace = (passed + due_s) / self._planned_s if self._planned_s else 1.0
        return time_left(pace * sum(self._waiting.values()) + due_s)


def time_left(seconds: float) -> str:
    """ "1:05 left"."""
    return f"{round(seconds) // 60}:{round(seconds) % 60:02d} left"


def _told(record: Mapping[str, Any]) -> str:
    from impls.interface.problem import Problem

    problem = Problem.from_json(record["problem"])
    told = f"{record['implementation']:<16} {shorten(problem.id)}"
    if record["pass"] != "forward":
        told += f" {record['pass']}"
    timing = record.get("timing")
    if timing is None:
        return f"{told}: {record['status']}"
    bound = record.get("bound")
    told += f"  {timing['median_s'] * 1e3:.3g} ms"
    if bound and record["status"] == "ok":
        told += f"  {100 * bound['time_s'] / timing['median_s']:.0f} % of bound"
    status = record["status"].upper() if record["status"] == "wrong" else record["status"]
    marks = [*([status] if status != "ok" else []), *record["flags"]]
    return told + (f"  ({', '.join(marks)})" if marks else "")
