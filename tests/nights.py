"""Synthetic series of nights with a known change, and how often the history finds it."""

from __future__ import annotations

import math

import numpy as np

from results.changepoints import change_points
from tests.launch_data import Floats

NIGHTS = 60


def nightly(
    rng: np.random.Generator, noise: float, ratio: float = 1.0, since: int = NIGHTS
) -> Floats:
    """Log-normal nights, one in 25 up to 30 % more; slower by `ratio` since a night."""
    logs = noise * rng.standard_normal(NIGHTS)
    logs += (rng.random(NIGHTS) < 0.04) * rng.uniform(0.05, 0.30, NIGHTS)
    logs[since:] += math.log(ratio)
    return 1e-3 * np.exp(logs)


def flat_share(series: int, noise: float) -> float:
    """The share of unchanged series in which a slowdown is seen."""
    rng = np.random.default_rng(int(1e4 * noise))
    alerted = (any(p.ratio > 1 for p in change_points(nightly(rng, noise))) for _ in range(series))
    return sum(alerted) / series


def found_share(series: int, noise: float, nights: int) -> float:
    """The share of series in which a step of 5 % is seen so many nights after it, and in place."""
    rng = np.random.default_rng(nights)
    since, found = NIGHTS - nights, 0
    for _ in range(series):
        points = change_points(nightly(rng, noise, 1.05, since))
        found += any(p.ratio > 1.03 and abs(p.index - since) <= 2 for p in points)
    return found / series
