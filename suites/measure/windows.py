"""Rates of many small works in interleaved windows, so that no slow moment decides one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

WINDOW_S = 0.08
PASSES = 6
LEAST_PASSES = 3
LIMIT_S = 8.5

# After two passes, what reaches less than this share of the best of its group is measured no more.
_HOPELESS_BELOW = 0.8


@dataclass(frozen=True)
class Work:
    """Something to call and how much it does: FLOP, bytes or exponentials a call.

    Works of one `group` rival for one ceiling; `provider` and `size` say who did it and on what.
    For `settle_s` after a window the provider's threads may still spin, on the next one's clock.
    """

    group: str
    provider: str
    call: Callable[[], object]
    amount: float
    size: int
    settle_s: float = 0.0


@dataclass
class Rate:
    """The rates, amount a second, one of each window."""

    work: Work
    rates: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The fastest window: what the machine can do."""
        return max(self.rates)

    @property
    def median(self) -> float:
        """The middle window: what it did."""
        return statistics.median(self.rates)


def measure_rates(
    works: Sequence[Work],
    clock: Callable[[], float],
    progress: Callable[[str], None] | None = None,
    limit_s: float = LIMIT_S,
) -> list[Rate]:
    """One rate per work, each with at least `LEAST_PASSES` windows unless it is hopeless.

    All works take turns, `PASSES` times or until `limit_s` of wall time. `clock` is CPU time or
    wall, in seconds.
    """
    began = time.perf_counter()
    rates = [Rate(work) for work in works]
    calls = [_calls_per_window(work, clock) for work in works]
    for n in range(PASSES):
        for rate, n_calls in zip(rates, calls, strict=True):
            if n >= 2 and rate.best < _HOPELESS_BELOW * _best_of(rates, rate.work.group):
                continue
            if progress is not None:
                progress(f"pass {n + 1} of {PASSES}: {rate.work.group}, {rate.work.provider}")
            rate.rates.append(_rate(rate.work, n_calls, clock))
            time.sleep(rate.work.settle_s)
        if n + 1 >= LEAST_PASSES and time.perf_counter() - began > limit_s * (n + 1) / (n + 2):
            break
    return rates


def by_provider(rates: Sequence[Rate], group: str) -> dict[str, Rate]:
    """Of each provider of a group the size it was fastest at, the fastest provider first."""
    fastest: dict[str, Rate] = {}
    for rate in sorted(rates, key=lambda rate: -rate.best):
        if rate.work.group == group:
            fastest.setdefault(rate.work.provider, rate)
    return fastest


def _best_of(rates: Sequence[Rate], group: str) -> float:
    return max(rate.best for rate in rates if rate.work.group == group)


def _calls_per_window(work: Work, clock: Callable[[], float]) -> int:
    work.call()
    calls = 1
    while True:
        start = clock()
        for _ in repeat(None, calls):
            work.call()
        elapsed_s = clock() - start
        if elapsed_s >= WINDOW_S / 16:
            return max(1, round(calls * WINDOW_S / elapsed_s))
        calls *= 4


def _rate(work: Work, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in repeat(None, calls):
        work.call()
    return work.amount * calls / max(clock() - start, 1e-9)
