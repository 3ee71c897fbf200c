"""A small panel for each cell: its time over the runs, its levels, where and how much they changed.

Every panel has the same two axes, so that panels compare: runs of the machine from left to right,
and time against the cell's own first level from bottom to top.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from reports.axes import footnote, footnote_height, heading, heading_height, new_figure, panel
from reports.history.trends import Change, Machine, Point, Trend
from reports.style import CLOCK_NAMES, GREY, PALE, SHADE, quantity, shortened
from results.phrases import DTYPE_NAMES
from results.verdict_text import change_text

TITLE = "Time over the runs of this machine"
MOST_PANELS = 40
MOST_DOTS = 2000
"""So many runs have a dot of their own in a panel; of more, the ends of each stretch have one."""
MARGIN = 0.6
"""Of a run's width, left and right of all."""
_COLUMNS, _WIDTH, _HEIGHT = 4, 2.75, 1.25  # inches
_LEFT, _GAP, _HEAD, _FOOT = 0.8, 0.28, 0.62, 0.45
_LINE = 0.155  # inches of a line of words above a panel
_LETTERS, _MOST_LINES = 42, 2  # of a problem at 8 pt
_MOST_NAME = 32  # letters of a name in bold
# Slower and faster: colours that differ in lightness too, and the label has a sign and an arrow.
_SLOWER, _FASTER, _LEVEL = "#A63600", "#00795A", "#0072B2"
_LEAST_SPAN = math.log(1.08)
_ABOVE: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}


def draw(machine: Machine) -> Figure | None:
    """The panels of the most telling cells; None where no cell was timed."""
    shown = machine.trends[:MOST_PANELS]
    if not shown:
        return None
    common = _common(machine.trends)
    title = " · ".join([TITLE, machine.device, *([" ".join(common)] if common else [])])
    rows = math.ceil(len(shown) / _COLUMNS)
    columns = min(_COLUMNS, len(shown))
    width = max(_LEFT + columns * (_WIDTH + _GAP), 7.0)
    notes = _notes(machine, len(shown))
    foot = _FOOT + footnote_height(notes, width)
    head = heading_height(title, width)
    lines = [_problem_lines(trend, common) for trend in shown]
    row_in = _HEIGHT + _HEAD + _LINE * max(map(len, lines))
    height = head + rows * row_in + foot
    figure = new_figure(width, height)
    heading(figure, title)
    low, high = _limits(shown)
    for n, trend in enumerate(shown):
        row, column = divmod(n, _COLUMNS)
        left = _LEFT + column * (_WIDTH + _GAP)
        bottom = height - head - (row + 1) * row_in + 0.1
        axes = panel(figure, left, bottom, _WIDTH, _HEIGHT)
        axes.set_gid(f"panel-{n + 1}")
        _draw_panel(axes, trend, machine, (low, high), n + 1)
        _name(axes, trend, lines[n])
        axes.tick_params(labelleft=column == 0, labelbottom=n + _COLUMNS >= len(shown))
        if column == 0:
            axes.set_ylabel("change of time", fontsize=8)
    footnote(figure, notes)
    return figure


def dots(machine: Machine) -> dict[str, list[Point]]:
    """The runs of each drawn panel by the id of their dots, in the order of drawing.

    `within-3` are those of the third panel that lie within its axes; the others are of `above-3`
    or of `below-3`.
    """
    shown = machine.trends[:MOST_PANELS]
    limits = _limits(shown)
    found: dict[str, list[Point]] = {}
    for number, trend in enumerate(shown, start=1):
        for point, height in _with_dots(trend):
            where = "above" if height > limits[1] else "below" if height < limits[0] else "within"
            found.setdefault(f"{where}-{number}", []).append(point)
    return found


def _with_dots(trend: Trend) -> list[tuple[Point, float]]:
    """The runs that are drawn, with their heights: all, or of each stretch its two extremes."""
    every = list(zip(trend.points, _heights(trend), strict=True))
    if len(every) <= MOST_DOTS:
        return every
    heights = [height for _, height in every]
    long = math.ceil(2 * len(every) / MOST_DOTS)
    kept: list[int] = []
    for first in range(0, len(every), long):
        stretch = range(first, min(first + long, len(every)))
        kept += sorted(
            {min(stretch, key=heights.__getitem__), max(stretch, key=heights.__getitem__)}
        )
    return [every[n] for n in kept]


def _heights(trend: Trend) -> list[float]:
    """The logarithm of each run's time over the first level by its method."""
    first_s = {p.part: p.level_s for p in reversed(trend.points)}
    return [math.log(p.time_s / first_s[p.part]) for p in trend.points]


