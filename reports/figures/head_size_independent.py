"""Time and % of bound against d_h alone: neither H nor d_model moves; what is refused is a gap."""

from __future__ import annotations

from matplotlib.figure import Figure

from reports.facets import constants, facets
from reports.gaps import gap_note
from reports.points import points
from reports.sweep_figure import sweep_figure, title_line
from results.run import Run

TITLE = "Head size on its own"
SUITE = "head_size_independent"


def draw(run: Run) -> Figure | None:
    """A panel for the core and one for the whole layer; None without points."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite == SUITE]
    if not found:
        return None
    panels = facets(found, prefer="d_h")
    title = title_line(TITLE, run, found, constants(found))
    undrawn = [one for one in undrawn if one.suite == SUITE]
    return sweep_figure(run, panels, undrawn, title, notes=[gap_note(run, panels)])
