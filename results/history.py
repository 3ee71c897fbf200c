"""Each cell over the runs of one machine, and the events at which cells changed their level."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from results.changepoints import ChangePoint, change_points
from results.run import Run
from results.run_times import RunTimes, times_of


@dataclass(frozen=True)
class Night:
    """One run of a series: what it measured of the cell, one number over its launches."""

    run: str
    utc: str
    commit: str | None
    time_s: float


@dataclass(frozen=True)
class Series:
    """One cell on one machine by one method, oldest night first.

    Attributes:
        part: 1, or more where the method of measuring changed meanwhile: times do not continue.
    """

    name: str
    machine_key: str
    part: int
    nights: tuple[Night, ...]


@dataclass(frozen=True)
class Step:
    """A change of one series' level; `is_last`: no other change has followed."""

    series: Series
    point: ChangePoint
    is_last: bool

    @property
    def is_slower(self) -> bool:
        """Whether the new level takes longer."""
        return self.point.ratio > 1

    @property
    def age(self) -> int:
        """How many runs the new level has, the first one included, until the newest run."""
        return len(self.series.nights) - self.point.index


@dataclass(frozen=True)
class Event:
    """Steps of several cells in one direction at one run, and the commits it lies between."""

    machine_key: str
    run: str
    utc: str
    after_commit: str | None
    until_commit: str | None
    is_slower: bool
    steps: tuple[Step, ...]


def all_series(runs: Iterable[Run]) -> list[Series]:
    """The series of timed runs, by cell, machine and method; flagged rows are left out."""
    return series_of(map(times_of, runs))


def series_of(runs: Iterable[RunTimes]) -> list[Series]:
    """The series of the times that runs gave, oldest first."""
    nights: dict[tuple[str, str, str], list[Night]] = defaultdict(list)
    parts: dict[str, list[str]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.utc, run.run)):
        machine, method = run.machine_key, run.method
        if method not in parts[machine]:
            parts[machine].append(method)
        for name, time_s in run.times_s.items():
            if time_s is not None:
                night = Night(run.run, run.utc, run.commit, time_s)
                nights[(machine, name, method)].append(night)
    return [
        Series(name, machine, parts[machine].index(method) + 1, tuple(found))
        for (machine, name, method), found in nights.items()
    ]


def events(series: Sequence[Series]) -> list[Event]:
    """The changes of level, those at one run and in one direction as one event, newest first."""
    grouped: dict[tuple[str, str, bool], list[Step]] = defaultdict(list)
    for one in series:
        points = change_points([night.time_s for night in one.nights])
        for point in points:
            step = Step(one, point, is_last=point is points[-1])
            run = one.nights[point.index].run
            grouped[(one.machine_key, run, step.is_slower)].append(step)
    found = [_event(machine, steps) for (machine, *_), steps in grouped.items()]
    return sorted(found, key=lambda event: (event.utc, event.is_slower), reverse=True)


def alerts(found: Iterable[Event], within: int) -> list[Event]:
    """The events that call for somebody: slower, not over again, and not older than some runs."""

    def calls(step: Step) -> bool:
        return step.is_slower and step.is_last and step.age <= within

    return [event for event in found if any(calls(step) for step in event.steps)]


def _event(machine_key: str, steps: list[Step]) -> Event:
    first = steps[0]
    nights, index = first.series.nights, first.point.index
    by_size = sorted(steps, key=lambda step: -abs(np.log(step.point.ratio)))
    return Event(
        machine_key,
        nights[index].run,
        nights[index].utc,
        nights[index - 1].commit,
        nights[index].commit,
        first.is_slower,
        tuple(by_size),
    )
