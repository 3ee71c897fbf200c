"""The KV cache of one sequence against T, with the memory of devices as lines across."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    log_axis,
    new_figure,
    round_ticks,
)
from reports.axes import panel as place
from reports.cost.comparison import Comparison
from reports.cost.line_ends import End, draw_line, length_axis, margin_in, name_ends
from reports.style import GREY, looks, plain, quantity

WIDTH, HEIGHT = 6.0, 4.2  # inches
_LEFT, _FOOT = 0.95, 0.6
_REACH = 300.0  # memories so many times the largest cache would only squeeze the rest
_NAME_PX = 16  # a name between two lines needs this much


def draw(comparison: Comparison) -> Figure:
    """A line for each variant; dashed across, what devices hold."""
    known = looks(line.name for line in comparison.lines)
    title = comparison.title("KV cache of one sequence")
    notes = [
        "Dashed: all of a device's memory (10⁹ bytes, datasheet); weights, activations and "
        "fragmentation take their part first."
    ]
    width = _LEFT + WIDTH + margin_in(f"{line.name}  999 GB" for line in comparison.lines)
    height = heading_height(title, width) + HEIGHT + _FOOT + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    axes = place(figure, _LEFT, _FOOT + footnote_height(notes, width), WIDTH, HEIGHT)
    values = [v / 1e9 for line in comparison.lines for v in line.known("cache_bytes")[1]]
    across = [one for one in _memories(comparison) if one[0] / 1e9 <= _REACH * max(values)]
    across = across or _memories(comparison)[:1]
    held = [n_bytes / 1e9 for n_bytes, _ in across]
    axes.set_ylim(min(*values, *held) / 1.5, max(*values, *held) * 1.8)
    log_axis(axes, "y", round_ticks(*axes.get_ylim()), _size_name)
    length_axis(axes, comparison.lengths, WIDTH)
    axes.set_ylabel("KV cache")
    ends = []
    for line in comparison.lines:
        look = known[line.name]
        xs, ys = line.known("cache_bytes")
        scaled = [y / 1e9 for y in ys]
        draw_line(axes, xs, scaled, look)
        words = f"{line.name}  {quantity(ys[-1], 'B')}"
        ends.append(End(xs[-1], scaled[-1], words, look))
    _draw_memories(axes, across)
    name_ends(axes, ends)
    footnote(figure, notes)
    return figure


def _size_name(size_gb: float) -> str:
    """A tick as people say it: 100 kB, 20 MB, 1 TB."""
    return quantity(size_gb * 1e9, "B", digits=1)


def _memories(comparison: Comparison) -> list[tuple[float, str]]:
    """Bytes and words of each line across, what weights leave of the device's among them."""
    sizes = comparison.memories.items()
    found = [(size, f"{name}, {size / 1e9:g} GB") for name, size in sizes]
    memory, weights = comparison.memory_bytes, comparison.weight_bytes
    if memory is not None and weights is not None and memory > weights:
        left = memory - weights
        words = f"{memory / 1e9:g} less {weights / 1e9:g} GB of weights: {plain(left / 1e9)} GB"
        found.append((left, words))
    return sorted(found)


def _draw_memories(axes: Axes, across: list[tuple[float, str]]) -> None:
    """A dashed line each, named at its left end, where caches are small and no line is near.

    Of two lines that are too near for both names, the upper one's stands above, the other's below.
    """
    left, low = axes.get_xlim()[0], -math.inf
    for size_gb, words in [(n_bytes / 1e9, words) for n_bytes, words in reversed(across)]:
        axes.axhline(size_gb, color=GREY, linestyle=(0, (5, 3)), linewidth=1.0, zorder=2)
        height = float(axes.transData.transform((left, size_gb))[1])
        is_near = low != -math.inf and low - height < _NAME_PX
        text = axes.annotate(
            words, (left, size_gb), (4, -2 if is_near else 2), textcoords="offset points"
        )
        text.set(color=GREY, fontsize=8.5, gid="label")
        text.set(va="top" if is_near else "bottom")
        low = height
