"""What other tools' rules make of the same launches, each as its documentation has it.

A rule takes base and head as rounds, (launches, rounds, cells) seconds, and says of each cell
whether it calls it slower. The launches' rounds were not kept: `rounds` makes 24 for each launch
from what was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from results.inference import holm
from tests.launch_data import CHANGED_CELLS, Floats, launches

Flags = NDArray[np.bool_]
Rule = Callable[[Floats, Floats], Flags]
ROUNDS = 24


def rounds(data: str) -> Floats:
    """24 rounds for each launch and cell whose minimum, lower quartile and median are its own.

    The upper half mirrors the lower one. Real rounds have longer tails, so that every rule that
    uses means or all rounds does better here than it would.
    """
    low, quarter, middle = (launches()[f"{data}_{name}"] for name in ("min", "q25", "median"))
    low, quarter, middle = low[:, None], quarter[:, None], middle[:, None]
    shares = np.linspace(0, 1, ROUNDS)[None, :, None]
    rank = np.minimum(shares, 1 - shares)
    first = (middle - low) - (quarter - low) * rank / 0.25
    second = (middle - quarter) * (0.5 - rank) / 0.25
    distance = np.where(rank < 0.25, first, second)
    return np.where(shares < 0.5, middle - distance, middle + distance)


def ratio_of(summary: Callable[..., Any], limit: float) -> Rule:
    """One launch against one: a summary of its rounds grew by more than the limit."""

    def rule(base: Floats, head: Floats) -> Flags:
        return summary(head[0], axis=0) / summary(base[0], axis=0) > limit

    return rule


def pooled_ranks(base: Floats, head: Floats) -> Flags:
    """Mann-Whitney on the rounds of one launch each, p < 0.05 by Holm over all cells."""
    p = stats.mannwhitneyu(head[0], base[0], alternative="greater", method="asymptotic").pvalue
    return holm(p) < 0.05


def asv(base: Floats, head: Floats) -> Flags:
    """`asv continuous`: rounds of two launches pooled, p < 0.002, and a factor of 1.1."""
    pooled = [side[:2].reshape(-1, side.shape[2]) for side in (base, head)]
    p = stats.mannwhitneyu(pooled[1], pooled[0], method="asymptotic").pvalue
    return (p < 0.002) & (np.median(pooled[1], axis=0) / np.median(pooled[0], axis=0) > 1.1)


def nvbench(base: Floats, head: Floats) -> Flags:
    """The robust rule of nvbench, without its clock check: the intervals [min, q3] lie apart."""
    return head[0].min(axis=0) > np.quantile(base[0], 0.75, axis=0)


RULES: Mapping[str, Rule] = {
    "pytest-benchmark `min:5%`": ratio_of(np.min, 1.05),
    "pytest-benchmark `mean:5%`": ratio_of(np.mean, 1.05),
    "TorchBench, median by 7 %": ratio_of(np.median, 1.07),
    "Mann-Whitney on rounds, Holm 0.05": pooled_ranks,
    "`asv continuous`, factor 1.1": asv,
    "nvbench, intervals apart": nvbench,
}


def drawn_rounds(
    data: Floats, runs: int, *, ratio: float, seed: int
) -> Iterator[tuple[Floats, Floats, NDArray[np.intp]]]:
    """Runs of two launches a side, ABBA; head's time × ratio in ten cells."""
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        start = rng.integers(0, len(data) - 3)
        base, head = data[[start, start + 3]], data[[start + 1, start + 2]].copy()
        cells = rng.permutation(data.shape[2])[:CHANGED_CELLS]
        head[:, :, cells] *= ratio
        yield base, head, cells


def rival_rates(rule: Rule, data: Floats, runs: int) -> tuple[float, float]:
    """The share of unchanged runs that fail, and of cells slowed by 5 % that are found."""
    failed = sum(
        bool(rule(base, head).any())
        for base, head, _ in drawn_rounds(data, runs, ratio=1.0, seed=1)
    )
    found = [
        rule(base, head)[cells].mean()
        for base, head, cells in drawn_rounds(data, runs, ratio=1.05, seed=2)
    ]
    return failed / runs, float(np.mean(found))
