"""How many blocks of a kernel one SM holds at once."""

from __future__ import annotations

from dataclasses import dataclass

from suites.static.architectures import MOST_THREADS, RESERVED_SHARED_BYTES, Limits

_WARP = 32
# Registers are given to whole warps, and an SM's four schedulers have a quarter of them each
# (cuda_occupancy.h of the CUDA toolkit, compute capability 8.0 and newer).
_REGISTER_UNIT = 256
_SCHEDULERS = 4
_SHARED_UNIT = 128


@dataclass(frozen=True)
class Need:
    """What one block takes; `shared_bytes` is static and dynamic, without the system's part."""

    warps: int
    registers: int
    shared_bytes: int
    tensor_memory_columns: int = 0


@dataclass(frozen=True)
class Occupancy:
    """How many blocks fit; `share` is of the warps an SM can hold, `limited_by` what runs out."""

    blocks: int
    warps: int
    share: float
    limited_by: str


def occupancy(need: Need, limits: Limits) -> Occupancy:
    """Blocks resident on one SM, 0 where not one fits."""
    room = {
        "registers": _blocks_by_registers(need, limits),
        "shared memory": _blocks_by_shared(need, limits),
        "warps": limits.warps // need.warps,
        "blocks": limits.blocks,
    }
    if need.tensor_memory_columns:
        room["tensor memory"] = limits.tensor_memory_columns // need.tensor_memory_columns
    limited_by = min(room, key=lambda name: room[name])
    blocks = room[limited_by]
    warps = blocks * need.warps
    return Occupancy(blocks, warps, warps / limits.warps, limited_by)


def reasons_against(need: Need, limits: Limits) -> list[str]:
    """All limits of one block that are exceeded, with both numbers.

    A compiler does not look: code beyond them compiles, and cannot be launched.
    """
    asked = (
        ("registers a thread", need.registers, limits.thread_registers),
        ("registers", _block_registers(need), limits.block_registers),
        ("bytes of shared memory", need.shared_bytes, limits.block_shared_bytes),
        ("columns of tensor memory", need.tensor_memory_columns, limits.tensor_memory_columns),
        ("threads", need.warps * _WARP, MOST_THREADS),
    )
    return [
        f"a block takes {taken} {what}, {most} are the limit"
        for what, taken, most in asked
        if taken > most
    ]


def _warp_registers(need: Need) -> int:
    return _rounded_up(need.registers * _WARP, _REGISTER_UNIT)


def _block_registers(need: Need) -> int:
    """Counted as if every scheduler had as many warps as the fullest."""
    return _warp_registers(need) * _rounded_up(need.warps, _SCHEDULERS)


def _blocks_by_registers(need: Need, limits: Limits) -> int:
    if not need.registers:
        return limits.blocks
    if _block_registers(need) > limits.block_registers:
        return 0
    warps = limits.registers // _SCHEDULERS // _warp_registers(need) * _SCHEDULERS
    return warps // need.warps


def _blocks_by_shared(need: Need, limits: Limits) -> int:
    if need.shared_bytes > limits.block_shared_bytes:
        return 0
    taken = _rounded_up(need.shared_bytes + RESERVED_SHARED_BYTES, _SHARED_UNIT)
    return limits.shared_bytes // taken


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
