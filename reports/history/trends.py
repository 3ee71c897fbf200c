"""What the trend page tells: of one machine each cell over its runs, its levels, its changes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from results.changepoints import ChangePoint
from results.history import Event, Series, events, series_of
from results.run_folder import load_header
from results.run_times import RunTimes
from results.schema import Cell
from results.timed_runs import newest_rows


@dataclass(frozen=True)
class Point:
    """One run of a cell: `column` counts the machine's runs, `level_s` is its level."""

    column: int
    run: str
    utc: str
    commit: str | None
    time_s: float
    level_s: float
    part: int


@dataclass(frozen=True)
class Change:
    """A new level, and the runs and commits between which it began.

    Attributes:
        column: of the first run of the new level; `column_before` of the last run of the old one.
    """

    column: int
    column_before: int
    ratio: float
    run: str
    utc: str
    after_commit: str | None
    until_commit: str | None

    @property
    def is_slower(self) -> bool:
        """Whether the new level takes longer."""
        return self.ratio > 1

    @property
    def commits(self) -> str:
        """The commits after the first and up to the second, as git names a range."""
        ends = (self.after_commit, self.until_commit)
        return "..".join((commit or "unknown")[:7] for commit in ends)


@dataclass(frozen=True)
class Trend:
    """A cell over the runs: its points oldest first, its changes likewise.

    `cell` is a row of it, for what it is. `parts` is above 1 where the method of measuring changed:
    levels do not reach across.
    """

    name: str
    cell: Cell
    points: tuple[Point, ...]
    changes: tuple[Change, ...]

    @property
    def parts(self) -> int:
        """In how many ways it was measured."""
        return len({point.part for point in self.points})

    @property
    def since_first(self) -> float:
        """The level now, as a ratio to the first one of the same method."""
        same = [point for point in self.points if point.part == self.points[-1].part]
        return same[-1].level_s / same[0].level_s


@dataclass(frozen=True)
class Machine:
    """One machine's trends, the largest changes first, and its events, newest first.

    `columns` are its runs that measured any of the cells: name and time, oldest first;
    `repositories` is where the commits of a change are found, as far as runs recorded it.
    """

    machine_key: str
    device: str
    columns: tuple[tuple[str, str], ...]
    trends: tuple[Trend, ...]
    events: tuple[Event, ...]
    repositories: Mapping[str, str]


def machine_of(runs: Sequence[RunTimes], machine_key: str) -> Machine:
    """The trends of a machine over its runs, of the cells that they have times of.

    Raises:
        SchemaError, OSError: the newest run of a cell cannot be read any more.
    """
    own = [run for run in runs if run.machine_key == machine_key]
    series = series_of(own)
    told = events(series)
    columns = sorted({(night.utc, night.run) for one in series for night in one.nights})
    at = {run: column for column, (_, run) in enumerate(columns)}
    changes: dict[tuple[str, int], list[ChangePoint]] = defaultdict(list)
    for event in told:
        for step in event.steps:
            changes[(step.series.name, step.series.part)].append(step.point)
    by_name: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        by_name[one.name].append(one)
    rows = newest_rows(own, by_name)
    trends = [_trend(rows[name], parts, changes, at) for name, parts in by_name.items()]
    return Machine(
        machine_key,
        max(own, key=lambda run: run.utc).device,
        tuple((run, utc) for utc, run in columns),
        tuple(sorted(trends, key=_telling_first)),
        tuple(told),
        _repositories(own, {c for one in told for c in (one.after_commit, one.until_commit)}),
    )


def _repositories(runs: Sequence[RunTimes], commits: Collection[str | None]) -> dict[str, str]:
    """What the newest run of each of the commits says of where it was pushed to."""
    newest = {run.commit: run for run in sorted(runs, key=lambda run: run.utc)}
    found = {
        commit: load_header(newest[commit].path, is_planned=False).environment.get("repository")
        for commit in commits
        if commit is not None
    }
    return {commit: place for commit, place in found.items() if isinstance(place, str)}


def _trend(
    cell: Cell,
    parts: Sequence[Series],
    changes: dict[tuple[str, int], list[ChangePoint]],
    at: dict[str, int],
) -> Trend:
    points, found = [], []
    for one in sorted(parts, key=lambda series: series.part):
        own = sorted(changes[(one.name, one.part)], key=lambda point: point.index)
        levels = _levels(one, own)
        points += [
            Point(at[n.run], n.run, n.utc, n.commit, n.time_s, level, one.part)
            for n, level in zip(one.nights, levels, strict=True)
        ]
        for point in own:
            old, new = one.nights[point.index - 1], one.nights[point.index]
            found.append(
                Change(
                    *(at[new.run], at[old.run], point.ratio),
                    *(new.run, new.utc, old.commit, new.commit),
                )
            )
    # A method may come back: its runs are then among those of the other.
    points.sort(key=lambda point: point.column)
    found.sort(key=lambda change: change.column)
    return Trend(parts[0].name, cell, tuple(points), tuple(found))


def _levels(one: Series, changes: Sequence[ChangePoint]) -> list[float]:
    """The median between changes, of each night."""
    times = np.array([night.time_s for night in one.nights])
    edges = [0, *(point.index for point in changes), len(times)]
    levels: list[float] = []
    for a, b in itertools.pairwise(edges):
        levels += [float(np.exp(np.median(np.log(times[a:b]))))] * (b - a)
    return levels


def _telling_first(trend: Trend) -> tuple:
    largest = max((abs(np.log(change.ratio)) for change in trend.changes), default=0.0)
    p = trend.cell.problem
    # By size, not by letters: T = 128 before T = 1024.
    sizes = (p.causal, p.T_kv, p.T_q, p.H, p.H_kv, p.d_h, p.B)
    return (-largest, trend.cell.implementation, *sizes, trend.name)
