"""The gate on arrays: screen every cell, confirm the suspects on fresh launches, then the suite.

1. Screen: the first launches of either side. A cell is a suspect where Welch's t on log values or
   the ranks give p < 0.2 and it seems 1 % slower. This selects; it proves nothing.
2. Confirm: the launches after them; none is used twice. A suspect regressed where exact
   Mann-Whitney, by Holm over the suspects, gives p < 0.01 and the ratio reaches the cell's floor.
3. Suite-wide: where half the cells are suspects, a t test over the confirming pairs of launches
   tells whether they became slower together. The shift that cells share is never taken away: that
   would hide a regression of everything.

How often this is wrong, on real launches, is in docs/gate.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import special

from results.inference import (
    Booleans,
    Estimate,
    Floats,
    check_samples,
    estimate,
    holm,
    pooled_spread,
    ratio_error,
    smallest_p,
    welch_p,
)
from results.plan import Plan, check_plan

# The smallest change a plan sees is one that each of its two stages lets pass in 95 of 100.
_SEEN_Z = NormalDist().inv_cdf(0.95)
_TINY = float(np.finfo(float).tiny)
_ROUNDING = 1e-9
"""A ratio is made of logarithms: what takes a tenth longer may come out as 1.0999999999999999."""


@dataclass(frozen=True)
class SuiteWide:
    """The suite as a whole: mean ratio over cells and pairs of launches, and its one-sided p."""

    ratio: float
    p: float
    pairs: int
    cells: int
    is_slower: bool


@dataclass(frozen=True)
class Judged:
    """An entry for each cell: what was found, and from which launches.

    Attributes:
        verdict: "regressed", "improved", "unchanged" or "inconclusive".
        found: from the confirming launches where there were some, else from the screening ones.
        p: of a suspect by Holm over the suspects of its direction, else as it stands.
        floor: the ratio that a regression must reach.
        smallest_seen: the smallest ratio that nine in ten such plans find.
        is_slower, is_faster: the suspects of either direction.
        is_confirmed: `found` is from confirming launches.
    """

    verdict: NDArray[np.str_]
    found: Estimate
    p: Floats
    floor: Floats
    smallest_seen: Floats
    is_slower: Booleans
    is_faster: Booleans
    is_confirmed: Booleans
    suite: SuiteWide | None


def judge(
    base_s: Floats,
    head_s: Floats,
    plan: Plan | None = None,
    *,
    floor: Floats | float = 1.03,
    launches: tuple[Sequence[object] | None, Sequence[object] | None] = (None, None),
) -> Judged:
    """Judge head against base, (launches, cells) seconds each, in the order of measuring.

    The first `plan.screen` rows screen, the rest confirm. NaN is a cell that a launch did not
    measure: only the suspects need be confirmed. `floor` is the ratio, of each cell or of all, that
    a regression must reach; `launches` names the launch of each row of either side.

    Raises:
        PooledRounds: rows are rounds of one launch.
        PlanRefused: see `results.plan.check_plan`.
        ValueError: the sides have unlike cells, or a time is not positive.
    """
    plan = plan or Plan()
    base, head = check_samples(base_s, launches[0]), check_samples(head_s, launches[1])
    cells = base.shape[1]
    if cells != head.shape[1]:
        raise ValueError(f"base has {cells} cells and head {head.shape[1]}: give the same ones")
    floors = np.broadcast_to(np.asarray(floor, dtype=float), (cells,))
    k = plan.screen
    both = pooled_spread([base[:k], base[k:], head[:k], head[k:]])
    if not k:
        every = np.ones(cells, dtype=bool)
        looked = _Looked(estimate(base, head), every, every, every)
        return _judged(looked, floors, both, plan, suite_wide(base, head, every, plan))
    check_plan(plan, cells)
    looked = _look_twice((base[:k], head[:k]), (base[k:], head[k:]), plan)
    suite = suite_wide(base[k:], head[k:], looked.is_slower, plan)
    return _judged(looked, floors, both, plan, suite)


@dataclass(frozen=True)
class _Looked:
    """What the launches showed, before any verdict; as in `Judged`."""

    found: Estimate
    is_slower: Booleans
    is_faster: Booleans
    is_confirmed: Booleans


def _look_twice(first: tuple[Floats, Floats], rest: tuple[Floats, Floats], plan: Plan) -> _Looked:
    screened = estimate(*first)
    slower, faster = suspects(*first, screened, plan)
    either = np.flatnonzero(slower | faster)
    fresh = estimate(rest[0][:, either], rest[1][:, either])
    has_fresh = (fresh.base_n > 0) & (fresh.head_n > 0)
    is_confirmed = np.zeros(len(slower), dtype=bool)
    is_confirmed[either] = has_fresh
    columns = {field.name: getattr(screened, field.name).copy() for field in fields(Estimate)}
    for name, values in columns.items():
        values[is_confirmed] = getattr(fresh, name)[has_fresh]
    return _Looked(Estimate(**columns), slower, faster, is_confirmed)


def suspects(
    base_s: Floats, head_s: Floats, screened: Estimate, plan: Plan
) -> tuple[Booleans, Booleans]:
    """Which cells seem slower in head, and which faster: worth fresh launches, no more.

    Either test may suspect: one stray launch hides a shift from Welch's t, not from the ranks.
    """
    p_slower = np.fmin(welch_p(base_s, head_s), screened.p_slower)
    p_faster = np.fmin(welch_p(head_s, base_s), screened.p_faster)
    slower = (p_slower < plan.suspect_p) & (screened.ratio >= plan.suspect_ratio)
    faster = (p_faster < plan.suspect_p) & (screened.ratio <= 1 / plan.suspect_ratio)
    return slower, faster


def suite_wide(base_s: Floats, head_s: Floats, is_slower: Booleans, plan: Plan) -> SuiteWide | None:
    """Whether the suspects became slower together, by a t test over fresh pairs of launches.

    Paired in order, over the suspects that every launch has. "Together" also asks that half of
    them seem slower: one cell alone may move the mean. None where the suspects are fewer than half
    the cells or than `plan.suite_cells`, or not confirmed.
    """
    pairs = min(len(base_s), len(head_s))
    ratios = np.log(head_s[:pairs, is_slower]) - np.log(base_s[:pairs, is_slower])
    ratios = ratios[:, ~np.isnan(ratios).any(axis=0)]
    cells = ratios.shape[1]
    if pairs < 2 or cells < max(plan.suite_cells, len(is_slower) / 2):
        return None
    of_pairs = ratios.mean(axis=1)
    mean, error = float(of_pairs.mean()), float(of_pairs.std(ddof=1)) / math.sqrt(pairs)
    p = float(special.stdtr(pairs - 1, -mean / max(error, _TINY)))
    is_half = float(np.median(ratios.mean(axis=0))) >= math.log(plan.suspect_ratio)
    is_suite = p < plan.suite_p and mean >= math.log(plan.suite_ratio) and is_half
    return SuiteWide(math.exp(mean), p, pairs, cells, is_suite)


def smallest_seen(spread_log: Floats, floors: Floats, plan: Plan, suspected: int) -> Floats:
    """Per cell the smallest ratio that nine in ten such plans find.

    NaN where the spread is unknown. By the normal approximation: what passes the floor and Holm's
    level among so many suspects, and the screen, each with 95 %.
    """
    error = ratio_error(spread_log, plan.confirm, plan.confirm)
    z = NormalDist().inv_cdf(1 - plan.alpha / max(suspected, 1))
    needed = np.maximum(np.log(floors), z * error) + _SEEN_Z * error
    if plan.screen:
        error = ratio_error(spread_log, plan.screen, plan.screen)
        t = float(special.stdtrit(2 * plan.screen - 2, 1 - plan.suspect_p))
        screened = np.maximum(math.log(plan.suspect_ratio), t * error) + _SEEN_Z * error
        needed = np.maximum(needed, screened)
    return np.exp(needed)


def _judged(
    looked: _Looked, floors: Floats, spread_log: Floats, plan: Plan, suite: SuiteWide | None
) -> Judged:
    found, slower, faster = looked.found, looked.is_slower, looked.is_faster
    p_slower = _family(found.p_slower, slower & looked.is_confirmed)
    p_faster = _family(found.p_faster, faster & looked.is_confirmed)
    seen = smallest_seen(spread_log, floors, plan, int(slower.sum()))
    is_surely_slower = slower & looked.is_confirmed & (p_slower < plan.alpha)
    reached = floors * (1 - _ROUNDING)
    regressed = is_surely_slower & (found.ratio >= reached)
    improved = faster & looked.is_confirmed & (p_faster < plan.alpha) & (found.ratio <= 1 / reached)
    # Slower for certain, by the floor perhaps; suspected and not looked at enough; or too noisy.
    unclear = is_surely_slower & (found.high >= reached)
    unclear |= slower & ~_could_be_sure(found, looked.is_confirmed, slower, plan)
    unclear |= ~(seen <= np.maximum(plan.seen, floors * 1.05))
    named = [regressed, improved, unclear]
    verdict = np.select(named, ["regressed", "improved", "inconclusive"], "unchanged")
    p = np.where(found.ratio >= 1, p_slower, p_faster)
    return Judged(verdict, found, p, floors, seen, slower, faster, looked.is_confirmed, suite)


def _could_be_sure(
    found: Estimate, is_confirmed: Booleans, slower: Booleans, plan: Plan
) -> Booleans:
    """Whether a cell has fresh launches, and enough for the smallest p to count among suspects."""
    goal = plan.alpha / max(int(slower.sum()), 1)
    could = is_confirmed.copy()
    for i in np.flatnonzero(slower & is_confirmed):
        could[i] = smallest_p(int(found.base_n[i]), int(found.head_n[i])) <= goal
    return could


def _family(p: Floats, members: Booleans) -> Floats:
    """Holm's p of the members; the others keep theirs."""
    adjusted = p.copy()
    adjusted[members] = holm(p[members])
    return adjusted
