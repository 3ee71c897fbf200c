"""What a list of samples says: median, quartiles, the interval of the median, when to stop."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_EXACT_UP_TO = 200


@dataclass(frozen=True)
class Summary:
    """Order statistics of samples, in the samples' unit; `ci_*` bound the median at 95 %."""

    n: int
    median: float
    min: float
    q1: float
    q3: float
    mean: float
    ci_low: float | None
    ci_high: float | None

    @property
    def half_width(self) -> float | None:
        """Half the interval of the median, relative to it; None when there is no interval."""
        if self.ci_low is None or self.ci_high is None or self.median <= 0:
            return None
        return (self.ci_high - self.ci_low) / 2 / self.median


def summarize(samples: Sequence[float]) -> Summary:
    """The summary of at least one sample.

    The interval is distribution-free: the order statistics whose ranks cover the median with
    95 % (Conover, Practical Nonparametric Statistics, 3rd ed., §3.2). Fewer than 6 samples have
    no such interval.
    """
    if not samples:
        raise ValueError("no samples: there is nothing to summarize")
    ordered = sorted(samples)
    n = len(ordered)
    q1, median, q3 = (
        statistics.quantiles(ordered, n=4, method="inclusive") if n > 1 else ordered * 3
    )
    rank = lower_rank(n)
    return Summary(
        n=n,
        median=median,
        min=ordered[0],
        q1=q1,
        q3=q3,
        mean=math.fsum(ordered) / n,
        ci_low=None if rank is None else ordered[rank - 1],
        ci_high=None if rank is None else ordered[n - rank],
    )


@lru_cache(maxsize=4096)
def lower_rank(n: int) -> int | None:
    """The largest rank r (from 1) such that [x_r, x_{n+1-r}] holds the median with 95 %.

    P(miss) = 2·P(Binomial(n, 1/2) < r). None below 6 samples, where even the range misses it
    more often.
    """
    if n > _EXACT_UP_TO:
        # The normal approximation with continuity correction errs by at most one rank here.
        return math.floor(n / 2 - 0.98 * math.sqrt(n) + 0.5)
    missing, rank = 0, 0
    while True:
        missing += math.comb(n, rank)
        if 2 * missing > 0.05 * 2**n:
            return rank or None
        rank += 1


def is_precise(samples: Sequence[float], target: float) -> bool:
    """Whether the median's interval is within ±`target` of it, relative."""
    half_width = summarize(samples).half_width
    return half_width is not None and half_width <= target


def is_steady(samples: Sequence[float], window: int, tolerance: float) -> bool:
    """Whether the medians of the last two windows agree within `tolerance`, relative."""
    if len(samples) < 2 * window:
        return False
    before = statistics.median(samples[-2 * window : -window])
    after = statistics.median(samples[-window:])
    return abs(after - before) <= tolerance * max(after, before)


def thin(samples: Sequence[float], most: int) -> list[float]:
    """At most `most` samples, taken evenly over the whole series, first and last included."""
    n = len(samples)
    if n <= most:
        return list(samples)
    if most == 1:
        return [samples[0]]
    return [samples[i * (n - 1) // (most - 1)] for i in range(most)]
