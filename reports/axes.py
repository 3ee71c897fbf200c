"""Parts that figures share: where panels stand, plain numbers on log axes, title and footnotes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from impls.interface.problem import shorten
from reports.owners import part_of
from reports.points import Undrawn
from reports.style import GREY, GRID, plain, plural

DPI = 100


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure on its own canvas, which no backend or open window has a say in."""
    figure = Figure(figsize=(width_in, height_in), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def panel(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place given in inches from the figure's lower left corner."""
    full_width, full_height = figure.get_size_inches()
    place = (left / full_width, bottom / full_height, width / full_width, height / full_height)
    axes = figure.add_axes(place)
    axes.grid(True, color=GRID, linewidth=0.7)
    return axes


def heading(figure: Figure, text: str) -> None:
    """The figure's title, upper left, on as many lines as the width asks for."""
    width, height = figure.get_size_inches()
    lines = "\n".join(_heading_lines(text, width))
    figure.text(0.12 / width, 1 - 0.12 / height, lines, fontsize=13, va="top", linespacing=1.3)


def heading_height(text: str, width_in: float) -> float:
    """Inches that the title takes, margins included."""
    return 0.14 + 0.26 * len(_heading_lines(text, width_in))


def _heading_lines(text: str, width_in: float) -> list[str]:
    """Broken between its parts, a part only where it alone is too long."""
    columns = int(width_in * 9)
    lines: list[str] = []
    for part in text.split(" · "):
        if lines and len(lines[-1]) + len(part) + 3 <= columns:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, columns)
    return lines


def footnote(figure: Figure, sentences: Sequence[str], width_in: float | None = None) -> None:
    """Small grey lines at the foot, wrapped to the figure's width."""
    text = "\n".join(footnote_lines(sentences, width_in or figure.get_size_inches()[0]))
    width, height = figure.get_size_inches()
    figure.text(
        0.12 / width, 0.1 / height, text, fontsize=8.5, color=GREY, va="bottom", linespacing=1.35
    )


def footnote_lines(sentences: Sequence[str], width_in: float) -> list[str]:
    """The footnote's lines as they will be drawn; a figure plans its height by them."""
    columns = int(width_in * 14.6)
    return [line for s in sentences if s for line in textwrap.wrap(s, columns)]


def footnote_height(sentences: Sequence[str], width_in: float) -> float:
    """Inches that the footnote takes, margins included."""
    return 0.22 + 0.165 * len(footnote_lines(sentences, width_in))


def log_axis(
    axes: Axes, which: str, ticks: Sequence[float], name: Callable[[float], str] = plain
) -> None:
    """Make one axis logarithmic with its ticks at exactly these values, in plain numbers."""
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: name(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def draw_whiskers(
    axes: Axes,
    xs: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    colour: str,
    implementation: str,
) -> None:
    """A bar from low to high at each x of one implementation, all as one line with gaps.

    Hundreds stay small in SVG so.
    """
    gap = [math.nan] * len(xs)
    across = [x for bar in zip(xs, xs, gap, strict=True) for x in bar]
    along = [y for bar in zip(lows, highs, gap, strict=True) for y in bar]
    part = part_of(implementation, "whiskers")
    axes.plot(across, along, color=colour, linewidth=1.0, zorder=3, gid=part)


def round_ticks(low: float, high: float, at_most: int = 8) -> list[float]:
    """Round values for a log axis: steps 1-2-5, or sparser when there would be too many."""
    if not 0 < low < high:
        return []
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps, every in (((1, 2, 5), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 4)):
        found = [
            step * 10.0**power
            for power in range(first, last + 1)
            for step in steps
            if power % every == 0 and low <= step * 10.0**power <= high
        ]
        if len(found) <= at_most:
            return found
    return found[:: math.ceil(len(found) / at_most)]


def spaced_out(values: Sequence[float], width_in: float, gap_in: float = 0.3) -> list[float]:
    """Those of the measured `values` that can be labelled on a log axis without touching.

    The first and the last are kept; all are when there is room.
    """
    values = sorted(set(values))
    if len(values) < 3 or values[0] <= 0:
        return list(values)
    inches = width_in / math.log(values[-1] / values[0])
    kept = [values[0]]
    for value in values[1:-1]:
        is_clear = inches * math.log(value / kept[-1]) >= gap_in
        if is_clear and inches * math.log(values[-1] / value) >= gap_in:
            kept.append(value)
    return [*kept, values[-1]]


def undrawn_note(undrawn: Sequence[Undrawn]) -> str:
    """What is not in the plot, counted and named; empty when all is."""
    if not undrawn:
        return ""
    named = [f"{u.implementation} {shorten(u.problem.id)} ({u.why})" for u in undrawn[:4]]
    if len(undrawn) > 4:
        named.append(f"and {len(undrawn) - 4} more")
    return f"{plural(len(undrawn), 'point')} not drawable: {'; '.join(named)}."
