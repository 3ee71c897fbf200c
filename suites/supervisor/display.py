"""What a supervised run shows: a line a cell for people, or an object a line for machines."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TextIO

from impls.interface.problem import Problem
from suites.measure.journal import row_of
from suites.session.progress import Progress


class Display(Protocol):
    """Is told what happens, in its order."""

    def line(self, text: str) -> None:
        """Something to read: a warning, what a child is about to do."""

    def begins(self, entries: Iterable[Mapping[str, Any]], launch: int, launches: int) -> None:
        """A launch of these entries of the plan."""

    def started(self, entry: Mapping[str, Any]) -> None:
        """A cell is being measured."""

    def finished(self, record: Mapping[str, Any]) -> None:
        """A line is in the journal."""

    def died(self, what: str, cause: str, then: str) -> None:
        """A child died at `what`; `then` is what is done about it."""

    def ends(self, told: Mapping[str, Any]) -> None:
        """The run's end: its counts and how it went."""


class Lines:
    """For people, on stderr: on a terminal the last line is the cell that is being measured."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream` is stderr unless given."""
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._progress: Progress | None = None

    def line(self, text: str) -> None:
        """One whole line, in place of the one that changes."""
        self._write(f"attnbench: {text}")

    def begins(self, entries: Iterable[Mapping[str, Any]], launch: int, launches: int) -> None:
        """Count anew; entries without an estimate are not measured, and not counted."""
        estimates = {row_of(e): e["estimate_s"] for e in entries if _is_measured(e)}
        self._progress = Progress(estimates, lambda line, is_last: self._write(line))
        if launches > 1:
            self.line(f"launch {launch} of {launches}: {len(estimates)} cells")

    def started(self, entry: Mapping[str, Any]) -> None:
        """Only on a terminal, where the line is written over."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{_name(entry)} …"[: width + 4], end="", file=self._stream, flush=True)

    def finished(self, record: Mapping[str, Any]) -> None:
        """Time, % of bound and the time left; further looks at a cell are not told."""
        if self._progress is not None:
            self._progress.show(record)

    def died(self, what: str, cause: str, then: str) -> None:
        """Who died of what."""
        self.line(f"{what}: {cause}: {then}")

    def ends(self, told: Mapping[str, Any]) -> None:
        """How many cells ended how."""
        counts = ", ".join(f"{n} {status}" for status, n in told["counts"].items())
        self.line(f"run {told['run']}: {counts or 'nothing was measured'}")

    def _write(self, line: str) -> None:
        erase = "\r\x1b[K" if self._is_terminal else ""
        print(f"{erase}{line}", file=self._stream, flush=True)


class JsonLines:
    """For machines, on stdout: `{"event": …}` a line, and nothing else."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream` is stdout unless given."""
        self._stream = stream or sys.stdout
        self._told: set[tuple[str, int]] = set()
        self._left = 0

    def line(self, text: str) -> None:
        """A notice."""
        self._event("notice", text=text)

    def begins(self, entries: Iterable[Mapping[str, Any]], launch: int, launches: int) -> None:
        """How many cells there are and what they were planned with."""
        listed = list(entries)
        self._left = len(listed)
        estimate_s = sum(e["estimate_s"] or 0.0 for e in listed if e["decision"] == "run")
        self._event(
            "launch", launch=launch, launches=launches, cells=self._left, estimate_s=estimate_s
        )

    def started(self, entry: Mapping[str, Any]) -> None:
        """The identity of the cell."""
        self._event("started", **_identity(entry))

    def finished(self, record: Mapping[str, Any]) -> None:
        """The first line of a cell: status, median and % of bound where there are some."""
        key = (row_of(record), record.get("launch", 1))
        if key in self._told:
            return
        self._told.add(key)
        self._left -= 1
        timing, bound = record.get("timing") or {}, record.get("bound") or {}
        median_s, least_s = timing.get("median_s"), bound.get("time_s")
        self._event(
            "finished",
            **_identity(record),
            launch=record.get("launch", 1),
            status=record["status"],
            reasons=record["reasons"],
            median_s=median_s,
            percent_of_bound=100 * least_s / median_s if least_s and median_s else None,
            cells_left=max(0, self._left),
        )

    def died(self, what: str, cause: str, then: str) -> None:
        """A child's death."""
        self._event("died", what=what, cause=cause, then=then)

    def ends(self, told: Mapping[str, Any]) -> None:
        """The last line."""
        self._event("ended", **told)

    def _event(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), file=self._stream, flush=True)


def _is_measured(entry: Mapping[str, Any]) -> bool:
    return entry["decision"] == "run" and bool(entry["estimate_s"])


def _identity(entry: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cell", "implementation", "problem", "problem_id", "pass", "suite", "series")
    return {name: entry[name] for name in names if name in entry}


def _name(entry: Mapping[str, Any]) -> str:
    problem = entry.get("problem")
    told = Problem.from_json(problem).id if problem else entry.get("problem_id", "")
    return f"{entry['implementation']} {told} {entry['pass']}"
