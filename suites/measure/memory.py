"""What one call allocates: its peak, number and bytes, by CUDA's allocator or the profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Peak:
    """The most bytes one call held beyond what was held before it: temporaries and outputs.

    Inputs are not in it. `peak_reserved_bytes` is what the allocator had taken from the device at
    that time, inputs and cache included. `allocations` is how often the call asked for memory, and
    `allocated_bytes` for how much in all. None is unknown, never 0 for it.
    """

    peak_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    how: str | None = None
    allocations: int | None = None
    allocated_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The `memory` record of a cell."""
        return {
            "peak_bytes": self.peak_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            "allocations": self.allocations,
            "allocated_bytes": self.allocated_bytes,
            "how": self.how,
        }


UNKNOWN = Peak()


def cuda_peak(call: Callable[[], object]) -> Peak:
    """The peak of one call by torch's CUDA allocator, its statistics reset before."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, asked_before = torch.cuda.memory_allocated(), torch.cuda.memory_stats()
    call()
    torch.cuda.synchronize()
    asked = torch.cuda.memory_stats()

    def of_call(name: str) -> int | None:
        return asked[name] - asked_before.get(name, 0) if name in asked else None

    return Peak(
        peak_bytes=torch.cuda.max_memory_allocated() - before,
        peak_reserved_bytes=torch.cuda.max_memory_reserved(),
        how="torch allocator",
        allocations=of_call("allocation.all.allocated"),
        allocated_bytes=of_call("allocated_bytes.all.allocated"),
    )


def peak_of_events(events: Iterable[tuple[int, int]]) -> Peak:
    """The peak of (time, bytes) allocations and, negative, releases of one profiled CPU call.

    No events is unknown: the call may have allocated where torch's profiler does not look.
    """
    held, most, asked = 0, 0, []
    for _, n_bytes in sorted(events, key=lambda event: event[0]):
        held += n_bytes
        most = max(most, held)
        if n_bytes > 0:
            asked.append(n_bytes)
    if not most:
        return UNKNOWN
    return Peak(most, None, "profiler", allocations=len(asked), allocated_bytes=sum(asked))
