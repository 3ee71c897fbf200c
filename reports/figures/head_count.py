"""Time and % of bound against 1 to 32 heads at d_model 512, beside the paper's quality of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import log_axis
from reports.facets import Facet, constants, facets
from reports.gaps import gap_note
from reports.points import points
from reports.style import GREY
from reports.sweep import X_NAMES
from reports.sweep_figure import Beside, sweep_figure, title_line
from results.published import D_MODEL, HEAD_COUNTS, SOURCE
from results.run import Run

TITLE = "Head count at the paper's width"
SUITE = "head_count"


def draw(run: Run) -> Figure | None:
    """A panel for core and layer, the published quality beside the first; None without points."""
    drawn, undrawn = points(run.cells)
    found = [point for point in drawn if point.suite == SUITE]
    if not found:
        return None
    panels = facets(found, prefer="H")
    title = title_line(TITLE, run, found, [f"d_model={D_MODEL}", *constants(found)])
    notes = [gap_note(run, panels), f"Published quality: {SOURCE}."]
    beside = Beside("published quality of these H", draw_quality)
    undrawn = [one for one in undrawn if one.suite == SUITE]
    return sweep_figure(run, panels, undrawn, title, beside=beside, notes=notes)


def draw_quality(facet: Facet, upper: Axes, lower: Axes) -> None:
    """Perplexity over BLEU against H, on the axis that the panel beside it has."""
    perplexities = [quality.perplexity for quality in HEAD_COUNTS]
    _draw_quality(upper, perplexities, (4.9, 5.0, 5.1, 5.2, 5.3), best=min)
    _draw_quality(lower, [quality.bleu for quality in HEAD_COUNTS], (25.0, 25.5, 26.0), best=max)
    upper.set_ylabel("perplexity (lower is better)")
    lower.set_ylabel("BLEU (higher)")
    upper.tick_params(labelbottom=False)
    lower.set_xlabel(X_NAMES["H"])


def _draw_quality(
    axes: Axes, ys: Sequence[float], ticks: Sequence[float], best: Callable[..., float]
) -> None:
    """One line, each point with its value on the side where the line is not."""
    Hs = [quality.H for quality in HEAD_COUNTS]
    margin = 0.3 * (max(ys) - min(ys))
    axes.set_xlim(Hs[0] / 1.19, Hs[-1] * 1.19)
    axes.set_ylim(min(ys) - margin, max(ys) + margin)
    log_axis(axes, "x", Hs, lambda H: f"{H:.0f}")
    axes.set_yticks(ticks)
    axes.plot(Hs, ys, color=GREY, linewidth=1.5, marker="o", markersize=5, gid="quality")
    for H, y in zip(Hs, ys, strict=True):
        is_end = H in (Hs[0], Hs[-1])
        above = is_end == (best is min)
        shown = f"{y:.2f}" if best is min else f"{y:.1f}"
        place = (0, 7 if above else -7)
        text = axes.annotate(shown, (H, y), place, textcoords="offset points")
        text.set(ha="center", va="bottom" if above else "top", fontsize=8.5, color=GREY)
        text.set_gid("label")
