"""Packing a plan into tasks: what is compared stays together, and each pack pays for its start."""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from typing import Any

from suites.measure.journal import row_of

PACKS_PER_DEVICE = 4
"""So many for each device at most: the last ones even out what the estimates got wrong."""
LEAST_S = 30.0
"""A pack begins with some five seconds of imports and trials; shorter ones would be all start."""


def packs(
    entries: Sequence[Mapping[str, Any]], devices: int, least_s: float = LEAST_S
) -> list[tuple[str, ...]]:
    """The rows of each pack, the longest pack first; within one, in the plan's order.

    All implementations on a problem, pass and cache state are one group, measured by one task on
    one device: their ratios compare kernels, not devices. Groups go from the longest on into the
    pack that is shortest so far (Graham's LPT, 1969: at most 4/3 of the best possible span).
    """
    groups: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        groups.setdefault(_group(entry), []).append(place)
    seconds = {name: sum(_seconds(entries[n]) for n in group) for name, group in groups.items()}
    count = _count(sum(seconds.values()), len(groups), devices, least_s)
    shortest: list[tuple[float, int]] = [(0.0, n) for n in range(count)]
    filled: list[list[int]] = [[] for _ in range(count)]
    for name in sorted(groups, key=lambda name: -seconds[name]):
        length_s, n = heapq.heappop(shortest)
        filled[n] += groups[name]
        heapq.heappush(shortest, (length_s + seconds[name], n))
    in_turn = [n for _, n in sorted(shortest, key=lambda one: (-one[0], one[1]))]
    return [tuple(row_of(entries[place]) for place in sorted(filled[n])) for n in in_turn]


def _count(total_s: float, groups: int, devices: int, least_s: float) -> int:
    pack_s = max(least_s, total_s / (devices * PACKS_PER_DEVICE))
    return min(groups, max(devices, int(total_s / pack_s)))


def _group(entry: Mapping[str, Any]) -> str:
    return json.dumps([entry["problem"], entry["pass"], entry["cache"]], sort_keys=True)


def _seconds(entry: Mapping[str, Any]) -> float:
    return (entry["estimate_s"] or 0.0) if entry["decision"] == "run" else 0.0
