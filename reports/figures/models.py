"""Time per token for each model against its bound: prefill and decode, layer and core."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    log_axis,
    new_figure,
    panel,
    round_ticks,
    undrawn_note,
)
from reports.owners import part_of
from reports.points import Point, points
from reports.style import CLOCK_NAMES, GREY, Unit, count_name, quantity, unit_for
from reports.sweep_figure import title_line
from results.model_label import ModelLabel, read_label
from results.run import Run
from results.schema import Cell

TITLE = "Models: time per token and layer"
SUITE = "models"
# Of results.model_label, with a heading and with the colours of bar and letters.
PHASES = {"prefill": "prefill, a whole prompt", "decode": "decode, one token with a KV cache"}
PARTS = {"layer": ("#0072B2", "#0072B2"), "core": ("#E69F00", "#946500")}
_MARKERS = {"layer": "s", "core": "o"}

BARS, WORDS = 2.6, 3.9  # inches; more of words where a name is long
ROW, HEAD, FOOT = 0.42, 0.62, 0.62
# Where each column of words stands, in widths of a panel from its left edge.
_COLUMNS = {"time": 1 + 0.62 / BARS, "share": 1 + 1.2 / BARS, "length": 1 + 1.32 / BARS}
_HEADING_Y = -0.75  # rows


@dataclass(frozen=True)
class Bar:
    """What one line of a row shows: the fastest there, or why there is none."""

    label: ModelLabel
    point: Point | None
    why: str = ""

    @property
    def tokens(self) -> int:
        """How many tokens a call computes."""
        assert self.point is not None
        return self.point.problem.B * self.point.problem.T_q


Row = dict[tuple[str, str], Bar]


def draw(run: Run) -> Figure | None:
    """A row for each model, a panel for each phase; None where no model has a point."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite == SUITE]
    rows = rows_of(found, (cell for cell in run.cells if cell.suite == SUITE))
    bars = [bar for row in rows.values() for bar in row.values() if bar.point]
    if not bars:
        return None
    names_in = 0.45 + max(_length_in(*name.split(" ", 1)) for name in rows)
    # A run of decode steps alone has no panel of prompts.
    asked = {bar.label.phase for row in rows.values() for bar in row.values()}
    phases = {phase: words for phase, words in PHASES.items() if phase in asked}
    words_in = max(WORDS, 1.5 + 0.068 * max(len(_length_text(b, b.point)) for b in bars if b.point))
    width = names_in + len(phases) * (BARS + words_in)
    title = title_line(TITLE, run, found, [])
    notes = [*_notes(bars), undrawn_note([u for u in undrawn if u.suite == SUITE])]
    body = ROW * len(rows)
    height = heading_height(title, width) + HEAD + body + FOOT + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    bottom = FOOT + footnote_height(notes, width)
    times = [t / b.tokens for b in bars if b.point for t in (b.point.time_s, b.point.bound_s) if t]
    limits = (min(times) / 1.5, max(times) * 1.5)
    for number, (phase, words) in enumerate(phases.items()):
        axes = panel(figure, names_in + number * (BARS + words_in), bottom, BARS, body)
        # A token of a prompt takes a hundredth of one that is decoded: a unit for each column.
        here = [b for b in bars if b.label.phase == phase]
        unit = unit_for([b.point.time_s / b.tokens for b in here if b.point], "s")
        _draw_phase(axes, phase, rows, limits, unit)
        _head_columns(axes, unit)
        axes.set_title(words, loc="left", fontsize=10.5, pad=20)
        if number == 0:
            _name_rows(axes, rows, names_in)
    footnote(figure, notes)
    return figure


def rows_of(found: Iterable[Point], cells: Iterable[Cell]) -> dict[str, Row]:
    """The models in their own order, each with what its series ask for.

    Shown is the fastest implementation without a flag; where all have one, the fastest of those.
    """
    fastest: dict[str, Point] = {}
    for point in found:
        best = fastest.get(point.series)
        if best is None or _rank(point) < _rank(best):
            fastest[point.series] = point
    rows: dict[str, Row] = {}
    # Encoders have no decode: the order in which the prompts come is that of the table.
    for cell in sorted(cells, key=lambda cell: "prefill" not in cell.series):
        if label := read_label(cell.series):
            row = rows.setdefault(label.row, {})
            point = fastest.get(cell.series)
            row[label.phase, label.part] = Bar(label, point, "" if point else _why(cell))
            if not cell.problem.causal:
                for part in PARTS:
                    row.setdefault(("decode", part), Bar(label, None, "an encoder: no decode"))
    return rows


def _why(cell: Cell) -> str:
    return "not drawable" if cell.status == "ok" else cell.status


def _rank(point: Point) -> tuple[bool, float]:
    return bool(point.flags), point.time_s


def _draw_phase(
    axes: Axes, phase: str, rows: dict[str, Row], limits: tuple[float, float], unit: Unit
) -> None:
    axes.set_xlim(*limits)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    log_axis(axes, "x", round_ticks(*limits, at_most=5), lambda value: quantity(value, "s", 1))
    axes.set_yticks([])
    axes.tick_params(labelsize=8.5)
    axes.set_xlabel("time per token (median)")
    for number, row in enumerate(rows.values()):
        if number % 2:
            axes.axhspan(number - 0.5, number + 0.5, color="#F7F7F7", zorder=0)
        missing = [bar for part in PARTS if (bar := row.get((phase, part))) and not bar.point]
        if len({bar.why for bar in missing}) == 1 and len(missing) == len(PARTS):
            _write(axes, 0.02, number, missing[0].why, color=GREY)
            continue
        for part, y in (("layer", number - 0.2), ("core", number + 0.2)):
            bar = row.get((phase, part))
            if bar and bar.point:
                _draw_bar(axes, bar, bar.point, part, y, unit)
            elif bar:
                _write(axes, 0.02, y, bar.why, color=GREY)


