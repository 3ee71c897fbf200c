"""What spoiled a cell's time: throttling, a power cap, swapping, others on the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from suites.measure import device

SWAPPED_BYTES = 1 << 20
"""So much read back from swap spoils a cell; less is a page of something that woke up."""
_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Reading:
    """Counters at one moment; only differences mean anything. None where unknown.

    Attributes:
        thermal_s, power_s: seconds the GPU ran slower for its heat, or for its power cap.
        throttle_count: how often the CPU ran slower for its heat.
        swapped_in_bytes: read back from swap, by all processes.
        others: processes that compute on the GPU beside this one.
    """

    thermal_s: float | None = None
    power_s: float | None = None
    throttle_count: int | None = None
    swapped_in_bytes: int | None = None
    others: int | None = None


def read(device_name: str) -> Reading:
    """The counters now; some 100 µs, never inside a sample."""
    gpu = device.trust_state(device_name)
    return Reading(
        thermal_s=gpu.get("thermal_s"),
        power_s=gpu.get("power_s"),
        others=gpu.get("others"),
        throttle_count=cpu_throttle_count(),
        swapped_in_bytes=psutil.swap_memory().sin,
    )


def told(fields: Mapping[str, Any], before: Reading, after: Reading) -> dict[str, Any]:
    """A cell's fields with what happened between two readings, and the flags it deserves."""
    swapped = _between(before.swapped_in_bytes, after.swapped_in_bytes)
    throttles = _between(before.throttle_count, after.throttle_count)
    host = fields["host"]
    seen = {
        "thermally_throttled_s": _between(before.thermal_s, after.thermal_s),
        "power_capped_s": _between(before.power_s, after.power_s),
        "other_processes": after.others,
    }
    fields = {
        **fields,
        "device_state": fields["device_state"] | seen,
        "host": host and {**host, "cpu_throttles": throttles, "swapped_in_bytes": swapped},
    }
    return {**fields, "flags": flagged(fields["flags"], fields)}


def flagged(flags: Sequence[str], fields: Mapping[str, Any]) -> list[str]:
    """The flags, and those that `told` found reason for; at a power cap a GPU works as sold."""
    state, host = fields["device_state"], fields["host"] or {}
    doubts = []
    if state.get("thermally_throttled_s") or host.get("cpu_throttles"):
        doubts.append("throttled")
    if state.get("other_processes"):
        doubts.append("contended")
    if (host.get("swapped_in_bytes") or 0) >= SWAPPED_BYTES:
        doubts.append("swapped")
    return list(dict.fromkeys([*flags, *doubts]))


def cpu_throttle_count(root: Path = _CPUS) -> int | None:
    """How often any core was slowed for its heat since boot; None where nobody counts."""
    files = list(root.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    try:
        return sum(int(file.read_text()) for file in files) if files else None
    except (OSError, ValueError):
        return None


def _between(before: Any, after: Any) -> Any:
    return None if before is None or after is None else after - before
