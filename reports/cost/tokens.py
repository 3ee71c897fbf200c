"""Tokens a second at most, prefill against decode, over T: attention layers of one sequence."""

from __future__ import annotations

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
from reports.style import looks, quantity

WIDTH, HEIGHT = 6.0, 4.4  # inches
_LEFT, _FOOT = 0.95, 0.6
_PARTS = {"prefill": "-", "decode": (0, (4, 2))}


def draw(comparison: Comparison) -> Figure | None:
    """Solid: prefill. Dashed: decode. None where no device's rates are known."""
    if comparison.device is None:
        return None
    known = looks(line.name for line in comparison.lines)
    title = comparison.title("Tokens/s at most: prefill solid, decode dashed")
    notes = [
        f"Bounds on {comparison.device}: max(FLOP / FLOP/s, bytes / bytes/s), the attention "
        "layers' weights and cache moved once, one sequence. A whole model is slower: its "
        "feed-forward layers are not in it, nor is any time that a kernel loses."
    ]
    drawn = {
        part: [(line, *line.known(f"{part}_tokens_per_s")) for line in comparison.lines]
        for part in _PARTS
    }
    values = [v for lines in drawn.values() for _, _, ys in lines for v in ys]
    if not any(ys for _, _, ys in drawn["prefill"]):
        notes.append("No prefill: the dtype's FLOP/s are not known there.")
    names = [f"{line.name} prefill  999 k/s" for line in comparison.lines]
    width = _LEFT + WIDTH + margin_in(names)
    foot = _FOOT + footnote_height(notes, width)
    figure = new_figure(width, heading_height(title, width) + HEIGHT + foot)
    heading(figure, title)
    axes = place(figure, _LEFT, foot, WIDTH, HEIGHT)
    axes.set_ylim(min(values) / 1.6, max(values) * 1.6)
    log_axis(axes, "y", round_ticks(*axes.get_ylim()), _rate_name)
    length_axis(axes, comparison.lengths, WIDTH)
    axes.set_ylabel("tokens a second, at most")
    ends = []
    for part, dash in _PARTS.items():
        for line, xs, ys in drawn[part]:
            if not ys:
                continue
            look = known[line.name]
            draw_line(axes, xs, ys, look, dash)
            words = f"{line.name} {part}  {quantity(ys[-1], '').strip()}/s"
            ends.append(End(xs[-1], ys[-1], words, look))
    name_ends(axes, ends)
    footnote(figure, notes)
    return figure


def _rate_name(rate: float) -> str:
    """A tick as people say it: 0.1, 50, 10 k, 2 M."""
    for letter, step in (("M", 1e6), ("k", 1e3)):
        if rate >= step:
            return f"{rate / step:g} {letter}"
    return f"{rate:g}"
