"""What a run gives to draw: one point per measured cell, in SI units, and what cannot be drawn."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from impls.interface.problem import Problem
from results.schema import Cell


@dataclass(frozen=True)
class Point:
    """One measured cell, seconds and counts.

    `low_s` and `high_s` are the quartiles of its samples, or with several launches the fastest and
    the slowest launch's median.
    """

    cell: str
    implementation: str
    problem: Problem
    pass_: str
    cache: str
    clock: str
    suite: str
    series: str
    time_s: float
    low_s: float
    high_s: float
    n: int
    launches: int
    flags: tuple[str, ...]
    flop: int
    algorithmic_bytes: int
    cache_bytes: int | None
    bound_s: float | None
    binds: str | None

    @property
    def mark(self) -> str:
        """The id of its mark in the figures."""
        return mark_of(self.cell, self.suite, self.series)

    @property
    def flop_per_s(self) -> float:
        """Useful FLOP/s: the numerator is the problem's, the same for every implementation."""
        return self.flop / self.time_s

    @property
    def intensity(self) -> float:
        """Useful FLOP for each byte that the algorithm must move."""
        return self.flop / self.algorithmic_bytes

    @property
    def cache_intensity(self) -> float | None:
        """Useful FLOP for each byte that the tiles bring from the cache; None: not declared."""
        return None if self.cache_bytes is None else self.flop / self.cache_bytes

    @property
    def share(self) -> float | None:
        """The part of the bound that was reached: 1 is at the bound."""
        return None if self.bound_s is None else self.bound_s / self.time_s


def mark_of(cell: str, suite: str, series: str) -> str:
    """The id of the mark of a row: two series of a suite may share a cell."""
    return f"point-{cell}-{suite}-s{zlib.crc32(series.encode()):x}"


@dataclass(frozen=True)
class Undrawn:
    """A timed cell that no logarithmic axis or no honest plot can show, and why."""

    implementation: str
    problem: Problem
    suite: str
    why: str


def points(cells: Iterable[Cell]) -> tuple[list[Point], list[Undrawn]]:
    """All points of a run's cells, in the cells' order, and the timed cells left out of them."""
    launches: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.timing is not None:
            launches.setdefault((cell.cell, cell.suite, cell.series), []).append(cell)
    drawn: list[Point] = []
    undrawn: list[Undrawn] = []
    for group in launches.values():
        first = group[0]
        if why := next((why for cell in group if (why := _why_not(cell))), ""):
            undrawn.append(Undrawn(first.implementation, first.problem, first.suite, why))
        else:
            drawn.append(_point(group))
    return drawn, undrawn


def _why_not(cell: Cell) -> str:
    """Why no point can stand for the timed cell; empty when one can."""
    if cell.status == "wrong":
        return "wrong result"
    if cell.time_s is None or not math.isfinite(cell.time_s):
        return "no finite time"
    if cell.time_s <= 0:
        return f"time {cell.time_s:g} s"
    if cell.counts is None or cell.counts.flop <= 0 or cell.counts.compulsory_bytes <= 0:
        return "no FLOP or bytes counted"
    return ""


def _point(group: Sequence[Cell]) -> Point:
    first = group[0]
    timing, counts = first.timing, first.counts
    assert timing is not None and counts is not None
    times = [cell.timing.median_s for cell in group if cell.timing is not None]
    time_s = median(times)
    low_s, high_s = min(times), max(times)
    if len(group) == 1:
        low_s = time_s if timing.q1_s is None else timing.q1_s
        high_s = time_s if timing.q3_s is None else timing.q3_s
    return Point(
        cell=first.cell,
        implementation=first.implementation,
        problem=first.problem,
        pass_=first.pass_,
        cache=first.cache,
        clock=first.clock,
        suite=first.suite,
        series=first.series,
        time_s=time_s,
        # A log axis has no zero: a whisker that crosses it is cut at a hundredth of its point.
        low_s=min(max(low_s, time_s / 100), time_s),
        high_s=max(high_s, time_s),
        n=timing.n,
        launches=len(group),
        flags=tuple(sorted({flag for cell in group for flag in cell.flags})),
        flop=counts.flop,
        algorithmic_bytes=counts.algorithmic_bytes or counts.compulsory_bytes,
        cache_bytes=counts.cache_bytes,
        bound_s=None if first.bound is None else first.bound.time_s,
        binds=None if first.bound is None else first.bound.binds,
    )