def _draw_panel(
    axes: Axes, trend: Trend, machine: Machine, limits: tuple[float, float], number: int
) -> None:
    low, high = limits
    axes.set_xlim(-MARGIN, len(machine.columns) - 1 + MARGIN)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(_ticks(low, high)))
    axes.yaxis.set_major_formatter(lambda value, _: _percent(math.exp(value)))
    last = len(machine.columns) - 1
    dates = {0: machine.columns[0][1][:10], last: machine.columns[last][1][:10]}
    axes.set_xticks(list(dates), list(dates.values()), fontsize=8)
    # Two runs are too near one another for dates that reach inwards.
    for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=False):
        label.set_horizontalalignment(side if last > 1 else "center")
    axes.tick_params(labelsize=8, length=2)
    first_s = {p.part: p.level_s for p in reversed(trend.points)}
    for before, after in itertools.pairwise(trend.points):
        if before.part != after.part:
            axes.axvline((before.column + after.column) / 2, color=PALE, linestyle=(0, (2, 2)))
    for change in trend.changes:
        axes.axvspan(change.column_before, change.column, color=SHADE, zorder=0)
        axes.axvline(
            (change.column_before + change.column) / 2, color=_colour(change), linewidth=1.2
        )
    drawn = _with_dots(trend)
    x, y = np.array([p.column for p, _ in drawn]), np.array([height for _, height in drawn])
    inside = (y >= low) & (y <= high)
    within = axes.plot(x[inside], y[inside], "o", color=GREY, markersize=2.6, alpha=0.75)
    within[0].set_gid(f"within-{number}")
    for where, own, edge, marker in (("above", y > high, high, "^"), ("below", y < low, low, "v")):
        beyond = axes.plot(x[own], np.full(own.sum(), edge), marker, color=GREY, markersize=4)
        beyond[0].set(clip_on=False, gid=f"{where}-{number}")
    for part, start_s in first_s.items():
        own = [p for p in trend.points if p.part == part]
        steps = np.log([p.level_s / start_s for p in own])
        axes.step([p.column for p in own], steps, where="mid", color=_LEVEL, linewidth=1.6)


def _name(axes: Axes, trend: Trend, problem: Sequence[str]) -> None:
    """Above the panel who, what, and the level now with the last change."""
    lines = [
        shortened(trend.cell.implementation, _MOST_NAME),
        *problem,
        quantity(trend.points[-1].level_s, "s"),
    ]
    above = [
        axes.annotate(words, (0, 1), (0, 72 * (0.06 + _LINE * n)), fontsize=8, **_ABOVE)
        for n, words in enumerate(reversed(lines))
    ]
    above[0].set_color(GREY)
    above[-1].set(fontsize=8.5, fontweight="bold")
    if trend.changes:
        last = trend.changes[-1]
        more = f" (+{len(trend.changes) - 1})" if len(trend.changes) > 1 else ""
        arrow = "▲" if last.is_slower else "▼"
        words = f"{arrow} {change_text(last.ratio)} {last.commits}{more}"
        text = axes.annotate(words, (1, 1), (0, 72 * 0.06), **_ABOVE)
        text.set(fontsize=8, color=_colour(last), ha="right")


def _problem_lines(trend: Trend, common: Sequence[str]) -> list[str]:
    """What of the cell is not who and not common to all, in lines as wide as a panel."""
    words = _words(trend)
    own = [word for word in words if word not in common]
    return textwrap.wrap(
        " ".join(own), _LETTERS, max_lines=_MOST_LINES, placeholder=" …", break_on_hyphens=False
    )


def _notes(machine: Machine, shown: int) -> list[str]:
    notes = [
        "One dot a run: the lower quartile of its samples (the median on CUDA), the middle of its "
        "launches; the line is the level between changes, a triangle a run beyond the axis. "
        "0 % is the cell's first level.",
        "A change is found by PELT with the L1 cost on logarithms, is 3 % at least and counts from "
        "its third run on; it began in the shaded commits; (+1): and one before it. A dashed line: "
        "the method changed.",
    ]
    if max(len(trend.points) for trend in machine.trends[:shown]) > MOST_DOTS:
        notes.append(
            f"Where a panel has more than {MOST_DOTS} runs, dots are the fastest and the slowest "
            "of each few in a row."
        )
    if shown < len(machine.trends):
        left = len(machine.trends) - shown
        notes.append(f"{left} more cells, with smaller changes or none, are in the table alone.")
    return notes


def _limits(trends: Sequence[Trend]) -> tuple[float, float]:
    """Room for every level, and for nearly every run."""
    values: list[float] = []
    for trend in trends:
        first_s = {p.part: p.level_s for p in reversed(trend.points)}
        levels = [math.log(p.level_s / first_s[p.part]) for p in trend.points]
        values += [min(levels), max(levels), *np.quantile(_heights(trend), [0.1, 0.9])]
    low, high = min([*values, -_LEAST_SPAN / 2]), max([*values, _LEAST_SPAN / 2])
    margin = 0.12 * (high - low)
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    steps = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    lowest, highest = math.exp(low) - 1, math.exp(high) - 1
    step = next((s for s in steps if (highest - lowest) / s <= 4.5), 10.0)
    counts = range(math.ceil(lowest / step), math.floor(highest / step) + 1)
    return [math.log1p(n * step) for n in counts]


def _percent(ratio: float) -> str:
    return "0 %" if abs(ratio - 1) < 1e-9 else f"{100 * (ratio - 1):+.0f} %".replace("-", "−")


def _colour(change: Change) -> str:
    return _SLOWER if change.is_slower else _FASTER


def _common(trends: Sequence[Trend]) -> list[str]:
    """The words that every cell's problem and pass have, where there are several cells."""
    split = [_words(trend) for trend in trends]
    if len(split) < 2:
        return []
    return [word for word in split[0] if all(word in words for words in split)]


def _words(trend: Trend) -> list[str]:
    """What the cell is, but for who: the sizes of its problem, pass, cache and clock."""
    cell = trend.cell
    sizes = [DTYPE_NAMES.get(word, word) for word in cell.problem.id.split(",")]
    clock = CLOCK_NAMES.get(cell.clock, cell.clock)
    return [*sizes, cell.pass_.replace("_", " + "), cell.cache, clock]
