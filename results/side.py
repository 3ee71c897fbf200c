"""A side of a comparison: of each cell one number a launch, out of one run or of several.

The number is the lower quartile of the launch's samples on a CPU, the median on CUDA, whose noise
is two-sided. Rounds of a launch are never samples of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from results.run import Header, Run
from results.schema import Cell

# What a cell is, whatever measured it: its settings are compared run by run.
Key = tuple[str, str, str, str, str]
# The implementation of a side that is one implementation's cells.
ANY = "*"
NOT_MEASURED = ("unsupported", "unavailable", "skipped")
STATISTICS = {"cpu": "lower quartile", "cuda": "median"}


class SideMistake(ValueError):
    """What was named cannot be a side; the message says what can."""


@dataclass(frozen=True)
class SideCell:
    """One cell over the launches of a side.

    Attributes:
        times_s: by launch, "<run>#<n>"; only of launches in which it was ok and without a flag.
        statuses: how often it ended how, flagged rows counted by their flags.
        reason: why, where it was not ok.
        counters: exact figures by name; None where launches disagree, absent where unknown.
    """

    key: Key
    name: str
    suite: str
    times_s: Mapping[str, float]
    statuses: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    counters: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def broken(self) -> str | None:
        """How it broke in any launch: a crash in one of twenty is a crash. None: it did not."""
        order = ("wrong", "crashed", "error", "oom", "timeout")
        return next((status for status in order if self.statuses.get(status)), None)

    @property
    def is_left_out(self) -> bool:
        """Whether every launch had a reason of its plan, its budget say, not to try it."""
        return set(self.statuses) == {"skipped"}

    @property
    def is_measured(self) -> bool:
        """Whether any launch tried it at all."""
        return any(status not in NOT_MEASURED for status in self.statuses)


@dataclass(frozen=True)
class Side:
    """The launches of one side in the order of measuring, and its cells by what they are.

    `folders` are those of its runs; a baseline has none.
    """

    name: str
    headers: tuple[Header, ...]
    launches: tuple[str, ...]
    cells: Mapping[Key, SideCell]
    folders: tuple[Path, ...] = ()

    @property
    def commit(self) -> str | None:
        """The commit it measured; None where unknown or several."""
        commits = {header.commit for header in self.headers}
        return commits.pop() if len(commits) == 1 else None


def side(name: str, runs: Sequence[Run], *, implementation: str | None = None) -> Side:
    """The launches of some runs as one side, by the time they were measured.

    With `implementation`, its cells alone and called `ANY`, so that two implementations can be set
    against each other.

    Raises:
        SideMistake: no run was given, or one was given twice.
    """
    if not runs:
        raise SideMistake(f"{name}: no runs: give at least one")
    folders = tuple(run.path.resolve() for run in runs)
    twice = [path for path, n in Counter(folders).items() if n > 1]
    if twice:
        raise SideMistake(f"{name}: {twice[0].name} is given twice: its launches count once")
    launches: list[str] = []
    rows: dict[Key, dict[str, Cell]] = defaultdict(dict)
    for run in sorted(runs, key=lambda run: (run.header.created_utc, run.name)):
        numbers = sorted({cell.launch for cell in run.cells})
        launches += [f"{run.name}#{number}" for number in numbers]
        for cell in run.cells:
            if implementation is not None and cell.implementation != implementation:
                continue
            # Two suites may ask for one cell: in a launch its first row counts.
            rows[key_of(cell, implementation)].setdefault(f"{run.name}#{cell.launch}", cell)
    cells = {key: _cell(key, by_launch) for key, by_launch in rows.items()}
    return Side(name, tuple(run.header for run in runs), tuple(launches), cells, folders)


def key_of(cell: Cell, implementation: str | None = None) -> Key:
    """What the cell is: implementation, problem, pass, cache state and clock."""
    who = ANY if implementation is not None else cell.implementation
    return (who, cell.problem.id, cell.pass_, cell.cache, cell.clock)


def time_of(cell: Cell) -> float | None:
    """The one number of a launch: lower quartile on a CPU, median on CUDA; None if not timed."""
    if cell.timing is None:
        return None
    is_cuda = "cuda" in cell.clock
    return cell.timing.median_s if is_cuda else cell.timing.q1_s or cell.timing.median_s


def _cell(key: Key, by_launch: Mapping[str, Cell]) -> SideCell:
    statuses: Counter[str] = Counter()
    for cell in by_launch.values():
        statuses.update(cell.flags if cell.status == "ok" and cell.flags else [cell.status])
    bad = [cell for cell in by_launch.values() if cell.status != "ok" and cell.reasons]
    times = {
        launch: time
        for launch, cell in by_launch.items()
        if cell.is_comparable and (time := time_of(cell))
    }
    suite = next(iter(by_launch.values())).suite
    reason = bad[0].reasons[0] if bad else None
    return SideCell(
        key, " ".join(key), suite, times, dict(statuses), reason, _counters(by_launch.values())
    )


def _counters(cells: Iterable[Cell]) -> dict[str, int | None]:
    """What can be counted exactly, over the launches in which the cell was ok."""
    seen: dict[str, set[int]] = defaultdict(set)
    for cell in cells:
        if cell.status == "ok":
            for name, value in counters_of(cell).items():
                seen[name].add(value)
    return {name: next(iter(v)) if len(v) == 1 else None for name, v in seen.items()}


def counters_of(cell: Cell) -> dict[str, int]:
    """The exact figures of one row by name: less is better of each."""
    given: dict[str, Any] = {}
    if cell.counts is not None:
        given |= {
            "flop": cell.counts.flop,
            "exp": cell.counts.exp,
            "algorithmic_bytes": cell.counts.algorithmic_bytes,
        }
    if cell.memory is not None:
        names = ("peak_bytes", "allocations", "allocated_bytes")
        given |= {name: getattr(cell.memory, name) for name in names}
    if cell.counters is not None:
        # Whether it is compiled at all, its graphs tell, is no merit and no fault.
        given |= {k: v for k, v in asdict(cell.counters).items() if k != "graphs"}
    return {name: value for name, value in given.items() if value is not None}
