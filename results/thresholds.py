"""How much slower is too much, as people write it: "+10%", "1.5x" or "0.5ms", nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_PERCENT = re.compile(r"\+(\d+(?:\.\d+)?)\s*%")
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s*x")
_TIME = re.compile(r"\+?(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)")
_EXAMPLE = 'write "+10%" (a tenth slower), "1.5x" (half again as long) or "0.5ms" (so much longer)'


class ThresholdError(ValueError):
    """A threshold that could be read in two ways, or in none; the message has examples."""


@dataclass(frozen=True)
class Threshold:
    """A slowdown: by a ratio of head to base, or by seconds."""

    text: str
    ratio: float | None = None
    time_s: float | None = None

    def as_ratio(self, base_s: float) -> float:
        """The ratio of head to base that reaches it where base takes so long."""
        return self.ratio if self.ratio is not None else 1 + (self.time_s or 0.0) / base_s


def parse_threshold(given: object) -> Threshold:
    """The threshold that was written.

    Raises:
        ThresholdError: a bare number, "200%" (twice or three times as long?), or no slowdown.
    """
    if not isinstance(given, str):
        raise ThresholdError(f"threshold {given!r}: a bare number has no unit: {_EXAMPLE}")
    text = given.strip()
    if found := _PERCENT.fullmatch(text):
        threshold = Threshold(text, ratio=1 + float(found[1]) / 100)
    elif found := _TIMES.fullmatch(text):
        threshold = Threshold(text, ratio=float(found[1]))
    elif found := _TIME.fullmatch(text):
        threshold = Threshold(text, time_s=float(found[1]) * _UNITS[found[2]])
    elif re.fullmatch(r"\d+(\.\d+)?\s*%", text):
        raise ThresholdError(
            f'threshold "{text}": of the base, or more than it? write "+{text}" for so much slower'
        )
    else:
        raise ThresholdError(f'threshold "{text}" is not understood: {_EXAMPLE}')
    if (threshold.ratio or 2) <= 1 or threshold.time_s == 0:
        raise ThresholdError(f'threshold "{text}" is no slowdown: {_EXAMPLE}')
    return threshold
