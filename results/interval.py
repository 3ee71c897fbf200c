"""How well a cell's median is known: the one number that is written after ±."""

from __future__ import annotations

from results.schema import Cell

MEANING = (
    "±: half the width of the 95 % interval of the median within its launch, in % of the median"
)
UNKNOWN = "–"


def half_width_percent(cell: Cell) -> float | None:
    """Half the 95 % interval of the median, in % of the median; None where it is not known.

    It says nothing of other launches.
    """
    timing = cell.timing
    if timing is None or timing.ci_low_s is None or timing.ci_high_s is None or not timing.median_s:
        return None
    return 50 * (timing.ci_high_s - timing.ci_low_s) / timing.median_s


def half_width_text(cell: Cell) -> str:
    """The same as it is written in every table, to one place after the point."""
    percent = half_width_percent(cell)
    return UNKNOWN if percent is None else f"{percent:.1f}"
