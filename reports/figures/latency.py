"""Time against sequence length above the roofline bound, and the part of that bound reached."""

from __future__ import annotations

from matplotlib.figure import Figure

from reports.facets import constants, facets, of_suite
from reports.points import points
from reports.sweep_figure import sweep_figure, title_line
from results.run import Run

TITLE = "Latency and distance to the bound"
ABOUT = "time"
SUITE = "sequence_length"


def draw(run: Run) -> Figure | None:
    """Panels full | causal for each dtype, time over % of bound; None without points."""
    found, undrawn = points(run.cells)
    found = of_suite(found, SUITE)
    panels = facets(found, prefer="T")
    undrawn = (
        [u for u in undrawn if u.suite == SUITE] if found and found[0].suite == SUITE else undrawn
    )
    if not panels:
        return None
    title = title_line("Latency and distance to the bound", run, found, constants(found))
    return sweep_figure(run, panels, undrawn, title)
