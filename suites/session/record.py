"""What was measured of a cell, as the fields of its journal line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from impls.interface import cost
from impls.interface.check import Check
from suites.measure import device
from suites.measure.ceilings import bound, is_above_ceiling
from suites.measure.executed import Executed
from suites.measure.samples import Samples
from suites.session.sweep import Cell


def measured_fields(
    cell: Cell,
    *,
    device_name: str,
    ceilings: Mapping[str, Any],
    flop_convention: str,
    checks: Sequence[Check],
    seen: Executed,
    samples: Samples | None,
    prepare_s: float,
) -> dict[str, Any]:
    """Status, flags, timing, counts, bound, memory, check, ran and host of one cell.

    A cell is "wrong" when any check failed, before or after timing; it keeps its timing. A cell
    that was checked and not timed (--benchmark-disable) is "skipped".
    """
    failed = next((check for check in checks if not check.ok), None)
    flags = list(samples.flags) if samples else []
    counts = _counts(cell, flop_convention)
    roof = bound(counts, cell.problem, cell.cache, ceilings)
    timing = samples.timing(prepare_s) if samples else None
    if timing and roof and is_above_ceiling(timing["median_s"], roof):
        flags.append("above_ceiling")
    status, reasons = "ok", []
    if failed is not None:
        status, reasons = "wrong", list(failed.reasons)
    elif timing is None:
        status, reasons = "skipped", ["checked, not timed: --benchmark-disable"]
    return {
        "status": status,
        "reasons": reasons,
        "flags": flags,
        "timing": timing,
        "counts": counts,
        "bound": roof,
        "memory": seen.memory.to_json(),
        "check": (failed or checks[-1]).to_json(),
        "ran": list(seen.ran),
        "host": samples.host.to_json() if samples else None,
        "device_state": device.state(device_name),
    }


def _counts(cell: Cell, flop_convention: str) -> dict[str, Any]:
    problem, pass_ = cell.problem, cell.pass_
    compulsory = cost.compulsory_bytes(problem, pass_)
    algorithmic = cell.implementation.algorithmic_bytes
    return {
        "pairs": cost.visible_pairs(problem),
        "flop": cost.flop(problem, pass_, flop_convention),
        "flop_convention": flop_convention,
        "exp": cost.exponentials(problem, pass_),
        "compulsory_bytes": compulsory,
        "algorithmic_bytes": algorithmic(problem, pass_) if algorithmic else compulsory,
    }
