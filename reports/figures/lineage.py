"""Time against T of other operators beside softmax attention, and where one overtakes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from impls.interface.problem import SOFTMAX
from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    new_figure,
    panel,
    undrawn_note,
)
from reports.facets import Facet, Series, constants, size_of
from reports.labels import Board
from reports.legend import looks_of
from reports.points import Point, points
from reports.style import PALE
from reports.sweep import (
    Pen,
    draw_time,
    longest_name,
    name_lines,
    row_mates,
    time_limits,
)
from reports.sweep_figure import method_notes, title_line
from results.answers.lineage import SUITE, Lengths, by_operator, overtakes_from
from results.run import Run

TITLE = "Other operators beside softmax attention"
MARK = "†"
DASHED = (0, (5, 1.5))
WIDTH, HEIGHT, LEFT, HEAD, FOOT = 3.9, 3.9, 0.95, 0.4, 0.7  # inches


def draw(run: Run) -> Figure | None:
    """Panels full | causal of the lineage sweep; None without another operator in it."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite == SUITE]
    if not any(point.problem.operator != SOFTMAX for point in found):
        return None
    panels = _panels(found)
    pen = _pen(run, panels)
    cell_in = LEFT + WIDTH + 0.5 + 0.078 * longest_name(panels)
    width = len(panels) * cell_in
    notes = [*_notes(run, panels), undrawn_note([u for u in undrawn if u.suite == SUITE])]
    title = title_line(TITLE, run, found, constants(found))
    head = heading_height(title, width)
    figure = new_figure(width, head + HEAD + HEIGHT + FOOT + footnote_height(notes, width))
    heading(figure, title)
    bottom = figure.get_size_inches()[1] - head - HEAD - HEIGHT
    sweeps = by_operator(run.comparable_cells)
    told_dtype = next((c[T].cells[0].problem.dtype for c in sweeps.values() for T in c), "")
    for i, facet in enumerate(panels):
        axes = panel(figure, i * cell_in + LEFT, bottom, WIDTH, HEIGHT)
        draw_time(axes, facet, pen, time_limits(panels))
        axes.set_xlabel("sequence length T")
        axes.set_ylabel("time (median)")
        axes.set_title(facet.title, loc="left", fontsize=10.5)
        name_lines(axes, facet, pen, "time", row_mates(facet, panels))
        if facet.dtype == told_dtype:
            _mark_overtaking(axes, facet, sweeps)
    footnote(figure, notes)
    return figure


def _panels(found: Sequence[Point]) -> list[Facet]:
    """Softmax attention and the other operators in one panel for each mask and dtype."""
    panels: list[Facet] = []
    dtypes = list(dict.fromkeys(point.problem.dtype for point in found))
    for dtype in dtypes:
        for is_causal in (False, True):
            here = [
                # Each operator has a bound of its own: none of them is drawn for all.
                replace(point, bound_s=None)
                for point in found
                if point.problem.dtype == dtype and point.problem.causal is is_causal
            ]
            if here:
                row = dtype if len(dtypes) > 1 else ""
                column = "causal" if is_causal else "full"
                panels.append(Facet(row, column, "T", dtype, _series(here)))
    return panels


def _series(here: Sequence[Point]) -> tuple[Series, ...]:
    by_name: dict[str, list[Point]] = {}
    for point in here:
        mark = "" if point.problem.operator == SOFTMAX else f" {MARK}"
        by_name.setdefault(f"{point.implementation}{mark}", []).append(point)
    return tuple(
        Series(
            name, p[0].implementation, "", tuple(sorted(p, key=lambda x: size_of(x.problem, "T")))
        )
        for name, p in by_name.items()
    )


def _pen(run: Run, panels: Sequence[Facet]) -> Pen:
    """Everybody in the colours of every figure, softmax attention solid, other operators dashed."""
    own = looks_of(run)
    found = {
        series.name: replace(
            own[series.implementation], dash=DASHED if series.name.endswith(MARK) else "-"
        )
        for facet in panels
        for series in facet.series
    }
    return Pen(found, tuple(sorted(found)))


def _mark_overtaking(axes: Axes, facet: Facet, sweeps: dict[tuple[str, bool], Lengths]) -> None:
    """A thin upright line where an operator overtakes the softmax core, named where there is room.

    Its words stand at either side of it, where they cover least.
    """
    is_causal = facet.column == "causal"
    core = sweeps.get((SOFTMAX, is_causal))
    if core is None:
        return
    board = Board(axes)
    for series in facet.series:
        xs, ys = [float(p.problem.T_q) for p in series.points], [p.time_s for p in series.points]
        board.add_stroke(xs, ys)
        for x, y in zip(xs, ys, strict=True):
            board.add_mark(x, y, 6)
    box = axes.get_window_extent()
    for operator, mask in sweeps:
        first = overtakes_from(sweeps[operator, mask], core) if mask is is_causal else None
        if operator == SOFTMAX or first is None:
            continue
        axes.axvline(first, color=PALE, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        x, _ = board.pixels(first, axes.get_ylim()[0])
        spots = [
            (x + side * 5, box.y0 + share * box.height, "left" if side > 0 else "right", "center")
            for share in (0.06, 0.94, 0.2, 0.8, 0.35, 0.65, 0.5)
            for side in (1, -1)
        ]
        board.put(f"{operator} {MARK} takes less\nfrom T = {first}", spots, fontsize=8.5)


def _notes(run: Run, panels: Sequence[Facet]) -> list[str]:
    """What the mark means, and how the points were made."""
    found = [point for facet in panels for point in facet.points]
    others = dict.fromkeys(p.problem.operator for p in found if p.problem.operator != SOFTMAX)
    return [
        f"{MARK} dashed: another operator than softmax attention ({', '.join(others)}), with other "
        "results: what it costs, no rank beside the solid lines.",
        method_notes(run, panels)[0],
    ]
