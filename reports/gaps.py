"""Why a line of a sweep has a gap: who could not do which of its sizes, in one footnote."""

from __future__ import annotations

from collections.abc import Sequence

from reports.facets import FILLED, KEPT, Facet, size_name, size_of
from results.run import Run

# What is beyond the budget, or absent altogether, leaves a line shorter and no gap to explain.
_UNTOLD = ("ok", "skipped", "unavailable")


def gap_note(run: Run, panels: Sequence[Facet]) -> str:
    """Names the sizes that an implementation with points could not do; empty when all could."""
    gaps: dict[tuple[str, str], dict[float, str]] = {}
    for facet in panels:
        sweeps = {(p.suite, p.series) for p in facet.points}
        drawn = {p.implementation for p in facet.points}
        for cell in run.cells:
            if (
                (cell.suite, cell.series) in sweeps
                and cell.implementation in drawn
                and cell.status not in _UNTOLD
            ):
                size = size_of(cell.problem, facet.swept)
                why = cell.reasons[0] if cell.reasons else cell.status
                gaps.setdefault((cell.implementation, facet.swept), {}).setdefault(size, why)
    told = [_told(name, swept, sizes) for (name, swept), sizes in gaps.items()]
    return f"Gaps: {'; '.join(told)}." if told else ""


def _told(name: str, swept: str, sizes: dict[float, str]) -> str:
    at = ", ".join(size_name(size, swept) for size in sorted(sizes))
    where = f"{at} {swept}" if swept in (KEPT, FILLED) else f"{swept} {at}"
    return f"{name} at {where} ({sizes[min(sizes)]})"
