"""How often the gate is wrong on one machine: its own unchanged launches, dealt to two sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.gate import judge
from results.inference import Floats
from results.plan import Plan, PlanRefused, fitted

RUNS = 100
RATIOS = (1.05, 1.10)
# One cell in ten is slowed, one at least.
_SLOWED_SHARE = 0.1


@dataclass(frozen=True)
class OwnRates:
    """What a gate of half the launches a side makes of them.

    Attributes:
        runs: ways of dealing the launches to two sides; they overlap.
        launches: of a side.
        failed: runs in which a cell, or the suite, was called slower though nothing had changed.
        found: the share of really slowed cells that were named, by ratio ("1.05").
    """

    runs: int
    launches: int
    failed: int
    found: Mapping[str, float]


def own_rates(times_s: Floats, floors: Floats, plan: Plan, runs: int = RUNS) -> OwnRates | None:
    """The rates on unchanged launches, (launches, cells) seconds in the order of measuring.

    None where half of them are too few to find anything, or where a launch lacks a cell.
    """
    times_s = times_s[: len(times_s) // 2 * 2]
    half, cells = len(times_s) // 2, times_s.shape[1]
    if not cells or np.isnan(times_s).any():
        return None
    try:
        plan = fitted(plan, half, half, cells)
    except PlanRefused:
        return None
    failed = 0
    for base, head, _ in _dealt(times_s, runs, 1.0):
        judged = judge(base, head, plan, floor=floors)
        is_slower = judged.suite is not None and judged.suite.is_slower
        failed += is_slower or bool((judged.verdict == "regressed").any())
    found = {}
    for ratio in RATIOS:
        named = [
            judge(base, head, plan, floor=floors).verdict[slowed] == "regressed"
            for base, head, slowed in _dealt(times_s, runs, ratio)
        ]
        found[f"{ratio:.2f}"] = float(np.mean(named))
    return OwnRates(runs, half, failed, found)


def _dealt(
    times_s: Floats, runs: int, ratio: float
) -> Iterator[tuple[Floats, Floats, NDArray[np.intp]]]:
    """Base, head and the cells slowed in head: of each two neighbours either side gets one."""
    rng = np.random.default_rng(0)
    pairs = times_s.reshape(-1, 2, times_s.shape[1])
    slowed_n = max(1, round(_SLOWED_SHARE * times_s.shape[1]))
    for _ in range(runs):
        first = rng.integers(2, size=len(pairs))
        rows = np.arange(len(pairs))
        base, head = pairs[rows, first], pairs[rows, 1 - first]
        slowed = rng.permutation(times_s.shape[1])[:slowed_n]
        head[:, slowed] *= ratio
        yield base, head, slowed
