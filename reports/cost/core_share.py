"""The core's share of a layer's FLOP against T, and the T at which it costs what projections do."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import footnote, footnote_height, heading, heading_height, new_figure
from reports.axes import panel as place
from reports.cost.comparison import Comparison, Line
from reports.cost.line_ends import draw_line, length_axis
from reports.style import GREY, Look, looks

WIDTH, HEIGHT = 4.3, 3.9  # inches
_LINE_IN, _NUMBER_IN = 0.21, 0.85
_LEFT, _GAP, _RIGHT, _HEAD, _FOOT = 0.75, 0.3, 0.15, 0.3, 0.6
_PARTS = (
    ("prefill", "prefill: the mean of T tokens"),
    ("decode", "decode: a token that sees T"),
)


def draw(comparison: Comparison) -> Figure:
    """Prefill and decode side by side; a point where the core and the projections are equal."""
    known = looks(line.name for line in comparison.lines)
    title = comparison.title("The core's share of the attention layer's FLOP")
    notes = [
        "T: the least at which core and projections cost the same (marked), d_model·(1 + H_kv/H) "
        "for heads that see all T, twice that less one in a causal prefill. MLA: expanded in "
        "prefill, absorbed in decode."
    ]
    missing = [
        f"{line.name} in {part}"
        for part, _ in _PARTS
        for line in comparison.lines
        if line.crossings[part] is None
    ]
    if missing:
        notes.append(f"The window keeps the core below for good: {', '.join(missing)}.")
    width = _LEFT + 2 * WIDTH + _GAP + _key_in(comparison)
    foot = _FOOT + footnote_height(notes, width)
    figure = new_figure(width, heading_height(title, width) + _HEAD + HEIGHT + foot)
    heading(figure, title)
    for i, (part, words) in enumerate(_PARTS):
        axes = place(figure, _LEFT + i * (WIDTH + _GAP), foot, WIDTH, HEIGHT)
        axes.set_title(words, loc="left", fontsize=10.5)
        axes.set_ylim(0, 100)
        length_axis(axes, comparison.lengths, WIDTH)
        if i == 0:
            axes.set_ylabel("core, % of projections and core")
        else:
            axes.tick_params(labelleft=False)
        axes.axhline(50, color=GREY, linewidth=1.0, linestyle=(0, (5, 3)), zorder=2)
        _draw_part(axes, comparison.lines, part, known)
    _name_lines(figure, comparison, known, foot + HEIGHT)
    footnote(figure, notes)
    return figure


def _draw_part(axes: Axes, lines: tuple[Line, ...], part: str, known: dict[str, Look]) -> None:
    low, high = axes.get_xlim()
    for line in lines:
        look = known[line.name]
        xs, shares = line.known(f"{part}_core_share")
        ys = [100 * share for share in shares]
        draw_line(axes, xs, ys, look)
        crossing = line.crossings[part]
        if crossing is not None and low <= crossing <= high:
            mark = axes.plot([crossing], [50], marker=look.marker, color=look.colour, markersize=8)
            mark[0].set(zorder=4, markeredgecolor="white", gid=f"crossing-{line.name}")


def _name_lines(figure: Figure, comparison: Comparison, known: dict[str, Look], top: float) -> None:
    """A key right of the panels, its head at `top` inches: marker, name, and where it crosses."""
    width = figure.get_size_inches()[0]
    key_in = _key_in(comparison)
    axes = place(figure, width - key_in, 0.0, key_in, top)
    axes.set_axis_off()
    axes.set_xlim(0, key_in)
    axes.set_ylim(0, top)
    rights = [key_in - _RIGHT - i * _NUMBER_IN for i in (1, 0)]
    first = top - 2.4 * _LINE_IN
    ranked = sorted(comparison.lines, key=lambda one: -(one.crossings["prefill"] or math.inf))
    axes.text(rights[-1], top, "core = projections at T", va="top", ha="right", fontsize=9)
    for x, (part, _) in zip(rights, _PARTS, strict=True):
        axes.text(x, top - _LINE_IN, part, va="top", ha="right", fontsize=9)
    for row, line in enumerate(ranked):
        look, y = known[line.name], first - row * _LINE_IN
        axes.plot([0.15], [y], marker=look.marker, color=look.colour, markersize=7)
        words = [(0.3, line.name, "left")]
        for x, (part, _) in zip(rights, _PARTS, strict=True):
            crossing = line.crossings[part]
            words.append((x, "never" if crossing is None else f"{crossing:,}", "right"))
        for x, shown, side in words:
            text = axes.text(x, y, shown, color=look.ink, va="center", ha=side, gid="label")
            text.set(fontsize=9.5, fontweight="bold")


def _key_in(comparison: Comparison) -> float:
    longest = max(len(line.name) for line in comparison.lines)
    return 0.35 + 0.09 * longest + 2 * _NUMBER_IN + _RIGHT
