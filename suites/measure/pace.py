"""The machine's pace: a small fixed work timed beside the samples, to know a slow moment by."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import torch

READING_S = 0.008
DISTURBED_ABOVE = 0.04
"""Undisturbed, readings repeat within 1 %; a neighbour in the cache adds 5 to 30 %."""


class Pace:
    """A matrix product in the cores' own cache and a softmax in the cache they share.

    What holds it up holds up a cell beside it; and as it knows nothing of cells, choosing the
    moments when it ran freely favours none of them.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        """`clock` gives seconds: that of the cells."""
        square = torch.linspace(-1.0, 1.0, 256 * 256).reshape(256, 256)
        scores = torch.linspace(-4.0, 4.0, 4 * 384 * 384).reshape(4 * 384, 384)
        product, softmax = torch.empty_like(square), torch.empty_like(scores)
        self._works = (
            partial(torch.mm, square, square, out=product),
            partial(torch.softmax, scores, -1, out=softmax),
        )
        self._clock = clock
        self.best_s = math.inf

    def read(self) -> float:
        """Seconds of the work now, the lower quartile of `READING_S` of it."""
        rounds: list[float] = []
        began = now = self._clock()
        with torch.no_grad():
            while now - began < READING_S or len(rounds) < 4:
                for work in self._works:
                    work()
                before, now = now, self._clock()
                rounds.append(now - before)
        pace_s = sorted(rounds)[len(rounds) // 4]
        self.best_s = min(self.best_s, pace_s)
        return pace_s

    def is_disturbed(self, pace_s: float | None) -> bool:
        """Whether a reading lies above the best so far by more than `DISTURBED_ABOVE`."""
        return pace_s is not None and pace_s > self.best_s * (1 + DISTURBED_ABOVE)
