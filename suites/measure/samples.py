"""Samples: when there are enough of them, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from suites.measure import host_load
from suites.measure.evidence import is_precise, summarize, thin

SETTINGS_VERSION = 1
NEAR_FLOOR_BELOW = 3.0
UNSTEADY_ABOVE = 0.05


@dataclass(frozen=True)
class Settings:
    """When to stop. A change of meaning here needs a new `SETTINGS_VERSION`.

    Attributes:
        target: half-width of the 95 % interval of the median, relative to it.
        min_samples: fewer than these never stop as precise, and are flagged `low_n`.
        least_samples: taken even when the budget is spent `overrun` times.
        overrun: a cell that has fewer than `min_samples` may take so many budgets.
        max_samples: most samples of a cell.
        budget_s: wall time for sampling, cache flushes included, warm-up not.
        min_span_s: samples are spread over at least this wall time, so that a neighbour's short
            burst does not decide.
        warmup_s: most wall time for warming up after the first call.
        warmup_window, warmup_tolerance: warm when the medians of two windows agree.
        sample_s: least length of a hot CPU sample; shorter calls are looped.
    """

    target: float = 0.01
    min_samples: int = 10
    least_samples: int = 3
    overrun: float = 10.0
    max_samples: int = 1000
    budget_s: float = 1.0
    min_span_s: float = 0.1
    warmup_s: float = 0.3
    warmup_window: int = 3
    warmup_tolerance: float = 0.05
    sample_s: float = 0.002

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError(f"target={self.target} is not a share: give 0.01 for 1 %")
        if not 1 <= self.least_samples <= self.min_samples <= self.max_samples:
            raise ValueError(
                f"least_samples={self.least_samples}, min_samples={self.min_samples}, "
                f"max_samples={self.max_samples}: give them in rising order, from 1"
            )
        if self.budget_s <= 0:
            raise ValueError(f"budget_s={self.budget_s}: give seconds above 0")

    def reason_to_stop(self, samples_s: Sequence[float], elapsed_s: float) -> str | None:
        """Why sampling stops now: "precise", "budget" or "max_samples"; None goes on."""
        n = len(samples_s)
        if n >= self.max_samples:
            return "max_samples"
        wanted = (
            self.least_samples if elapsed_s >= self.overrun * self.budget_s else self.min_samples
        )
        if n >= wanted and elapsed_s >= self.budget_s:
            return "budget"
        enough = n >= self.min_samples and elapsed_s >= min(self.min_span_s, self.budget_s)
        # Sorting each time would cost more than short samples do: look at every tenth growth.
        is_due = n < 20 or n % (n // 10) == 0
        return "precise" if enough and is_due and is_precise(samples_s, self.target) else None


@dataclass(frozen=True)
class Samples:
    """What a clock saw of one cell. Times are seconds per call.

    `samples_s` are on the cell's clock, `wall_samples_s` the wall beside them. `first_call_s` is
    the wall of the first call alone, whatever it compiled. `floor_s` is the least this clock
    can see: an empty call or kernel timed the same way. `host_s` is the host's time to enqueue a
    call (CUDA only).
    """

    clock: str
    cache: str
    samples_s: tuple[float, ...]
    wall_samples_s: tuple[float, ...]
    stop: str
    first_call_s: float | None
    warmup_n: int
    floor_s: float | None
    calls_per_sample: int
    host: host_load.HostLoad
    host_s: float | None = None
    flags: tuple[str, ...] = field(default=())
    pace_s: float | None = None

    def timing(self, prepare_s: float | None = None) -> dict[str, Any]:
        """The `timing` record of a cell; `prepare_s` is what the caller spent before any call."""
        summary = summarize(self.samples_s)
        wall = summarize(self.wall_samples_s) if self.wall_samples_s else None
        return {
            "median_s": summary.median,
            "min_s": summary.min,
            "q1_s": summary.q1,
            "q3_s": summary.q3,
            "mean_s": summary.mean,
            "n": summary.n,
            "ci_low_s": summary.ci_low,
            "ci_high_s": summary.ci_high,
            "stop": self.stop,
            "samples_s": thin(self.samples_s, 1000),
            "wall_median_s": wall.median if wall else None,
            "wall_min_s": wall.min if wall else None,
            "first_call_s": self.first_call_s,
            "prepare_s": prepare_s,
            "warmup_n": self.warmup_n,
            "first_ten_median_s": summarize(self.samples_s[:10]).median,
            "floor_s": self.floor_s,
            "calls_per_sample": self.calls_per_sample,
            "host_s": self.host_s,
        }


def flags_of(samples_s: Sequence[float], floor_s: float | None, settings: Settings) -> list[str]:
    """The flags every clock gives: few samples, near the clock's floor, or widely scattered.

    Unsteady is a 95 % interval of the median wider than ±5 %: nothing finer can be read from it.
    """
    found = summarize(samples_s)
    flags = ["low_n"] if found.n < settings.min_samples else []
    if floor_s is not None and found.median < NEAR_FLOOR_BELOW * floor_s:
        flags.append("near_floor")
    low, high = found.ci_low, found.ci_high
    if low is not None and high is not None and high - low > 2 * UNSTEADY_ABOVE * found.median:
        flags.append("unsteady")
    return flags


def pooled(looks: Sequence[Samples], settings: Settings) -> Samples:
    """The samples of looks at one cell, some time apart, as one.

    A neighbour that lasts a second shifts a whole look; several show the steadier quartile. On
    the CPU-time clock it was contended when all looks were: the fastest sample then waited.
    """
    first = looks[0]
    samples_s = tuple(sample for look in looks for sample in look.samples_s)
    recounted = {"low_n", "near_floor", "unsteady", "contended"}
    flags = flags_of(samples_s, first.floor_s, settings)
    waited = ["contended" in look.flags for look in looks]
    if all(waited) if first.clock == "cpu_time" else any(waited):
        flags.append("contended")
    flags += sorted({flag for look in looks for flag in look.flags} - recounted)
    return replace(
        first,
        samples_s=samples_s,
        wall_samples_s=tuple(wall for look in looks for wall in look.wall_samples_s),
        stop=looks[-1].stop,
        warmup_n=sum(look.warmup_n for look in looks),
        flags=tuple(flags),
    )
