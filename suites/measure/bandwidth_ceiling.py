"""How fast this CPU moves bytes at each memory level, and how many exponentials it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from suites.measure import processor
from suites.measure.windows import Rate, Work, by_provider

_ASSUMED_L2_BYTES = 1 << 20
_ASSUMED_LLC_BYTES = 32 << 20
_LEAST_DRAM_BYTES = 128 << 20
_EXPONENTIALS = 32 * 1024
_BYTES_PER_READ = 16 << 20


@dataclass(frozen=True)
class Level:
    """A memory level: the bytes it holds, None for main memory, and the bytes worked on."""

    name: str
    capacity_bytes: int | None
    working_set_bytes: int


def levels(threads: int) -> list[Level]:
    """The levels of this CPU, fastest first, with working sets that clearly live in each.

    A quarter of the L2 caches of `threads` cores and of the last-level cache, which others use
    too, a virtual machine's neighbour on the same core even the L2; four times the last-level
    cache, at least 128 MiB, for main memory.
    """
    l2 = (processor.l2_bytes() or _ASSUMED_L2_BYTES) * threads
    llc = processor.llc_bytes() or _ASSUMED_LLC_BYTES
    found = [Level("l2", l2, l2 // 4)]
    if llc > 4 * l2:
        found.append(Level("llc", llc, llc // 4))
    found.append(Level("dram", None, max(4 * llc, _LEAST_DRAM_BYTES)))
    return found


def works(threads: int) -> list[Work]:
    """A copy and a read of every level's working set, and exponentials within the L2."""
    found: list[Work] = []
    for level in levels(threads):
        found += _works_of(level)
    x, out = -10 * torch.rand(_EXPONENTIALS), torch.empty(_EXPONENTIALS)
    found.append(
        Work("exp", "torch.exp", lambda: torch.exp(x, out=out), _EXPONENTIALS, _EXPONENTIALS)
    )
    return found


def bandwidth_records(rates: Sequence[Rate], threads: int) -> dict[str, Any]:
    """The `bandwidth` record of the ceilings, by level."""
    found: dict[str, Any] = {}
    for level in levels(threads):
        copy = by_provider(rates, f"copy {level.name}")["copy"]
        read = by_provider(rates, f"read {level.name}")["read"]
        best = max(copy, read, key=lambda rate: rate.best)
        found[level.name] = {
            "bytes_per_s": best.best,
            "median_bytes_per_s": best.median,
            "provider": best.work.provider,
            "copy_bytes_per_s": copy.best,
            "read_bytes_per_s": read.best,
            "working_set_bytes": level.working_set_bytes,
            "capacity_bytes": level.capacity_bytes,
        }
    return found


def exp_records(rates: Sequence[Rate]) -> dict[str, Any]:
    """The `exp` record of the ceilings."""
    rate = by_provider(rates, "exp")["torch.exp"]
    return {"float32": {"exp_per_s": rate.best, "median_exp_per_s": rate.median}}


def _works_of(level: Level) -> list[Work]:
    n_bytes = level.working_set_bytes // 8 * 8
    # Not zeros: the kernel backs untouched zeroed pages by one page, which any cache holds.
    source, target = torch.ones(n_bytes // 8), torch.ones(n_bytes // 8)
    # Read over and over in one call: alone, a small set is read in no more time than a call costs.
    times = max(1, _BYTES_PER_READ // n_bytes)
    whole, total = torch.ones(n_bytes // 4).expand(times, -1), torch.empty(())
    return [
        # Half the bytes are read, half written; a copy counts both.
        Work(f"copy {level.name}", "copy", lambda: target.copy_(source), n_bytes, n_bytes),
        Work(
            f"read {level.name}",
            "read",
            lambda: torch.sum(whole, dim=(0, 1), out=total),
            times * n_bytes,
            n_bytes,
        ),
    ]
