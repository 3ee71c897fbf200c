"""What training costs: the backward alone and both passes against T, above the roofline bound."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from reports.facets import constants, facets
from reports.points import points
from reports.sweep_figure import sweep_figure, title_line
from results.run import Run

TITLE = "The backward, alone and after its forward"
SUITE = "backward"


def draw(run: Run) -> Figure | None:
    """A panel for each series, pass and dtype with more than one size; None without one."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite == SUITE]
    panels = [
        replace(panel, row=panel.row.replace("forward_backward", "forward + backward"))
        for panel in facets(found, max_rows=8)
        if panel.n_sizes > 1
    ]
    if not panels:
        return None
    shown = [point for panel in panels for point in panel.points]
    title = title_line(TITLE, run, shown, constants(shown))
    return sweep_figure(run, panels, [u for u in undrawn if u.suite == SUITE], title)
