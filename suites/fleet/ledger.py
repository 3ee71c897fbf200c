"""Who has which rows: dealt to tasks, taken back from lost ones, each accepted from one alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suites.supervisor.death import Death, is_settled


@dataclass
class _Held:
    """What one task was given, and the row it is at."""

    rows: tuple[str, ...]
    running: str | None = None


class Ledger:
    """The rows of one launch, in packs, from the first to the last.

    A row is finished by the task that told of it first, further lines of it are that task's too;
    whatever another one tells of it is not accepted.
    """

    def __init__(self, packs: Iterable[Sequence[str]]) -> None:
        """Nothing is dealt yet."""
        self._waiting = deque(tuple(pack) for pack in packs)
        self._held: dict[int, _Held] = {}
        self._finished_by: dict[str, int | None] = {}
        self._losses: dict[str, list[Death]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a pack is there for a free device."""
        return bool(self._waiting)

    @property
    def is_done(self) -> bool:
        """Whether every row is finished or given up, and no task is out."""
        return not self._waiting and not self._held

    def deal(self, task: int) -> tuple[str, ...]:
        """The rows of the next pack, which are now the task's."""
        rows = self._waiting.popleft()
        self._held[task] = _Held(rows)
        return rows

    def starts(self, task: int, row: str) -> None:
        """A task told that it is at a row."""
        if task in self._held:
            self._held[task].running = row

    def accepts(self, task: int, row: str) -> bool:
        """Whether a line of this row, told by this task, belongs into the run."""
        held = self._held.get(task)
        if held is None or row not in held.rows:
            return False
        if held.running == row:
            held.running = None
        return self._finished_by.setdefault(row, task) == task

    def ends(self, task: int, lost: str | None = None) -> list[tuple[str, list[Death]]]:
        """Take back what a task leaves; → the rows that are given up, with what they died of.

        `lost` says how its worker was lost, None where it ended by itself. A worker that is lost
        is not its cell's fault, unless that happens again and again: the cell that was running is
        then alone in a task, and settled as a supervisor settles kills from outside. What is dealt
        again comes last: if it is bad, the rest is measured by then.
        """
        held = self._held.pop(task)
        lacking = [row for row in held.rows if row not in self._finished_by]
        suspect = held.running if lost is not None and held.running in lacking else None
        rest = tuple(row for row in lacking if row != suspect)
        if rest:
            self._waiting.append(rest)
        if suspect is None:
            return []
        deaths = self._losses.setdefault(suspect, [])
        deaths.append(Death(f"its worker was lost: {lost}", "crashed", True, ()))
        if is_settled(deaths):
            self._finished_by[suspect] = None
            return [(suspect, deaths)]
        self._waiting.append((suspect,))
        return []
