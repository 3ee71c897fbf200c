"""Times that cannot be: rows faster than what their machine reached, whatever the file says."""

from __future__ import annotations

from dataclasses import replace

from results.schema import Cell

ABOVE_CEILING = "above_ceiling"
# Two windows of one ceiling differ by about this much; beyond it one of the two numbers is wrong.
ABOVE_BY = 0.03


def flagged(cell: Cell) -> Cell:
    """The cell, with the flag `above_ceiling` when its time beats its bound by more than 3 %.

    The flag is written when a cell is measured; it is set here again so that a file of another
    origin cannot bring an impossible row into a best-of or a baseline.
    """
    if cell.timing is None or cell.bound is None or ABOVE_CEILING in cell.flags:
        return cell
    if cell.bound.time_s <= (1 + ABOVE_BY) * cell.timing.median_s:
        return cell
    return replace(cell, flags=(*cell.flags, ABOVE_CEILING))
