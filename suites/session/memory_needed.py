"""The memory a cell asks for, estimated by the cost model, and whether it is there now."""

from __future__ import annotations

from suites.measure import device
from suites.session.subject import cost_of
from suites.session.sweep import Cell


def needed_bytes(cell: Cell) -> int:
    """Inputs, outputs and a copy of each, and what the implementation declares as scratch.

    The copy tells what a call wrote into.
    """
    scratch = cell.implementation.scratch_bytes if cell.problem.has_core else None
    needed = 2 * cost_of(cell.problem, cell.pass_).compulsory_bytes
    return needed + (scratch(cell.problem, cell.pass_) if scratch else 0)


def shortage(cell: Cell, device_name: str) -> str | None:
    """Why the cell cannot fit now, whatever this process gave back; None when it may."""
    free = device.describe(device_name).memory_free_bytes
    if free is None:
        return None
    there = free + device.held_bytes(device_name)
    needed = needed_bytes(cell)
    if needed <= there:
        return None
    return f"needs about {size_text(needed)}; {size_text(there)} are there"


def asked_for(cell: Cell, device_name: str) -> str:
    """What a cell that ran out of memory was estimated to need, and what is free now."""
    free = device.describe(device_name).memory_free_bytes
    there = "" if free is None else f", {size_text(free)} are free now"
    return f"it needs about {size_text(needed_bytes(cell))}{there}"


def size_text(n_bytes: int) -> str:
    """Three digits with their unit, "17.2 GB", "640 PB"."""
    for factor, unit in ((1e15, "PB"), (1e12, "TB")):
        if n_bytes >= factor:
            return f"{float(f'{n_bytes / factor:.3g}'):,g} {unit}"
    return f"{n_bytes / 1e9:.3g} GB"
