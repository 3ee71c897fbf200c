"""Which series are drawn in colour, and the legend that stands outside when there are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from reports.axes import panel
from reports.facets import Facet
from reports.owners import part_of
from reports.style import GREY, MARKERS, REST, Look, looks, shortened
from reports.sweep import Pen
from results.run import Run

LEGEND_IN = 3.1
_MOST_LETTERS = 32  # that a legend so wide holds
TOP = 16
_ROW_IN = 0.24


def looks_of(run: Run) -> dict[str, Look]:
    """The look of each implementation that the run timed, one for its page and figures."""
    return looks(cell.implementation for cell in run.cells if cell.timing is not None)


def choose(run: Run, panels: Sequence[Facet]) -> Pen:
    """The pen for these panels: at most `TOP` series in colour, the fastest at their end.

    An implementation has its colour in every figure of the run; where it has several series, of
    other sizes, they differ in their markers.
    """
    names = {series.name for facet in panels for series in facet.series}
    own = looks_of(run)
    best: dict[str, float] = {}
    for facet in panels:
        for series in facet.series:
            best[series.name] = max(best.get(series.name, 0), series.points[-1].flop_per_s)
    ranked = sorted(names, key=lambda name: (-best[name], name))[:TOP]
    looked = own if names <= own.keys() else _by_setting(panels, own) or looks(ranked)
    return Pen(looked, tuple(ranked))


def _by_setting(panels: Sequence[Facet], own: Mapping[str, Look]) -> dict[str, Look]:
    """Each series as its implementation, with its setting's marker; empty for too many settings."""
    every = [series for facet in panels for series in facet.series]
    settings = list(dict.fromkeys(series.setting for series in every))
    if len(settings) > len(MARKERS):
        return {}
    marker = dict(zip(settings, MARKERS, strict=False))
    return {s.name: replace(own[s.implementation], marker=marker[s.setting]) for s in every}


def draw_legend(figure: Figure, panels: Sequence[Facet], pen: Pen, left_in: float) -> None:
    """The named series with line and marker, right of `left_in`, and the rest counted."""
    names = {series.name for facet in panels for series in facet.series}
    named = [name for name in pen.named if name in names]
    owners = {series.name: series.implementation for facet in panels for series in facet.series}
    rest = len(names) - len(named)
    height_in = _ROW_IN * (len(named) + bool(rest))
    axes = panel(
        figure, left_in, figure.get_size_inches()[1] - 0.95 - height_in, LEGEND_IN - 0.2, height_in
    )
    axes.set_axis_off()
    axes.set_xlim(0, LEGEND_IN - 0.2)
    axes.set_ylim(len(named) + bool(rest) - 0.5, -0.5)
    for row, name in enumerate(named):
        look = pen.looks[name]
        part = part_of(owners[name])
        axes.plot([0.05, 0.45], [row, row], color=look.colour, linestyle=look.dash, gid=part)
        axes.plot([0.25], [row], color=look.colour, marker=look.marker, markersize=6, gid=part)
        words = shortened(name, _MOST_LETTERS)
        text = axes.text(0.55, row, words, color=look.ink, va="center", fontsize=8.5)
        text.set_gid(part_of(owners[name], "label"))
    if rest:
        axes.plot([0.05, 0.45], [len(named)] * 2, color=REST, linewidth=0.8)
        words = f"{rest} further series: in the table"
        axes.text(0.55, len(named), words, color=GREY, va="center", fontsize=8.5)
