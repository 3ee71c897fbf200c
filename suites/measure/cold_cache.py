"""Emptying the caches between samples, outside the clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch

from suites.measure import processor

# Above every last-level cache one socket had in 2026 would cost 100 ms a sample; where the size is
# unknown, 64 MiB is taken for it, which is above most.
_ASSUMED_LLC_BYTES = 64 << 20


def flush_bytes(cache_bytes: int) -> int:
    """Bytes to write and read so that nothing of the last call stays: twice the cache."""
    return 2 * cache_bytes


@lru_cache(maxsize=1)
def cpu_flusher() -> Callable[[], None]:
    """A function that reads and writes a buffer of twice the last-level cache.

    One pass does both: x ← x + 1 reads every line and leaves it dirty; the dirty lines are those
    of the buffer, written back while the call's own lines are fetched, as in real cold use.
    """
    n_bytes = flush_bytes(processor.llc_bytes() or _ASSUMED_LLC_BYTES)
    buffer = torch.zeros(n_bytes // 8, dtype=torch.int64)

    def flush() -> None:
        buffer.add_(1)

    return flush
