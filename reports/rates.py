"""Panels of GB/s: compulsory bytes a second against a size, under the roofs of reading memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from impls.interface.cost import compulsory_bytes
from impls.interface.problem import Problem
from reports.axes import draw_whiskers, log_axis, round_ticks, spaced_out
from reports.cost.line_ends import End, name_ends
from reports.labels import Board
from reports.owners import part_of
from reports.points import Point
from reports.style import GREY, LEVEL_NAMES, SHADE, Look, count_name, plain, quantity
from results.run import Run

GB = 1e9


@dataclass(frozen=True)
class Line:
    """One line of a panel: the points of one implementation that differ in one size alone.

    `sizes` are those at which any line of its kind has a point: where it has none it is broken.
    """

    name: str
    look: Look
    points: tuple[Point, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ReadRoof:
    """How fast one level of memory was read on this machine."""

    level: str
    bytes_per_s: float

    @property
    def words(self) -> str:
        """Its name and value: "DRAM read 30.0 GB/s"."""
        return f"{LEVEL_NAMES.get(self.level, self.level)} read {quantity(self.bytes_per_s, 'B/s')}"


def rate(point: Point) -> float:
    """Compulsory bytes a second: each tensor once, whatever the implementation moved."""
    return compulsory_bytes(point.problem, point.pass_) / point.time_s


def read_roofs(run: Run, found: Collection[Point]) -> list[ReadRoof]:
    """The roofs of the levels that serve these points, as their bounds have it."""
    ceilings = run.header.ceilings
    if ceilings is None:
        return []
    cells = {point.cell for point in found}
    levels = {cell.bound.bytes_level for cell in run.cells if cell.bound and cell.cell in cells}
    return [
        ReadRoof(name, level.read_bytes_per_s or level.bytes_per_s)
        for name, level in ceilings.bandwidth.items()
        if name in levels
    ]


def rate_limits(found: Collection[Point], roofs: Collection[ReadRoof]) -> tuple[float, float]:
    """Limits of GB/s that hold the points and the roofs, with room for the roofs' names."""
    rates = [rate(point) / GB for point in found]
    tops = [roof.bytes_per_s / GB for roof in roofs]
    return min(rates) / 1.5, 1.7 * max([*rates, *tops])


def draw_rates(
    axes: Axes,
    lines: Sequence[Line],
    roofs: Sequence[ReadRoof],
    size: Callable[[Problem], int],
    limits: tuple[float, float],
) -> None:
    """The lines over `size`, their names and last values at their ends, and the roofs' names.

    Flagged points are hollow.
    """
    sizes = sorted({size(point.problem) for line in lines for point in line.points})
    stretch = (sizes[-1] / sizes[0]) ** 0.05 if len(sizes) > 1 else 1.5
    axes.set_xlim(sizes[0] / stretch, sizes[-1] * stretch)
    axes.set_ylim(*limits)
    width_in = axes.get_window_extent().width / axes.figure.dpi
    log_axis(axes, "x", spaced_out(sizes, width_in / 1.1), lambda x: count_name(int(x)))
    log_axis(axes, "y", round_ticks(*limits, at_most=9), lambda y: plain(y, 1))
    for line in lines:
        _draw_line(axes, line, size)
    _draw_roofs(axes, roofs, lines, size)
    name_ends(axes, [_end(line, size) for line in lines])


def words_of(line: Line) -> str:
    """What is written at the line's end: its name and its last value, in the axis's unit."""
    return f"{line.name}  {plain(rate(line.points[-1]) / GB)} GB/s"


def _end(line: Line, size: Callable[[Problem], int]) -> End:
    last = line.points[-1]
    return End(size(last.problem), rate(last) / GB, words_of(line), line.look, last.implementation)


def _draw_line(axes: Axes, line: Line, size: Callable[[Problem], int]) -> None:
    known = {size(point.problem): point for point in line.points}
    xs = sorted({*line.sizes, *known})
    ys = [rate(known[x]) / GB if x in known else math.nan for x in xs]
    look = line.look
    name = line.points[0].implementation
    drawn = axes.plot(xs, ys, color=look.colour, linewidth=1.5, linestyle=look.dash, zorder=2)
    drawn[0].set_gid(part_of(name))
    lows = [rate(p) / GB * p.time_s / p.high_s for p in known.values()]
    highs = [rate(p) / GB * p.time_s / p.low_s for p in known.values()]
    draw_whiskers(axes, list(known), lows, highs, look.colour, name)
    for x, point in known.items():
        axes.plot(
            [x],
            [rate(point) / GB],
            marker=look.marker,
            markersize=6,
            markerfacecolor="white" if point.flags else look.colour,
            markeredgecolor=look.colour,
            markeredgewidth=1.2 if point.flags else 0.6,
            linestyle="none",
            zorder=4,
            gid=point.mark,
        )


def _draw_roofs(
    axes: Axes,
    roofs: Sequence[ReadRoof],
    lines: Sequence[Line],
    size: Callable[[Problem], int],
) -> None:
    """Grey lines across, the shade above the fastest, and their names where there is room."""
    if not roofs:
        return
    left, right = axes.get_xlim()
    fastest = max(roof.bytes_per_s for roof in roofs) / GB
    axes.fill_between([left, right], fastest, axes.get_ylim()[1], color=SHADE, lw=0, zorder=0)
    board = Board(axes)
    for line in lines:
        places = [(size(p.problem), rate(p) / GB) for p in line.points]
        for x, y in places:
            board.add_mark(x, y, 5)
        board.add_stroke([x for x, _ in places], [y for _, y in places])
    for roof in roofs:
        y = roof.bytes_per_s / GB
        axes.plot([left, right], [y, y], color=GREY, linewidth=1.8, zorder=1, gid="roof-read")
        board.add_stroke([left, right], [y, y])
    for roof in roofs:
        spots = []
        for share, gap in itertools.product((0.03, 0.97, 0.3, 0.6), (3, -4)):
            x, y = board.pixels(left * (right / left) ** share, roof.bytes_per_s / GB)
            at = ("right" if share > 0.9 else "left", "bottom" if gap > 0 else "top")
            spots.append((x, y + gap, *at))
        board.put(roof.words, spots, color=GREY, fontsize=8.5)
