"""Axes over T, and the names of lines in the right margin, where they end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from reports.axes import log_axis, spaced_out
from reports.labels import spread
from reports.owners import part_of
from reports.style import Look

LINE_IN = 0.15


@dataclass(frozen=True)
class End:
    """Where a line ends, in data coordinates, what is written there, and whose line it is."""

    x: float
    y: float
    words: str
    look: Look
    implementation: str = ""


def length_axis(axes: Axes, lengths: Sequence[int], width_in: float) -> None:
    """A logarithmic axis of T with its ticks at powers of two, 1k to 2M."""
    axes.set_xlim(lengths[0] / 1.12, lengths[-1] * 1.12)
    powers = [2**n for n in range(64) if lengths[0] <= 2**n <= lengths[-1]]
    log_axis(axes, "x", spaced_out(powers or lengths, width_in), length_name)
    axes.set_xlabel("T, tokens (k = 1024)")


def length_name(T: float) -> str:
    """A length as people say it: 512, 4k, 2M."""
    for letter, step in (("M", 2**20), ("k", 2**10)):
        if step <= T:
            return f"{T / step:g}{letter}"
    return f"{T:g}"


def margin_in(words: Iterable[str]) -> float:
    """Inches right of the axes that the longest of `words` needs."""
    return 0.3 + 0.087 * max(map(len, words))


def draw_line(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], look: Look, dash: Any = None
) -> None:
    """The line of one variant; of one length alone, which is no line, its marker."""
    (line,) = axes.plot(xs, ys, color=look.colour, linestyle=dash or look.dash, linewidth=2)
    line.set(zorder=3, marker=look.marker if len(xs) == 1 else "none")


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Each line's words in the right margin, spread so that none touch, a thin line to each."""
    box, figure = axes.get_window_extent(), axes.get_figure(root=True)
    assert figure is not None
    # Places are kept in inches: pixels would move when a figure is saved at another dpi.
    dpi, inches = figure.dpi, figure.dpi_scale_trans
    spots = [axes.transData.transform((end.x, end.y)) for end in ends]
    heights = [float(y) for _, y in spots]
    places = spread(heights, LINE_IN * dpi, box.y0 + 4, box.y1 - 4)
    for end, (x_px, y_px), place in zip(ends, spots, places, strict=True):
        left = box.x1 + 14
        xs = [x / dpi for x in (float(x_px) + 3, left - 9, left - 2)]
        ys = [y / dpi for y in (float(y_px), float(y_px), place)]
        lead = axes.plot(xs, ys, color=end.look.colour, transform=inches, clip_on=False, zorder=1)
        lead[0].set(linewidth=0.6, alpha=0.55, gid=part_of(end.implementation))
        text = axes.text(left / dpi, place / dpi, end.words, transform=inches)
        text.set(color=end.look.ink, fontsize=9, fontweight="bold", va="center_baseline")
        text.set(clip_on=False, gid=part_of(end.implementation, "label"))
