"""What heads cost: time and % of bound against H at fixed d_model, H_kv at fixed H, and d_h."""

from __future__ import annotations

from matplotlib.figure import Figure

from reports.facets import constants, facets
from reports.gaps import gap_note
from reports.points import points
from reports.sweep_figure import sweep_figure, title_line
from results.run import Run

TITLE = "Heads and head size"
SUITES = ("heads", "head_size")


def draw(run: Run) -> Figure | None:
    """A panel for each series of the two suites; None when the run has neither."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite in SUITES]
    panels = facets(found, max_rows=8)
    # A sweep of which one size was measured shows nothing that its row of the table does not.
    panels = [panel for panel in panels if panel.n_sizes > 1] or panels
    if not panels:
        return None
    title = title_line(TITLE, run, found, constants(found))
    undrawn = [u for u in undrawn if u.suite in SUITES]
    return sweep_figure(run, panels, undrawn, title, notes=[gap_note(run, panels)])
