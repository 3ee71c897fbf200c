"""Real launches, and series drawn from them: comparisons without a change, and with a known one.

tests/data/launches.md says where the launches come from.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.gate import Judged, judge
from results.plan import Plan

Floats = NDArray[np.floating[Any]]
FILE = Path(__file__).parent / "data" / "launches.npz"
PLAN = Plan()
A_RUN = 2 * (PLAN.screen + PLAN.confirm)
CHANGED_CELLS = 10


@functools.cache
def launches() -> Mapping[str, NDArray[Any]]:
    """The arrays of the file; times in seconds, (launches, cells), others as they are."""
    with np.load(FILE) as file:
        arrays = {name: file[name] for name in file.files}
    return {n: a.astype(float) * 1e-6 if a.dtype == np.float32 else a for n, a in arrays.items()}


@dataclass(frozen=True)
class Rates:
    """Over many runs: how many failed, and the share of the changed cells that were named."""

    runs: int
    failed: int
    found: float
    runs_with_false: int
    suspects: float
    suite_found: float

    @property
    def failed_share(self) -> float:
        """The runs that failed, of all."""
        return self.failed / self.runs


def abba(window: Floats, *, is_swapped: bool) -> tuple[Floats, Floats]:
    """Consecutive launches dealt to base and head in the order base, head, head, base again."""
    sides = np.array([0, 1, 1, 0] * (len(window) // 4 + 1))[: len(window)]
    base, head = window[sides == int(is_swapped)], window[sides != int(is_swapped)]
    return base, head


def drawn(
    times_s: Floats, runs: int, *, ratio: float, seed: int
) -> Iterator[tuple[Floats, Floats, NDArray[np.intp]]]:
    """Runs of consecutive launches dealt ABBA; head's time × ratio in ten cells of each run."""
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        start = rng.integers(0, len(times_s) - A_RUN + 1)
        base, head = abba(times_s[start : start + A_RUN], is_swapped=bool(rng.integers(2)))
        cells = rng.permutation(times_s.shape[1])[:CHANGED_CELLS]
        head[:, cells] *= ratio
        yield base, head, cells


def rates(series: Iterator[tuple[Floats, Floats, NDArray[np.intp]]]) -> Rates:
    """What the gate as shipped makes of each run of a series."""
    runs = failed = named = changed = with_false = suspects = suites = 0
    for base, head, cells in series:
        judged = judge(base, head, PLAN)
        regressed = judged.verdict == "regressed"
        is_slower = judged.suite is not None and judged.suite.is_slower
        runs += 1
        failed += is_failed(judged)
        named += int(regressed[cells].sum())
        changed += len(cells)
        regressed[cells] = False
        with_false += bool(regressed.any())
        suspects += int(judged.is_slower.sum())
        suites += is_slower
    return Rates(runs, failed, named / max(changed, 1), with_false, suspects / runs, suites / runs)


def is_failed(judged: Judged) -> bool:
    """Whether a gate that saw this would fail."""
    is_slower = judged.suite is not None and judged.suite.is_slower
    return bool((judged.verdict == "regressed").any()) or is_slower


def suite_found(times_s: Floats, runs: int, *, ratio: float, seed: int) -> float:
    """The share of runs whose suite is found slower, head's every cell × ratio."""
    slowed = ((b, h * ratio, c) for b, h, c in drawn(times_s, runs, ratio=1.0, seed=seed))
    return rates(slowed).suite_found


def synthetic(
    runs: int, *, noise: float, seed: int, cells: int = 200
) -> Iterator[tuple[Floats, Floats, NDArray[np.intp]]]:
    """Unchanged runs, each of its own: heavy tails, slow windows, drift, two-peaked and tied cells.

    `noise`: the median cell's standard deviation between launches. A launch has a share of noise
    that all its cells have; launches drift; one in fifty is an outlier of up to half again; one
    cell in twenty has two peaks; one in twenty is read from a clock of 1 % steps.
    """
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        own = noise * np.exp(0.5 * rng.standard_normal(cells))
        logs = rng.standard_t(5, (A_RUN, cells)) / np.sqrt(5 / 3) * own
        logs += noise * 0.7 * rng.standard_normal((A_RUN, 1))
        logs += np.cumsum(0.2 * noise * rng.standard_normal(A_RUN))[:, None]
        slow = np.arange(A_RUN) // 6 % 4 == rng.integers(4)
        logs += 0.5 * noise * slow[:, None]
        logs += (rng.random((A_RUN, 1)) < 0.02) * rng.uniform(0, 0.4, (A_RUN, 1))
        logs += (rng.random((A_RUN, cells)) < 0.02) * rng.uniform(0, 0.4, (A_RUN, cells))
        two_peaks = rng.random(cells) < 0.05
        logs += two_peaks * (rng.random((A_RUN, cells)) < 0.3) * 0.7
        stepped = rng.random(cells) < 0.05
        logs = np.where(stepped, np.round(logs / 0.01) * 0.01, logs)
        base, head = abba(1e-4 * np.exp(logs), is_swapped=bool(rng.integers(2)))
        yield base, head, np.empty(0, dtype=int)
