"""The GPU: whether torch can use it, who else does, and what holds its clock down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from impls.interface.device_choice import Chosen
from suites.doctor.finding import Finding, note, ok, problem

# nvml.h, nvmlClocksEventReason*: slowed by heat, or by the board's brake; by the power cap.
_HOT, _CAPPED = 0x8 | 0x20 | 0x40 | 0x80, 0x4


def findings(
    chosen: Chosen, fixed: Mapping[str, Any], trusted: Mapping[str, Any]
) -> Iterator[Finding]:
    """What torch and NVML say; `fixed` and `trusted` are `suites.measure.device`'s."""
    if chosen.notice:
        yield problem("GPU", chosen.notice, _todo(chosen.notice))
        return
    if chosen.device != "cuda":
        yield ok("GPU", "none: the CPU is measured")
        return
    yield ok("GPU", f"torch computes on it, driver {fixed.get('driver') or 'unknown'}")
    if fixed.get("driver") is None:
        told = "no clock, power or temperature will be known"
        yield problem("NVML", told, "pip install nvidia-ml-py")
    if trusted.get("others"):
        told = f"{trusted['others']} other processes compute on it"
        yield problem("GPU processes", told, "nvidia-smi; stop them, or choose another GPU")
    if fixed.get("is_mig"):
        yield note("MIG", "a slice of a GPU: its ceilings are its own, its neighbours are not seen")
    reasons = fixed.get("throttle_reasons") or 0
    if reasons & _HOT:
        told = "it is slowed by heat or a power brake now"
        yield problem("GPU clock", told, "nvidia-smi -q -d PERFORMANCE; cool it, and wait")
    elif reasons & _CAPPED:
        told = f"at its power cap now ({fixed.get('power_cap_w') or '?'} W): others must be at work"
        yield note("GPU clock", told, "nvidia-smi -q -d POWER")


def _todo(notice: str) -> str:
    if "built without CUDA" in notice:
        return "install a torch built with CUDA: https://pytorch.org/get-started/locally/"
    return "nvidia-smi; update the driver, or install a torch built for the one that is there"
