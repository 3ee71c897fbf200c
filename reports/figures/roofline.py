"""Useful FLOP/s against FLOP per algorithmic byte, under the ceilings measured on the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from impls.interface.cost import cost
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
    undrawn_note,
)
from reports.facets import Facet, Series, constants, facets, of_suite, size_of, swept_name
from reports.labels import Board
from reports.legend import LEGEND_IN, choose, draw_legend
from reports.owners import part_of
from reports.points import Point, points
from reports.reference import Published, of_device
from reports.roofs import Roofs, draw_roofs, name_roofs, roofs_of
from reports.style import GREY, REST, Look, Unit, count_name, plain, quantity, unit_for
from reports.sweep import Pen
from reports.sweep_figure import method_notes, rows_of, title_line
from results.run import Run

TITLE = "Roofline"
ABOUT = "bound"
SUITE = "sequence_length"
MANY = 8  # series that have room for a label beside their points
WIDTH, HEIGHT, LEFT, RIGHT, HEAD, FOOT = 5.7, 4.3, 0.72, 0.18, 0.36, 0.6  # inches


def draw(run: Run) -> Figure | None:
    """Panels full | causal for each dtype, marker area growing with T; None without points."""
    drawn, undrawn = points(run.cells)
    found = of_suite(drawn, SUITE)
    panels = facets(found, prefer="T")
    if not panels:
        return None
    if found[0].suite == SUITE:
        undrawn = [u for u in undrawn if u.suite == SUITE]
    pen = choose(run, panels)
    many = len({series.name for facet in panels for series in facet.series}) > MANY
    rows = rows_of(panels)
    cell_in = LEFT + WIDTH + RIGHT
    width = max(len(row) for row in rows) * cell_in + (LEGEND_IN if many else 0)
    all_roofs = [roofs_of(run, facet) for facet in panels]
    published = [_published(run, facet) for facet in panels]
    notes = [*_notes(run, panels, all_roofs), undrawn_note(undrawn)]
    notes += _sources([row for rows in published for row in rows])
    title = title_line("Attention", run, found, constants(found))
    head = heading_height(title, width)
    height = head + len(rows) * (HEAD + HEIGHT + FOOT) + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    for i, row in enumerate(rows):
        for j, facet in enumerate(row):
            bottom = height - head - (i + 1) * (HEAD + HEIGHT + FOOT) + FOOT
            axes = panel(figure, j * cell_in + LEFT, bottom, WIDTH, HEIGHT)
            beside = [one for neighbour in row for one in _published(run, neighbour)]
            limits = _limits(row, [roofs_of(run, neighbour) for neighbour in row], beside)
            _draw_panel(axes, facet, roofs_of(run, facet), pen, limits, with_names=not many)
            _draw_published(axes, _published(run, facet))
    if many:
        draw_legend(figure, panels, pen, left_in=width - LEGEND_IN)
    footnote(figure, notes)
    return figure


def _draw_panel(
    axes: Axes,
    facet: Facet,
    roofs: Roofs,
    pen: Pen,
    limits: tuple[float, float, float, float],
    with_names: bool,
) -> None:
    left, right, low, high = limits
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    log_axis(axes, "x", round_ticks(left, right, at_most=9), lambda value: plain(value, 1))
    # Over many decades one unit would need a row of zeros: then each tick has its own prefix.
    unit = unit_for([high / 3], "FLOP/s") if high / low < 1e5 else Unit("FLOP/s", 1.0)
    log_axis(axes, "y", round_ticks(low, high, at_most=9), lambda value: _tick(value, unit))
    axes.set_xlabel("arithmetic intensity  [FLOP / byte, algorithmic]")
    axes.set_ylabel(f"useful {unit.name}")
    axes.set_title(facet.title, loc="left", fontsize=10.5)
    board = Board(axes)
    draw_roofs(axes, roofs)
    for roof in roofs.lines:
        board.add_stroke(*roof.corners)
    sizes = sorted({size_of(point.problem, facet.swept) for point in facet.points})
    for series in facet.series:
        _draw_series(board, facet, series, pen.look(series), sizes)
    name_roofs(board, roofs)
    if with_names:
        for series in sorted(facet.series, key=lambda s: len(s.points)):
            _name_series(board, facet, series, pen.look(series))


def _published(run: Run, facet: Facet) -> list[Published]:
    """What was published of this device and of a problem and pass that the panel has a point of."""
    shown = {(p.problem.with_(layout="bhtd"), p.pass_) for p in facet.points}
    return [row for row in of_device(run) if (row.problem, row.pass_) in shown]


def _draw_published(axes: Axes, rows: Sequence[Published]) -> None:
    """Hollow diamonds at the compulsory bytes, FLOP counted exactly like the points beside them."""
    for row in rows:
        intensity = cost(row.problem, row.pass_).intensity
        mark = axes.plot([intensity or 0.0], [_exact_flop_per_s(row)])
        mark[0].set(marker="D", markersize=5, markerfacecolor="none", markeredgecolor=GREY)
        mark[0].set(zorder=3, gid="published")


def _exact_flop_per_s(row: Published) -> float:
    return cost(row.problem, row.pass_).flop / row.time_s


def _sources(rows: Sequence[Published]) -> list[str]:
    if not rows:
        return []
    names = ", ".join(dict.fromkeys(row.implementation for row in rows))
    sources = "; ".join(dict.fromkeys(row.source for row in rows))
    return [f"Hollow grey diamonds: published for this device ({names}), not measured: {sources}."]


def _tick(value: float, unit: Unit) -> str:
    return unit.show(value, 1) if unit.factor != 1 else quantity(value, "", 1)


def _draw_series(
    board: Board, facet: Facet, series: Series, look: Look | None, sizes: Sequence[int]
) -> None:
    axes, part = board.axes, part_of(series.implementation)
    xs, ys = [p.intensity for p in series.points], [p.flop_per_s for p in series.points]
    if look is None:
        axes.plot(xs, ys, color=REST, linewidth=0.7, zorder=1, gid=part)
        return
    broken = _broken_at_gaps(facet, series)
    line = axes.plot(*broken, color=look.colour, linewidth=1.2, linestyle=look.dash, alpha=0.8)
    line[0].set(zorder=3, gid=part)
    lows, highs = (
        [p.flop / p.high_s for p in series.points],
        [p.flop / p.low_s for p in series.points],
    )
    draw_whiskers(axes, xs, lows, highs, look.colour, series.implementation)
    board.add_stroke(xs, ys)
    _draw_cache_level(board, series, look)
    for point in series.points:
        rank = sizes.index(size_of(point.problem, facet.swept))
        # The area grows by the same step from one size to the next.
        marker_pt = (16 + 64 * rank / max(1, len(sizes) - 1)) ** 0.5
        x, y = point.intensity, point.flop_per_s
        axes.plot(
            [x],
            [y],
            marker=look.marker,
            markersize=marker_pt,
            markerfacecolor="white" if point.flags else look.colour,
            markeredgecolor=look.colour,
            markeredgewidth=1.2 if point.flags else 0.5,
            linestyle="none",
            clip_on=False,
            zorder=4,
            gid=point.mark,
        )
        board.add_mark(x, y, marker_pt * 0.75, series.name)


def _broken_at_gaps(facet: Facet, series: Series) -> tuple[list[float], list[float]]:
    """The line's corners, with none where others of its setting have a size and it has not."""
    known = {size_of(p.problem, facet.swept): (p.intensity, p.flop_per_s) for p in series.points}
    corners = [known.get(size, (math.nan, math.nan)) for size in facet.sizes_of(series.setting)]
    return [x for x, _ in corners], [y for _, y in corners]


