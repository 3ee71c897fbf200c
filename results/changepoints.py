"""Where a series of nights changed its level: the segments of least L1 cost on logarithms.

They are those that PELT finds (Killick, Fearnhead and Eckley, 2012), found exactly and fast enough
for ten thousand nights. The L1 cost, distances to the median, lets single outliers be. A new level
counts from its third night on: the first shows it and two more confirm it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    # Importing it takes as long as reading a thousand runs: it has scipy behind it.
    from results.inference import Floats

CONFIRMING_NIGHTS = 2
# The step that is named, and what a change must save of the cost, in ln n robust deviations: the
# customary 2 misses one in eight steps of 5 % after ten nights of 2 % noise, this one in ten.
LEAST_RATIO = 1.03
_PENALTY = 1.75
# So many of a level's nights must lie beyond the middle of its step: of three nights all, or two
# outliers side by side would be a level.
_BEYOND = 0.7
# Differences of neighbours spread by sqrt(2) of the noise, whatever the level does;
# 0.6745 is the normal distribution's third quartile.
_TO_DEVIATION = 0.6745 * math.sqrt(2)


@dataclass(frozen=True)
class ChangePoint:
    """A new level: the index of its first night, and its ratio to the level before.

    1.05 is slower; `nights` is how many nights of the new level there are.
    """

    index: int
    ratio: float
    nights: int


def change_points(times_s: Sequence[float] | Floats) -> list[ChangePoint]:
    """The changes of level of one series, oldest first, none smaller than 3 %.

    Neighbouring levels that differ by less are one level.

    Raises:
        ValueError: a time is not positive and finite.
    """
    times = np.asarray(times_s, dtype=float)
    if not np.all(np.isfinite(times) & (times > 0)):
        raise ValueError("a series has a time that is not positive: leave such nights out")
    least = CONFIRMING_NIGHTS + 1
    if len(times) < 2 * least:
        return []
    logs = np.log(times)
    deviation = float(np.median(np.abs(np.diff(logs)))) / _TO_DEVIATION
    # A clock of coarse steps may repeat itself; then any step is far beyond its noise.
    scaled = logs / max(deviation, 1e-6)
    edges = _segments(scaled, least, _PENALTY * math.log(len(logs)))
    return _confirmed(logs, edges)


def _segments(values: Floats, least: int, penalty: float) -> list[int]:
    """The edges, 0 and n among them, of the segments of least total L1 cost and penalty each.

    Exact, by what functional pruning stands on (Maidstone et al. 2017, section 4): the least cost
    of all that ends in a segment of a certain level is that of one value less, plus this value's
    distance to the level, or a new segment begins. A segment's best level is one of the values, so
    a table of these is enough: n² in time, n in memory, where segments' own costs take n³ and n².
    """
    n, levels = len(values), np.unique(values)
    totals = np.concatenate(([-penalty], np.full(n, np.inf)))
    begins = np.zeros(n + 1, dtype=int)
    # By level: the least cost so far if the last segment has it, and where that segment began.
    costs, starts = np.full(len(levels), np.inf), np.zeros(len(levels), dtype=int)
    distances = [np.abs(levels - value) for value in values[: least - 1]]
    for end in range(least, n + 1):
        distances.append(np.abs(levels - values[end - 1]))
        costs += distances[-1]
        new = totals[end - least] + penalty + sum(distances)
        is_new = new < costs
        np.copyto(costs, new, where=is_new)
        np.copyto(starts, end - least, where=is_new)
        best = int(costs.argmin())
        totals[end], begins[end] = costs[best], starts[best]
        del distances[0]
    edges = [n]
    while edges[-1] > 0:
        edges.append(int(begins[edges[-1]]))
    return edges[::-1]


def _confirmed(logs: Floats, edges: list[int]) -> list[ChangePoint]:
    """The change points between segments, the weakest dissolved until all are confirmed."""
    while len(edges) > 2:
        levels = [float(np.median(logs[a:b])) for a, b in itertools.pairwise(edges)]
        found = []
        for (before, after), (a, b) in zip(
            itertools.pairwise(levels), itertools.pairwise(edges[1:]), strict=True
        ):
            sign = 1 if after > before else -1
            beyond = float(np.mean(sign * (logs[a:b] - (before + after) / 2) > 0))
            is_step = abs(after - before) >= math.log(LEAST_RATIO) and beyond >= _BEYOND
            found.append(
                (is_step, abs(after - before), ChangePoint(a, math.exp(after - before), b - a))
            )
        weak = [size if not is_step else math.inf for is_step, size, _ in found]
        if min(weak) == math.inf:
            return [point for *_, point in found]
        del edges[1 + weak.index(min(weak))]
    return []
