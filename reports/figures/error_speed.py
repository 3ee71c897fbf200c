"""Accuracy against speed: the error beside the plain formula's, and the part of the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from impls.interface.problem import PASSES
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
from reports.labels import Board
from reports.legend import looks_of
from reports.owners import part_of
from reports.points import Point, mark_of, points
from reports.style import GREY, Look, plural
from reports.sweep_figure import device_line
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell

TITLE = "Error against speed"
ABOUT = "error"
MANY = 150  # cells of a panel beyond which their middle tells more than they do
WIDTH, HEIGHT, LEFT, HEAD, FOOT, RIGHT = 4.9, 3.4, 0.85, 0.4, 0.65, 0.25  # inches


@dataclass(frozen=True)
class _Dot:
    point: Point
    percent: float
    times_naive: float


def draw(run: Run) -> Figure | None:
    """A panel for each dtype and pass; None where no row has both errors and a bound."""
    dots, undrawn = _dots(run)
    panels: dict[str, list[_Dot]] = {}
    for dot in sorted(dots, key=lambda dot: PASSES.index(dot.point.pass_)):
        p = dot.point
        dtype = DTYPE_NAMES.get(p.problem.dtype, p.problem.dtype)
        panels.setdefault(f"{dtype} · {p.pass_.replace('_', ' + ')}", []).append(dot)
    if not panels:
        return None
    look = looks_of(run)
    columns = min(2, len(panels))
    width = max(6.5, columns * (LEFT + WIDTH + RIGHT))
    title = f"{TITLE} · {device_line(run)}"
    is_many = any(len(own) > MANY for own in panels.values())
    notes = [*_NOTES, _OF_MANY if is_many else "", *undrawn]
    head, row_in = heading_height(title, width), HEAD + HEIGHT + FOOT
    height = head + -(-len(panels) // columns) * row_in + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    limits = _limits(dots)
    for i, (name, own) in enumerate(panels.items()):
        left = i % columns * (LEFT + WIDTH + RIGHT) + LEFT
        axes = panel(
            figure, left, height - head - (i // columns + 1) * row_in + FOOT, WIDTH, HEIGHT
        )
        axes.set_title(name, loc="left", fontsize=10.5)
        _draw_panel(axes, own, look, limits)
    footnote(figure, notes)
    return figure


_NOTES = (
    "Error: the largest distance of any output to float64, over that of the plain formula at the "
    "same dtype and inputs, output by output; at 1 as accurate as that. Both are measured "
    "in the run that timed. Hollow: flagged.",
)
_OF_MANY = (
    f"Of more than {MANY} cells: each implementation's medians, crosses from quartile to quartile."
)


def _dots(run: Run) -> tuple[list[_Dot], list[str]]:
    """The cells with an error above zero and a bound, and what is said of the others."""
    cells: dict[str, Cell] = {}
    for cell in run.cells:
        if cell.status == "ok" and cell.problem.is_attention:
            cells.setdefault(mark_of(cell.cell, cell.suite, cell.series), cell)
    dots, exact = [], 0
    drawn, undrawn = points(run.cells)
    for point in drawn:
        cell = cells.get(point.mark)
        ratio = times_naive(cell) if cell else None
        if ratio == 0:
            exact += 1
        elif ratio is not None and point.share is not None:
            dots.append(_Dot(point, 100 * point.share, ratio))
    told = f"{plural(exact, 'point')} without any error: no logarithmic axis has a place for it."
    notes = [told if exact else "", undrawn_note([u for u in undrawn if u.problem.is_attention])]
    return dots, notes


def times_naive(cell: Cell) -> float | None:
    """The worst output's error over the plain formula's of that output; None where unknown."""
    outputs = cell.check.outputs.values() if cell.check else ()
    ratios = [
        output.max_error / output.naive_max_error
        for output in outputs
        if output.max_error is not None and output.naive_max_error
    ]
    return max(ratios, default=None)


def _limits(dots: Sequence[_Dot]) -> tuple[float, float, float, float]:
    xs, ys = [dot.percent for dot in dots], [dot.times_naive for dot in dots]
    return 0.0, max(105.0, 1.05 * max(xs)), min([*ys, 0.7]) / 1.4, max([*ys, 1.4]) * 1.6


def _draw_panel(
    axes: Axes,
    dots: Sequence[_Dot],
    look: dict[str, Look],
    limits: tuple[float, float, float, float],
) -> None:
    axes.set_xlim(*limits[:2])
    axes.set_ylim(*limits[2:])
    log_axis(axes, "y", round_ticks(*limits[2:]), lambda times: f"{times:g} ×")
    axes.set_xlabel("% of roofline bound, right is faster")
    axes.set_ylabel("error, × the plain formula's")
    axes.axhline(1.0, color=GREY, linewidth=1.2, zorder=1)
    axes.axvline(100.0, color=GREY, linewidth=1.2, zorder=1)
    board = Board(axes)
    board.add_stroke([limits[0], limits[1]], [1.0, 1.0])
    by_name: dict[str, list[_Dot]] = {}
    for dot in dots:
        by_name.setdefault(dot.point.implementation, []).append(dot)
    for name, own in by_name.items():
        if len(dots) > MANY:
            _draw_middle(board, own, look[name])
        else:
            _draw_dots(board, own, look[name])
    for name, own in by_name.items():
        middle = sorted(own, key=lambda dot: dot.percent)[len(own) // 2]
        places = [(_median([d.percent for d in own]), _median([d.times_naive for d in own]))]
        if len(dots) <= MANY:
            places = [(d.percent, d.times_naive) for d in (middle, *own[:8])]
        spots = board.around(places, gaps=(7, 12, 20))
        board.put(
            name, spots, board.pixels(*places[0]), owner=name, color=look[name].ink, fontsize=8.5,
            fontweight="bold", gid=part_of(name, "label"),
        )  # fmt: skip


def _draw_dots(board: Board, dots: Sequence[_Dot], own: Look) -> None:
    """A mark for each cell, hollow where it is flagged."""
    for dot in dots:
        at = board.axes.plot([dot.percent], [dot.times_naive], marker=own.marker, color=own.colour)
        at[0].set(markersize=5, zorder=4, clip_on=False)
        at[0].set(gid=dot.point.mark)
        at[0].set(markerfacecolor="white" if dot.point.flags else own.colour)
        board.add_mark(dot.percent, dot.times_naive, 4, dot.point.implementation)


def _draw_middle(board: Board, dots: Sequence[_Dot], own: Look) -> None:
    """Of very many cells the median in both directions, and a cross from quartile to quartile."""
    xs, ys = [dot.percent for dot in dots], [dot.times_naive for dot in dots]
    x, y, part = _median(xs), _median(ys), part_of(dots[0].point.implementation)
    for corners in (
        (np.quantile(xs, [0.25, 0.75]), [y, y]),
        ([x, x], np.quantile(ys, [0.25, 0.75])),
    ):
        board.axes.plot(*corners, color=own.colour, linewidth=1.2, zorder=3, gid=part)
    at = board.axes.plot([x], [y], marker=own.marker, color=own.colour, markersize=7)
    at[0].set(zorder=4, gid=part)
    board.add_mark(x, y, 6, dots[0].point.implementation)


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
