"""What launches say of two sides, cell by cell: ratio, interval and exact p, and the plan's limits.

A sample is one number of one launch. Arrays are (launches, cells) in seconds; NaN is a cell that a
launch did not measure. Everything stands on the differences of logarithms of each launch of one
side and each of the other: their median is the ratio (Hodges and Lehmann, 1963), the share above
zero is the Mann-Whitney statistic, and their order statistics are the interval.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.floating[Any]]
Booleans = NDArray[np.bool_]

CONFIDENCE = 0.95
# The standard deviation of a difference of Hodges-Lehmann's kind is within a few per cent of the
# mean's for normal noise: sqrt(pi / 3).
_EFFICIENCY = math.sqrt(math.pi / 3)


class PooledRounds(ValueError):
    """Rounds of one process were given as if they were launches."""


@dataclass(frozen=True)
class Estimate:
    """Per cell: head's time / base's, its interval, and one-sided p of either direction.

    `p_slower` is of head being slower. NaN where a side has no launch; the interval is infinite
    where there are too few for one.
    """

    ratio: Floats
    low: Floats
    high: Floats
    p_slower: Floats
    p_faster: Floats
    base_n: NDArray[np.intp]
    head_n: NDArray[np.intp]


def check_samples(times_s: Floats, launches: Sequence[object] | None = None) -> Floats:
    """The array as it is, when it can be one number per launch and cell.

    `launches` names the launch of each row, where that is known.

    Raises:
        PooledRounds: there is a third dimension, or two rows are of one launch.
        ValueError: not of two dimensions, or a time that is not positive and finite (NaN may be).
    """
    array = np.asarray(times_s, dtype=float)
    if array.ndim == 3:
        raise PooledRounds(
            f"samples of shape {array.shape}: rounds within a launch are not independent: give "
            "one number per launch and cell, (launches, cells)"
        )
    if array.ndim != 2:
        raise ValueError(f"samples of shape {array.shape}: expected (launches, cells)")
    names = [] if launches is None else list(launches)
    if names and len(set(names)) < len(names):
        raise PooledRounds(
            f"{len(names)} rows of {len(set(names))} launches: rounds within a launch are not "
            "independent: give one number per launch and cell"
        )
    if np.any((array <= 0) | np.isinf(array)):
        raise ValueError("a time is not a positive number of seconds: leave it out as NaN")
    return array


def estimate(base_s: Floats, head_s: Floats) -> Estimate:
    """What the launches of two sides, (launches, cells) each, say of every cell."""
    base, head = np.log(np.sort(base_s, axis=0)), np.log(np.sort(head_s, axis=0))
    counts = np.stack([(~np.isnan(base)).sum(0), (~np.isnan(head)).sum(0)], axis=1)
    found = np.full((5, base.shape[1]), np.nan)
    for n, m in np.unique(counts, axis=0):
        cells = np.flatnonzero((counts == (n, m)).all(axis=1))
        if n and m:
            found[:, cells] = _estimate_full(base[:n, cells], head[:m, cells])
    return Estimate(*found, base_n=counts[:, 0], head_n=counts[:, 1])


def _estimate_full(base: Floats, head: Floats) -> Floats:
    """Ratio, low, high, p_slower, p_faster; a row each, from logs without gaps."""
    n, m = len(base), len(head)
    differences = (head[:, None, :] - base[None, :, :]).reshape(n * m, -1)
    survival = survival_of_u(n, m)
    # A tie counts against whatever is to be shown, so that coarse clocks cannot feign certainty.
    p_slower = survival[(differences > 0).sum(axis=0)]
    p_faster = survival[(differences < 0).sum(axis=0)]
    depth = interval_depth(n, m)
    ranks = sorted({depth, (n * m - 1) // 2, n * m // 2, n * m - 1 - depth} & set(range(n * m)))
    ordered = np.partition(differences, ranks, axis=0)
    ratio = np.exp((ordered[(n * m - 1) // 2] + ordered[n * m // 2]) / 2)
    if depth < 0:
        low, high = np.zeros_like(ratio), np.full_like(ratio, np.inf)
    else:
        low, high = np.exp(ordered[depth]), np.exp(ordered[n * m - 1 - depth])
    return np.stack([ratio, low, high, p_slower, p_faster])


@functools.cache
def survival_of_u(n: int, m: int) -> Floats:
    """P(U ≥ u) for u = 0 … nm, U the Mann-Whitney statistic of n and m exchangeable values.

    The largest of all belongs to either side in proportion to its size and then exceeds every
    value of the other: f(n, m, u) = n/(n+m) f(n−1, m, u−m) + m/(n+m) f(n, m−1, u)
    (Mann and Whitney, 1947).
    """
    row = [np.ones(1)] * (m + 1)
    for i in range(1, n + 1):
        above, row = row, [np.ones(1)]
        for j in range(1, m + 1):
            mass = np.zeros(i * j + 1)
            mass[j:] += i / (i + j) * above[j]
            mass[: i * (j - 1) + 1] += j / (i + j) * row[j - 1]
            row.append(mass)
    return np.minimum(np.cumsum(row[m][::-1])[::-1], 1.0)


@functools.cache
def interval_depth(n: int, m: int) -> int:
    """How many of the ordered differences lie outside on either side; −1: no interval."""
    tail = (1 - CONFIDENCE) / 2
    # P(U ≤ k) = P(U ≥ nm − k) by symmetry.
    lower = survival_of_u(n, m)[::-1]
    return int(np.searchsorted(lower, tail, side="right")) - 1


def welch_p(base_s: Floats, head_s: Floats) -> Floats:
    """One-sided p per cell that head's mean log is above base's, by Welch's t.

    1 where a side has fewer than two launches.
    """
    base, head = np.log(base_s), np.log(head_s)
    n, m = (~np.isnan(base)).sum(0), (~np.isnan(head)).sum(0)
    enough = (n > 1) & (m > 1)
    p = np.ones(base.shape[1])
    base, head, n, m = base[:, enough], head[:, enough], n[enough], m[enough]
    shift = np.nanmean(head, axis=0) - np.nanmean(base, axis=0)
    of_base, of_head = np.nanvar(base, axis=0, ddof=1) / n, np.nanvar(head, axis=0, ddof=1) / m
    variance = of_base + of_head
    # Launches that all gave the same number have no variance, and any shift between them is one.
    variance = np.where(variance > 0, variance, np.finfo(float).tiny)
    freedom = variance**2 / np.maximum(
        of_base**2 / (n - 1) + of_head**2 / (m - 1), np.finfo(float).tiny
    )
    p[enough] = special.stdtr(np.clip(freedom, 1, None), -shift / np.sqrt(variance))
    return p


def holm(p: Floats) -> Floats:
    """Adjusted p of one family of tests (Holm, 1979), in the given order."""
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted


def smallest_p(base_n: int, head_n: int) -> float:
    """The smallest p that Mann-Whitney can give: one order of all there are."""
    return 1 / math.comb(base_n + head_n, head_n)


def launches_needed(cells: int, alpha: float) -> int:
    """The fewest launches a side with which one of so many cells could be found."""
    n = 1
    while smallest_p(n, n) > alpha / max(cells, 1):
        n += 1
    return n


def pooled_spread(groups_s: Sequence[Floats]) -> Floats:
    """Per cell the standard deviation of log times between launches.

    Each group is taken about its own mean. NaN where no group has two launches of the cell.
    """
    squares = freedom = np.zeros(groups_s[0].shape[1])
    for times_s in groups_s:
        known = ~np.isnan(times_s)
        n = known.sum(axis=0)
        logs = np.log(np.where(known, times_s, 1.0))
        mean = logs.sum(axis=0) / np.maximum(n, 1)
        squares = squares + (known * (logs - mean) ** 2).sum(axis=0)
        freedom = freedom + np.maximum(n - 1, 0)
    return np.sqrt(np.where(freedom > 0, squares / np.maximum(freedom, 1), np.nan))


def ratio_error(spread_log: Floats, base_n: int, head_n: int) -> Floats:
    """The standard error of a log ratio of so many launches, from the spread between launches."""
    return _EFFICIENCY * spread_log * math.sqrt(1 / base_n + 1 / head_n)
