"""When each step of a day must be over: shares of the whole, what one leaves goes to the next."""

from __future__ import annotations

from collections.abc import Sequence

CLOSING_S = 2.0
"""Kept for the day itself: the last record, and the end of the last child."""


def ends_s(shares_s: Sequence[float], total_s: float, asked_s: float) -> list[float]:
    """Seconds from the beginning at which each step must be over.

    Shares are of a day of `asked_s`, and scaled to one of `total_s`. A step may have its own share,
    what those before it left, and the reserve that the shares leave of the day: no step takes from
    those behind it, and the last may take all that is left.
    """
    usable_s = max(0.0, total_s - CLOSING_S)
    scale = usable_s / asked_s
    reserve_s = asked_s - sum(shares_s)
    if reserve_s < 0:
        raise ValueError(f"shares of {sum(shares_s):g} s in a day of {asked_s:g} s")
    found, until_s = [], reserve_s
    for share_s in shares_s:
        until_s += share_s
        found.append(scale * until_s)
    return found
