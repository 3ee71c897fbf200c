"""How the samples of each cell lie about their median: quartiles, deciles, fastest and slowest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    new_figure,
    panel,
    undrawn_note,
)
from reports.legend import looks_of
from reports.owners import part_of
from reports.points import mark_of, points
from reports.style import GREY, PALE, Look, Unit, count_name, plural, unit_for
from reports.sweep_figure import device_line
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell

TITLE = "How the samples lie"
ABOUT = "spread"
MOST_ROWS, LEAST_SAMPLES = 36, 5
NAMES, WIDTH, TIMES, ROW, HEAD, FOOT = 4.3, 5.2, 1.6, 0.24, 0.25, 0.6  # inches, of names at least
_WIDEST = 30.0  # per cent; what lies further is drawn at the edge


@dataclass(frozen=True)
class Strip:
    """A cell's samples in % of their median, 0 being the median."""

    cell: Cell
    fastest: float
    decile: float
    quartile: float
    upper_quartile: float
    upper_decile: float
    slowest: float

    @property
    def width(self) -> float:
        """From quartile to quartile, in %."""
        return self.upper_quartile - self.quartile


def draw(run: Run) -> Figure | None:
    """A row for each cell, the widest first; None where no cell has samples enough."""
    strips = sorted(
        (strip for cell in run.cells if (strip := strip_of(cell))),
        key=lambda strip: (-strip.width, strip.cell.implementation, strip.cell.problem.id),
    )
    if not strips:
        return None
    shown = strips[:MOST_ROWS]
    names_in = max(NAMES, 0.25 + 0.066 * max(len(_name(strip.cell)) for strip in shown))
    width = names_in + WIDTH + TIMES
    title = f"{TITLE} · {device_line(run)}"
    notes = [*_notes(strips), undrawn_note(points(run.cells)[1])]
    head = heading_height(title, width)
    body = ROW * len(shown)
    height = head + HEAD + body + FOOT + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    axes = panel(figure, names_in, height - head - HEAD - body, WIDTH, body)
    look = looks_of(run)
    _draw_panel(axes, shown, look)
    footnote(figure, notes)
    return figure


def strip_of(cell: Cell) -> Strip | None:
    """The strip of a cell that is ok and has samples enough."""
    samples = cell.timing.samples_s if cell.timing else ()
    if cell.status != "ok" or len(samples) < LEAST_SAMPLES or not cell.time_s or cell.time_s <= 0:
        return None
    marks = np.percentile(samples, [0, 10, 25, 75, 90, 100])
    return Strip(cell, *(float(100 * (mark / cell.time_s - 1)) for mark in marks))


def _draw_panel(axes: Axes, shown: Sequence[Strip], look: dict[str, Look]) -> None:
    reach = max(1.0, *(max(-s.decile, s.upper_decile) for s in shown))
    left = -min(_WIDEST, max(1.0, 1.1 * max(-s.fastest for s in shown)))
    right = min(_WIDEST, max(1.5 * reach, 1.0))
    axes.set_xlim(left, right)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.axvline(0.0, color=GREY, linewidth=1.0, zorder=1)
    axes.set_xlabel("% from the cell's median")
    unit = unit_for([strip.cell.time_s for strip in shown], "s")
    for y, strip in enumerate(shown):
        _draw_strip(axes, y, strip, look[strip.cell.implementation], (left, right), unit)


def _draw_strip(
    axes: Axes, y: int, strip: Strip, own: Look, limits: tuple[float, float], unit: Unit
) -> None:
    cell, name = strip.cell, strip.cell.implementation

    def within(value: float) -> float:
        return min(max(value, limits[0]), limits[1])

    thin = axes.plot([within(strip.fastest), within(strip.slowest)], [y, y], color=PALE)
    thin[0].set(linewidth=0.8, zorder=2, gid=part_of(name))
    middle = axes.plot([within(strip.decile), within(strip.upper_decile)], [y, y], color=own.colour)
    middle[0].set(linewidth=1.6, zorder=3, gid=part_of(name))
    low, high = within(strip.quartile), within(strip.upper_quartile)
    bars = axes.barh(y, high - low, left=low, height=0.5, zorder=4, clip_on=False)
    bars[0].set(
        gid=mark_of(cell.cell, cell.suite, cell.series),
        facecolor="white" if cell.flags else own.colour,
    )
    bars[0].set(edgecolor=own.colour, linewidth=0.8)
    for arrow, end, is_beyond in (
        (">", limits[1], strip.slowest > limits[1]),
        ("<", limits[0], strip.fastest < limits[0]),
    ):
        if is_beyond:
            axes.plot([end], [y], marker=arrow, color=PALE, markersize=4, clip_on=False)
    label = {"va": "center_baseline", "fontsize": 8, "clip_on": False}
    for x, text, side, ink in (
        (-0.02, _name(cell), "right", own.ink),
        (1.02, f"{unit.show(cell.time_s)} {unit.name}, n {len(_samples(cell))}", "left", GREY),
    ):
        written = axes.text(x, y, text, transform=axes.get_yaxis_transform(), ha=side, color=ink)
        written.set(**label, gid=part_of(name, "label"))


def _samples(cell: Cell) -> Sequence[float]:
    return cell.timing.samples_s if cell.timing else ()


def _name(cell: Cell) -> str:
    p = cell.problem
    T = f"T {count_name(p.T_kv)}" if p.T_q == p.T_kv else f"T_q {p.T_q} T_kv {count_name(p.T_kv)}"
    words = [
        cell.implementation,
        T,
        f"H {p.H}" + (f"/{p.H_kv}" if p.H_kv != p.H else ""),
        f"d_h {p.d_h}",
        DTYPE_NAMES.get(p.dtype, p.dtype),
    ]
    words += ["causal"] if p.causal else []
    words += [cell.pass_.replace("_", " + ")] if cell.pass_ != "forward" else []
    return " ".join(words)


def _notes(strips: Sequence[Strip]) -> list[str]:
    rest = len(strips) - MOST_ROWS
    narrower = f"{plural(rest, 'narrower cell')} not drawn: the quartiles are in the CSV." * (
        rest > 0
    )
    return [
        "The widest first. Bar: from quartile to quartile; line: from decile to decile; thin: "
        "fastest to slowest, an arrow where that lies beyond. Samples of one launch: another's may "
        "lie elsewhere. H 32/8: heads and kv heads. Hollow: flagged.",
        narrower,
    ]
