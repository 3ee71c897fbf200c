"""The devices of one kind and the run that they measure together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suites.fleet.display import FleetDisplay, device_of
from suites.fleet.engine import Engine, Node
from suites.fleet.ledger import Ledger
from suites.fleet.packing import packs
from suites.measure.journal import row_of
from suites.supervisor.death import verdict
from suites.supervisor.run_files import RunFiles

FRUITLESS = 3
"""A place whose tasks ended so often in a row without one finished cell is not used again."""


@dataclass
class _Place:
    """Room for one task on a node."""

    node: Node
    fruitless: int = 0


@dataclass
class _Task:
    """One that is out: where, what it holds, and how much it finished."""

    place: _Place
    rows: tuple[str, ...]
    device: str | None = None
    finished: int = 0
    failure: str | None = None


class Kind:
    """A run that is measured on the devices of its kind, launch after launch.

    The journal is written here alone, one line as it comes: the run directory is a supervised
    run's, and is gone on with like one.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        files: RunFiles,
        display: FleetDisplay,
        order: Mapping[str, Any],
        launches: int,
    ) -> None:
        """`order` is what every task is told; nothing is dealt yet."""
        self.files, self.display = files, display
        self._order, self._launches = order, launches
        self._free = [_Place(node) for node in nodes for _ in range(node.devices)]
        self._devices = len(self._free)
        self._tasks: dict[int, _Task] = {}
        self._launch = 0
        self._last = "nothing was told"
        self._warned: set[str] = set()
        self._ledger = Ledger(())
        self.tasks_started = 0
        self.failure: str | None = None
        files.header["launches"] = launches
        self._next_launch()

    @property
    def is_over(self) -> bool:
        """Whether every launch is measured, or no device is left that finishes anything."""
        is_done = self._ledger.is_done and self._launch == self._launches
        return is_done or self.failure is not None

    @property
    def is_at_work(self) -> bool:
        """Whether a task of it is out."""
        return bool(self._tasks)

    def deal(self, engine: Engine, numbers: Iterator[int]) -> None:
        """Start a task on every free device that there is a pack for, with the next numbers."""
        if self._ledger.is_done and self._launch < self._launches:
            self._next_launch()
        while self._ledger.is_waiting and self._free:
            self._start(engine, next(numbers), self._free.pop(0))
        if self._ledger.is_waiting and not self._tasks:
            self.failure = f"no device of {self.files.name} finishes a cell: {self._last}"

    def has(self, task: int) -> bool:
        """Whether it is one of this kind's that is out."""
        return task in self._tasks

    def heed(self, number: int, what: Mapping[str, Any]) -> None:
        """Take in what a task told.

        Raises:
            OSError: the disk refused a line.
        """
        task = self._tasks[number]
        if "holds" in what:
            task.device = device_of(what["holds"])
            self.display.holds(what["holds"], len(task.rows))
        elif "started" in what:
            self._ledger.starts(number, what["started"])
            self.display.started(self.files.entries[what["started"]])
        elif "finished" in what:
            self._finished(number, task, what["finished"])
        elif "died" in what:
            self.display.died(*what["died"])
        elif "line" in what:
            self._warn(what["line"])
        elif "ended" in what:
            task.failure = what["ended"]["failure"]

    def ended(self, number: int, lost: str | None) -> None:
        """A task is over: what it leaves is dealt again.

        Raises:
            OSError: the disk refused a line.
        """
        task = self._tasks.pop(number)
        given_up = self._ledger.ends(number, lost)
        for row, deaths in given_up:
            status, reasons = verdict(deaths)
            self.display.finished(self.files.judge(row, self._launch, status, reasons))
        if lost is not None or task.failure is not None:
            self._last = lost or task.failure or ""
            left = len(task.rows) - task.finished
            self.display.died(task.device or task.place.node.name, self._last, _again(left))
        place = task.place
        place.fruitless = 0 if task.finished or given_up else place.fruitless + 1
        if place.fruitless < FRUITLESS:
            self._free.append(place)

    def _warn(self, line: str) -> None:
        """Show a warning, once for all tasks; what else children say is of one task alone."""
        if line.startswith("WARNING") and line not in self._warned:
            self._warned.add(line)
            self.display.line(line)

    def _finished(self, number: int, task: _Task, record: Mapping[str, Any]) -> None:
        row = row_of(record)
        if not self._ledger.accepts(number, row):
            return
        is_new = (row, self._launch) not in self.files.statuses
        task.finished += is_new
        told = {**record, "from_device": task.device}
        self.files.append(told)
        self.display.finished(told)

    def _next_launch(self) -> None:
        self._launch += 1
        left = [self.files.entries[row] for row in self.files.left(self._launch)]
        self._ledger = Ledger(packs(left, self._devices) if left else ())
        if left:
            self.display.begins(left, self._launch, self._launches)

    def _start(self, engine: Engine, number: int, place: _Place) -> None:
        rows = self._ledger.deal(number)
        plan = [self.files.entries[row] for row in rows]
        header = {**self.files.header, "plan": plan, "counts": {}, "finished_utc": None}
        order = {"do": "measure", "launch": self._launch, "header": header}
        engine.start(number, place.node, {**self._order, **order})
        self._tasks[number] = _Task(place, rows)
        self.tasks_started += 1


def _again(cells: int) -> str:
    return f"{cells} cells are dealt again" if cells else "nothing is lost"
