"""Time and % of bound of a layer against the share of its heads that pruning left in it."""

from __future__ import annotations

from matplotlib.figure import Figure

from reports.facets import KEPT, constants, facets
from reports.gaps import gap_note
from reports.points import points
from reports.sweep_figure import sweep_figure, title_line
from results.run import Run

TITLE = "Pruned heads"
SUITE = "pruned_heads"


def draw(run: Run) -> Figure | None:
    """A panel for prefill and one for decode; None without points."""
    drawn, undrawn = points(run.cells)
    found = [p for p in drawn if p.suite == SUITE and p.problem.around is not None]
    if not found:
        return None
    panels = facets(found, prefer=KEPT)
    d_models = sorted({p.problem.around.shape.d_model for p in found if p.problem.around})
    sizes = [f"d_model={d}" for d in d_models]
    title = title_line(TITLE, run, found, [*sizes, *constants(found)])
    undrawn = [one for one in undrawn if one.suite == SUITE]
    return sweep_figure(run, panels, undrawn, title, notes=[gap_note(run, panels)])