def _draw_cache_level(board: Board, series: Series, look: Look) -> None:
    """An upright stroke at each point's intensity to the cache, and a thread to the point."""
    for point in series.points:
        if (x := point.cache_intensity) is None:
            continue
        xs, ys = [x, point.intensity], [point.flop_per_s] * 2
        thread = board.axes.plot(xs, ys, color=look.colour, linewidth=0.7, linestyle=":")
        thread[0].set(zorder=2, gid=part_of(series.implementation, "thread"))
        stroke = board.axes.plot([x], ys[:1], marker="|", markersize=9, color=look.colour)
        stroke[0].set(markeredgewidth=1.6, zorder=3, gid=part_of(series.implementation, "cache"))
        board.add_mark(x, ys[0], 5, series.name)


def _name_series(board: Board, facet: Facet, series: Series, look: Look | None) -> None:
    """The series' name and its first and last size, beside its points."""
    if look is None:
        return
    first, last = (count_name(size_of(series.points[i].problem, facet.swept)) for i in (0, -1))
    name = swept_name(series.points, facet.swept)
    span = f"{name} {first}…{last}" if len(series.points) > 1 else f"{name} {first}"
    middle = len(series.points) // 2
    order = sorted(series.points, key=lambda p: abs(series.points.index(p) - middle))
    spots = board.around([(p.intensity, p.flop_per_s) for p in order], gaps=(8, 13, 20, 28))
    anchor = board.pixels(order[0].intensity, order[0].flop_per_s)
    look_of_text = {"color": look.ink, "fontsize": 8.5, "fontweight": "bold"}
    look_of_text["gid"] = part_of(series.implementation, "label")
    board.put(series.name, spots, anchor, tail=span, owner=series.name, **look_of_text)


