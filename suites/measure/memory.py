"""Peak memory of one call: the CUDA allocator's peak, or the sum of the profiler's events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Peak:
    """The most bytes one call held beyond what was held before it: temporaries and outputs.

    Inputs are not in it. `peak_reserved_bytes` is what the allocator had taken from the device at
    that time, inputs and cache included. None is unknown, never 0 for it.
    """

    peak_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    how: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The `memory` record of a cell."""
        return {
            "peak_bytes": self.peak_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            "how": self.how,
        }


UNKNOWN = Peak()


def cuda_peak(call: Callable[[], object]) -> Peak:
    """The peak of one call by torch's CUDA allocator, its statistics reset before."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return Peak(
        peak_bytes=torch.cuda.max_memory_allocated() - before,
        peak_reserved_bytes=torch.cuda.max_memory_reserved(),
        how="torch allocator",
    )


def peak_of_events(events: Iterable[tuple[int, int]]) -> Peak:
    """The peak of (time, bytes) allocations and, negative, releases of one profiled CPU call.

    No events is unknown: the call may have allocated where torch's profiler does not look.
    """
    held, most, n = 0, 0, 0
    for _, n_bytes in sorted(events, key=lambda event: event[0]):
        held += n_bytes
        most = max(most, held)
        n += 1
    return Peak(peak_bytes=most, how="profiler") if n and most else UNKNOWN