def _draw_bar(axes: Axes, bar: Bar, point: Point, part: str, y: float, unit: Unit) -> None:
    """A mark at the time, a tick at the bound, and a line from one to the other.

    The axis has no zero where a bar could begin; the line's length is a ratio, that to the bound.
    """
    colour, ink = PARTS[part]
    time_s = point.time_s / bar.tokens
    tick, gap, label = (part_of(point.implementation, of) for of in ("bound", "gap", "label"))
    if point.bound_s:
        bound_s = point.bound_s / bar.tokens
        line = axes.plot([bound_s, time_s], [y, y], color=colour, linewidth=2.2, alpha=0.6)
        line[0].set(zorder=2, gid=gap)
        ends = [y - 0.17, y + 0.17]
        axes.plot([bound_s] * 2, ends, color="black", linewidth=1.4, zorder=3, gid=tick)
    mark = axes.plot([time_s], [y], marker=_MARKERS[part], color=colour, markersize=6)
    mark[0].set(zorder=4, gid=point.mark, markerfacecolor="white" if point.flags else colour)
    share = "–" if point.share is None else f"{100 * point.share:.0f} %"
    _write(axes, _COLUMNS["time"], y, unit.show(time_s), ha="right", color=ink, gid=label)
    bold = {"fontweight": "bold", "gid": label}
    _write(axes, _COLUMNS["share"], y, share, ha="right", color=ink, **bold)
    _write(axes, _COLUMNS["length"], y, _length_text(bar, point), color=GREY, gid=label)


def _length_text(bar: Bar, point: Point) -> str:
    """ "T 128 of 4k, 1/8 of heads, naive": what was computed of the model, and by whom."""
    length = f"T {count_name(bar.label.T)}"
    if bar.label.own_T != bar.label.T:
        length += f" of {count_name(bar.label.own_T)}"
    if bar.label.ranks > 1:
        length += f", 1/{bar.label.ranks} of heads"
    return f"{length}, {point.implementation}"


def _head_columns(axes: Axes, unit: Unit) -> None:
    """The key of the colours, and what the columns of words are."""
    for x, part in ((0.0, "layer"), (0.2, "core")):
        _write(axes, x, _HEADING_Y, part, color=PARTS[part][1], fontweight="bold")
    _write(axes, _COLUMNS["time"], _HEADING_Y, unit.name, ha="right", color=GREY)
    _write(axes, _COLUMNS["share"], _HEADING_Y, "of bound", ha="right", color=GREY)


def _write(axes: Axes, x: float, y: float, words: str, **look: Any) -> None:
    """Small words at x in widths of the panel and y in rows."""
    text = axes.text(x, y, words, transform=axes.get_yaxis_transform(), clip_on=False)
    text.set(**({"fontsize": 8, "va": "center_baseline", "gid": "label"} | look))


def _name_rows(axes: Axes, rows: dict[str, Row], names_in: float) -> None:
    """Each model's name and kind of attention, left of the bars."""
    for number, name in enumerate(rows):
        model, _, variant = name.partition(" ")
        _write(axes, (0.15 - names_in) / BARS, number, model, fontsize=9)
        _write(axes, -0.1 / BARS, number, variant, ha="right", color=GREY)


def _length_in(model: str, variant: str) -> float:
    """Inches that a row's two names take."""
    return 0.076 * len(model) + 0.066 * len(variant)


def _notes(bars: Sequence[Bar]) -> list[str]:
    """How to read it: what a bar is, the tick, a hollow bar, and lengths that are not the own."""
    shown = [bar.point for bar in bars if bar.point]
    clocks = " and ".join(sorted({CLOCK_NAMES.get(p.clock, p.clock) for p in shown}))
    caches = "/".join(sorted({p.cache for p in shown}))
    flagged = sum(bool(p.flags) for p in shown)
    batches = sorted({p.problem.B for p in shown})
    batch = f"{batches[0]} to {batches[-1]}" if len(batches) > 1 else str(batches[0])
    names = len({p.implementation for p in shown})
    return [
        f"Median time of a call over its tokens (B {batch}), clock: {clocks}, cache {caches}"
        + ("; of each problem the fastest implementation that was measured." if names > 1 else "."),
        "Black: the roofline bound, and the part of it that was reached. From there to the mark is "
        "the headroom: lines of one length are one ratio. A layer is projections, core and output "
        "projection.",
        "T 128 of 4k: shorter than the model's own length, at full width."
        if any(bar.label.own_T != bar.label.T for bar in bars)
        else "",
        "1/8 of heads: of a layer too large for here, one of 8 tensor-parallel ranks; its d_model "
        "is whole."
        if any(bar.label.ranks > 1 for bar in bars)
        else "",
        f"Hollow: flagged, left out of every ratio ({flagged})." if flagged else "",
    ]