def _limits(
    row: Sequence[Facet], roofs: Sequence[Roofs], published: Sequence[Published]
) -> tuple[float, float, float, float]:
    """X and y limits that hold the points, the ridges and the roofs of one row of panels."""
    found: list[Point] = [point for facet in row for point in facet.points]
    xs = [p.intensity for p in found] + [x for r in roofs for x in r.ridges.values()]
    xs += [p.cache_intensity for p in found if p.cache_intensity]
    ys = [p.flop_per_s for p in found]
    # Of what was published the fastest may lie above all that was reached here.
    tops = [y for r in roofs for y in r.tops] + ys + [_exact_flop_per_s(row) for row in published]
    return (
        min(xs) / 2.5,
        max(xs) * 2,
        min(ys) / 1.8,
        max(tops) * (1.9 if any(len(r.lines) > 1 for r in roofs) else 1.5),
    )


_LINES_TOLD = {
    "bound": "Solid grey: ceilings measured on this machine, each with who reached it; the thick "
    "ones make the bounds. Shaded: out of reach.",
    "exp": "Dotted: what exponentials alone would allow, 4·d_h·R, R being the measured "
    "exponentials per second.",
    "datasheet": "Dashed: the datasheet's, never part of a bound.",
}


def _kinds(roofs: Sequence[Roofs]) -> set[str]:
    return {line.kind for roof in roofs for line in roof.lines}


def _notes(run: Run, panels: Sequence[Facet], roofs: Sequence[Roofs]) -> list[str]:
    convention = run.header.settings.flop_convention
    pairs = "diagonal included" if convention == "exact" else f"{convention} convention"
    above = sorted({note for roof in roofs for note in roof.notes})
    is_deep = any(p.cache_bytes for facet in panels for p in facet.points)
    return [
        " ".join(_LINES_TOLD[kind] for kind in _LINES_TOLD if kind in _kinds(roofs)),
        *above,
        method_notes(run, panels)[0] + " Marker area grows with the size.",
        f"Useful FLOP = 2·(d_h + d_v) per visible (query, key) pair, {pairs}, the same for every "
        "implementation. Bytes are what each algorithm declares that it must move, not counters.",
        "Upright strokes: the same FLOP for each byte that tiles bring from the cache, where an "
        "implementation knows its blocks; hold them against the roof of the cache, and the points "
        "at the end of their threads against that of the memory."
        if is_deep
        else "",
    ]
