"""How many times as fast as the baseline each implementation is, against the size that varies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    draw_whiskers,
    footnote,
    footnote_height,
    heading,
    heading_height,
    log_axis,
    new_figure,
    panel,
    round_ticks,
    spaced_out,
    undrawn_note,
)
from reports.cost.line_ends import End, margin_in, name_ends
from reports.facets import Facet, Series, constants, facets, of_suite, size_of
from reports.legend import choose
from reports.owners import part_of
from reports.points import Point, points
from reports.style import GREY, Look, count_name, plain, plural
from reports.sweep import X_NAMES
from reports.sweep_figure import rows_of, title_line
from results.ratios import SpeedUp, baseline_cells, speed_up
from results.run import Run
from results.schema import Cell

TITLE = "Speed-up"
ABOUT = "ratio"
SUITE = "sequence_length"
WIDTH, HEIGHT, LEFT, HEAD, FOOT = 3.9, 3.1, 0.95, 0.4, 0.65  # inches


@dataclass(frozen=True)
class _Line:
    """One implementation's ratios in a panel, by the size that varies."""

    series: Series
    ratios: tuple[tuple[Point, SpeedUp], ...]


def draw(run: Run) -> Figure | None:
    """Panels full | causal; None where nothing can be set against the baseline."""
    drawn, undrawn = points(run.cells)
    found = of_suite(drawn, SUITE)
    panels = [
        (facet, lines) for facet in facets(found, prefer="T") if (lines := _lines(run, facet))
    ]
    if not panels:
        return None
    rows = rows_of([facet for facet, _ in panels])
    lines_of = {id(facet): lines for facet, lines in panels}
    pen = choose(run, [facet for facet, _ in panels])
    words = [_words(line, facet) for facet, lines in panels for line in lines]
    cell_in = LEFT + WIDTH + margin_in(words)
    width = max(len(row) for row in rows) * cell_in
    title = title_line(f"Speed-up over {run.baseline}", run, found, constants(found))
    suites = {point.suite for point in found}
    notes = _notes(run, found, [line for _, lines in panels for line in lines])
    notes.append(undrawn_note([u for u in undrawn if u.suite in suites]))
    head, row_in = heading_height(title, width), HEAD + HEIGHT + FOOT
    height = head + len(rows) * row_in + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    for i, row in enumerate(rows):
        limits = _limits([line for facet in row for line in lines_of[id(facet)]])
        for j, facet in enumerate(row):
            bottom = height - head - (i + 1) * row_in + FOOT
            axes = panel(figure, j * cell_in + LEFT, bottom, WIDTH, HEIGHT)
            axes.set_title(facet.title, loc="left", fontsize=10.5)
            axes.set_ylim(*limits)
            axes.set_ylabel(f"× {run.baseline}, higher is faster")
            _draw_panel(axes, facet, lines_of[id(facet)], pen.looks)
    footnote(figure, notes)
    return figure


def _lines(run: Run, facet: Facet) -> list[_Line]:
    """The series that have a ratio, the baseline's own left out: it is the line at 1."""
    baselines = baseline_cells(run)
    by_point: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in run.comparable_cells:
        by_point.setdefault((cell.cell, cell.suite, cell.series), []).append(cell)
    lines: list[_Line] = []
    for series in facet.series:
        ratios = [
            (point, ratio)
            for point in series.points
            if (cells := by_point.get((point.cell, point.suite, point.series)))
            and (ratio := speed_up(cells, baselines))
        ]
        if ratios and series.implementation != run.baseline:
            lines.append(_Line(series, tuple(ratios)))
    return lines


def _draw_panel(
    axes: Axes, facet: Facet, lines: Sequence[_Line], looks: Mapping[str, Look]
) -> None:
    sizes = sorted({float(size_of(p.problem, facet.swept)) for p in facet.points})
    stretch = (sizes[-1] / sizes[0]) ** 0.05 if sizes[-1] > sizes[0] else 1.5
    axes.set_xlim(sizes[0] / stretch, sizes[-1] * stretch)
    log_axis(axes, "x", spaced_out(sizes, WIDTH), lambda size: count_name(int(size)))
    log_axis(axes, "y", _ticks(*axes.get_ylim()), lambda ratio: f"{ratio:g} ×")
    axes.set_xlabel(X_NAMES.get(facet.swept, facet.swept))
    axes.axhline(1.0, color=GREY, linewidth=1.2, zorder=1, gid="baseline")
    ends: list[End] = []
    for line in lines:
        look = looks.get(line.series.name)
        if look is None:
            continue
        name = line.series.implementation
        known = {float(size_of(p.problem, facet.swept)): ratio for p, ratio in line.ratios}
        ys = [known[x].times if x in known else math.nan for x in sizes]
        drawn = axes.plot(sizes, ys, color=look.colour, linestyle=look.dash, linewidth=1.5)
        drawn[0].set_gid(part_of(name))
        spread = [(x, r.lowest, r.highest) for x, r in known.items() if r.lowest and r.highest]
        if spread:
            xs, lows, highs = zip(*spread, strict=True)
            draw_whiskers(axes, xs, lows, highs, look.colour, name)
        for point, ratio in line.ratios:
            at = axes.plot([size_of(point.problem, facet.swept)], [ratio.times])
            at[0].set(marker=look.marker, color=look.colour, markersize=6, clip_on=False, zorder=4)
            at[0].set_gid(point.mark)
        last, ratio = line.ratios[-1]
        ends.append(
            End(
                *(float(size_of(last.problem, facet.swept)), ratio.times),
                *(_words(line, facet), look, name),
            )
        )
    name_ends(axes, ends)


def _words(line: _Line, facet: Facet) -> str:
    """Its name and last ratio; of a line that ends early the size that this belongs to."""
    last, ratio = line.ratios[-1]
    words = f"{line.series.name}  {plain(ratio.times)} ×"
    size = size_of(last.problem, facet.swept)
    if isinstance(size, int) and size < max(size_of(p.problem, facet.swept) for p in facet.points):
        words += f" at {count_name(size)}"
    return words


def _limits(lines: Sequence[_Line]) -> tuple[float, float]:
    """Limits that hold every ratio with its bar, and the baseline at 1."""
    ends = [
        v for line in lines for _, r in line.ratios for v in (r.times, r.lowest, r.highest) if v
    ]
    return min([*ends, 1.0]) / 1.25, max([*ends, 1.0]) * 1.25


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios; over less than a decade also the quarters between them."""
    wide = round_ticks(low, high)
    if len(wide) > 3:
        return wide
    return [v for v in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0) if low <= v <= high]


def _notes(run: Run, found: Sequence[Point], lines: Sequence[_Line]) -> list[str]:
    launches = max(ratio.launches for line in lines for _, ratio in line.ratios)
    shown = sum(len(line.ratios) for line in lines)
    own = sum(point.implementation == run.baseline for point in found)
    bars = (
        "One launch, so that no ratio has an interval: another may differ."
        if launches == 1
        else f"Median of the ratios of {launches} launches, bars: the lowest and the highest."
    )
    rest = len(found) - own - shown
    why = f"flagged, or {run.baseline} has no time there without a flag"
    out = f"{plural(rest, 'point')} without a ratio: {why}." if rest else ""
    return [f"Time of {run.baseline} / time, in the same launch. {bars}", out]
