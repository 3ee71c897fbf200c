"""Numbers as a line of bars among words: how high each is, and how samples lie."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """Each value as a bar between `low` and `high`."""
    span = (high - low) or 1.0
    return "".join(_BARS[min(7, max(0, int(8 * (value - low) / span)))] for value in values)


def histogram(samples: Sequence[float], bins: int) -> str:
    """How many samples lie where between the least and the largest: a bar a bin.

    The lowest bar is none, so that a single sample is seen. Empty when all samples are the same,
    or there is none.
    """
    low, high = min(samples, default=0.0), max(samples, default=0.0)
    if high == low:
        return ""
    counts = [0] * bins
    for sample in samples:
        counts[min(bins - 1, int(bins * (sample - low) / (high - low)))] += 1
    most = max(counts)
    return "".join(sparkline([n], -most / 7, most) if n else _BARS[0] for n in counts)
