"""Time and % of bound of packed and padded batches against how much of the padded one is filled."""

from __future__ import annotations

from matplotlib.figure import Figure

from reports.facets import FILLED, constants, facets
from reports.gaps import gap_note
from reports.points import points
from reports.sweep_figure import sweep_figure, title_line
from results.run import Run

TITLE = "Variable lengths, packed and padded"
SUITE = "variable_length"


def draw(run: Run) -> Figure | None:
    """A panel each for full and causal; None without points."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite == SUITE]
    if not found:
        return None
    panels = facets(found, prefer=FILLED)
    tokens = sorted({point.problem.joined.T_q for point in found})
    sizes = [f"{n} tokens" for n in tokens]
    title = title_line(TITLE, run, found, [*sizes, *constants(found)])
    undrawn = [one for one in undrawn if one.suite == SUITE]
    return sweep_figure(run, panels, undrawn, title, notes=[gap_note(run, panels)])
