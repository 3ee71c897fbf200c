"""Two bounds of a loop from what its instructions need of each pipe. No prediction of a time.

`overlap`: every pipe works at once, and the fullest decides. Whatever the schedule, the loop
cannot take less. `no overlap`: the products, with the shared memory that feeds them, and all the
rest take turns, each at its own best. Neither knows latencies, bank conflicts, L2 or power.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from suites.static.architectures import Rates
from suites.static.instructions import kind, lanes_of_fp32
from suites.static.loops import Work
from suites.static.sass import Instruction

# By results.static_profile.PIPES.
PIPES = ("mma", "mufu", "fp32", "alu", "shuffle", "shared", "issue", "dram")
_WARP = 32
_ON_ALU = ("alu", "select", "conversion")


@dataclass(frozen=True)
class Bound:
    """100 % is the peak of the pipe `of`; `cycles` are of one SM for one pass of one block."""

    of: str
    overlap_percent: float
    no_overlap_percent: float
    limited_by: str
    cycles: Mapping[str, float]


def cycles_of(
    body: Iterable[Instruction], warps: int, work: Work, rates: Rates, bulk_bytes: float = 0.0
) -> dict[str, float]:
    """Cycles of one SM that each pipe needs for one pass of one block; products in "mma".

    `bulk_bytes` are what bulk copies write to shared memory in one pass.
    """
    counts = dict.fromkeys(("mufu", "fp32", "alu", "shuffle", "issue"), 0)
    for instruction in body:
        of = kind(instruction)
        counts["issue"] += 1
        fp32 = lanes_of_fp32(instruction)
        counts["fp32"] += fp32
        counts["mufu"] += of == "mufu"
        counts["shuffle"] += of == "shuffle"
        counts["alu"] += of in _ON_ALU and not fp32
    lanes = _WARP * warps
    return {
        "mma": (work.mma_flop_at_16_bit or 0.0) / rates.mma_flop,
        "mufu": counts["mufu"] * lanes / rates.mufu,
        "fp32": counts["fp32"] * lanes / rates.fp32,
        "alu": counts["alu"] * lanes / rates.alu,
        "shuffle": counts["shuffle"] * lanes / rates.shuffle,
        "shared": (work.shared_bytes + bulk_bytes) / rates.shared_bytes,
        "issue": counts["issue"] * warps / rates.issue,
    }


def bound_of_products(cycles: Mapping[str, float], of: str, useful: float) -> Bound:
    """The bounds of a loop that multiplies, `useful` cycles of the pipe `of` without padding.

    `of` is "mma", or "fp32" where products are made without matrix units.
    """
    feeding = max(cycles[of], cycles["shared"])
    rest = max((c for pipe, c in cycles.items() if pipe not in (of, "shared", "mma")), default=0.0)
    return _bound(cycles, of, useful, feeding + rest)


def bound_of_bytes(cycles: Mapping[str, float], dram_bytes: float, rates: Rates) -> Bound:
    """The bounds of a loop that is judged by the bytes it takes from device memory."""
    needed = dram_bytes / rates.dram_bytes
    rest = max(cycles.values(), default=0.0)
    return _bound({**cycles, "dram": needed}, "dram", needed, needed + rest)


def _bound(cycles: Mapping[str, float], of: str, useful: float, in_turns: float) -> Bound:
    limited_by = max(PIPES, key=lambda pipe: (cycles.get(pipe, 0.0), pipe == of))
    return Bound(
        of=of,
        overlap_percent=round(100.0 * useful / cycles[limited_by], 2),
        no_overlap_percent=round(100.0 * useful / in_turns, 2),
        limited_by=limited_by,
        cycles={pipe: round(c, 2) for pipe, c in cycles.items()},
    )
