"""What was measured of a cell, as the fields of its journal line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from impls.interface import cost
from impls.interface.check import Check
from suites.measure import device, trust
from suites.measure.ceilings import bound, is_above_ceiling
from suites.measure.executed import Executed
from suites.measure.samples import Samples
from suites.session.subject import cost_of
from suites.session.sweep import Cell

APPROXIMATE = "approximate"
"""The flag of what does not compute the same: it enters no ratio with what does."""


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

    "samples" are the clock's own, for another look; they are not for the journal.

    A cell is "wrong" when any check failed, before or after timing; it keeps its timing. A cell
    that was checked and not timed (--benchmark-disable) is "skipped".
    """
    failed = next((check for check in checks if not check.ok), None)
    counts = counts_of(cell, flop_convention)
    roof = bound(counts, cell.problem, cell.cache, ceilings)
    timing = samples.timing(prepare_s) if samples else None
    flags = _flags(samples, roof)
    if samples and cell.implementation.allowed_error is not None:
        flags.append(APPROXIMATE)
    status, reasons = "ok", []
    if failed is not None:
        status, reasons = "wrong", list(failed.reasons)
    elif timing is None:
        status, reasons = "skipped", ["checked, not timed: --benchmark-disable"]
    return {
        "samples": samples,
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
        # Where a call takes microseconds it says whether the clock saw the kernels and no more.
        "device_state": device.state(device_name) | {"kernels_s": seen.kernels_s},
    }


def checked_again(fields: Mapping[str, Any], check: Check) -> dict[str, Any]:
    """The fields of a cell after the check of another look."""
    changed: dict[str, Any] = {"check": check.to_json()}
    if not check.ok:
        changed |= {"status": "wrong", "reasons": list(check.reasons)}
    return {**fields, **changed}


def timed_again(fields: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    """The fields of a cell with the pooled samples of its looks in place of its first ones."""
    return {
        **fields,
        "samples": samples,
        "timing": samples.timing(fields["timing"]["prepare_s"]),
        "flags": trust.flagged(
            [*_flags(samples, fields["bound"]), *(f for f in fields["flags"] if f == APPROXIMATE)],
            fields,
        ),
    }


def _flags(samples: Samples | None, roof: Mapping[str, Any] | None) -> list[str]:
    if samples is None:
        return []
    is_above = is_above_ceiling(samples.timing()["median_s"], roof)
    return [*samples.flags, *(["above_ceiling"] if is_above else [])]


def counts_of(cell: Cell, flop_convention: str) -> dict[str, Any]:
    """The `counts` of a cell's record: FLOP, exponentials, and bytes by what they count."""
    found = cost_of(cell.problem, cell.pass_, flop_convention)
    algorithmic_bytes = found.compulsory_bytes + _rereads(cell)
    return asdict(found) | {
        "algorithmic_bytes": algorithmic_bytes,
        "cache_bytes": _from_cache(cell),
    }


def _from_cache(cell: Cell) -> int | None:
    """What the implementation's tiles bring from the cache, of attention alone; None: unknown."""
    declared = cell.implementation.cache_bytes
    if declared is None or cell.problem.around is not None:
        return None
    return declared(cell.problem, cell.pass_)


def _rereads(cell: Cell) -> int:
    """The bytes that the implementation moves beyond each tensor once, in the core that it does."""
    around, declared = cell.problem.around, cell.implementation.algorithmic_bytes
    if declared is None or (around is not None and not around.has_core):
        return 0
    core = cell.problem.with_(around=None)
    return declared(core, cell.pass_) - cost.compulsory_bytes(core, cell.pass_)
