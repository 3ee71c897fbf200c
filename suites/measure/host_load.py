"""What the rest of the machine did while we measured: faults, switches, foreign load."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

CONTENDED_ABOVE = 0.05

# /proc/stat counts in ticks of 10 ms: over less CPU time than this, one tick is above 2.5 %.
_LEAST_CPU_TIME_S = 0.4
LEAST_SPAN_S = 1.1 * _LEAST_CPU_TIME_S / (os.cpu_count() or 1)
"""So long two readings must lie apart for a foreign load to be known."""


@dataclass(frozen=True)
class Reading:
    """Counters at one moment; only differences mean anything."""

    wall_s: float
    user_s: float
    system_s: float
    minor_faults: int
    involuntary_switches: int
    busy_s: float | None


@dataclass(frozen=True)
class HostLoad:
    """What happened between two readings; None where it cannot be known.

    `system_share` is system time over CPU time of this process. `foreign_load` is the share of
    the machine's CPU time that others used, time stolen by a hypervisor included.
    """

    minor_faults_per_call: float | None
    system_share: float | None
    involuntary_switches: int
    foreign_load: float | None

    def to_json(self) -> dict[str, float | int | None]:
        """The `host` record of a cell."""
        return asdict(self)


def read() -> Reading:
    """The counters now. Costs some 50 µs: never inside a sample."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Reading(
        wall_s=time.perf_counter(),
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        minor_faults=usage.ru_minflt,
        involuntary_switches=usage.ru_nivcsw,
        busy_s=_busy_s(),
    )


def between(before: Reading, after: Reading, calls: int | None = None) -> HostLoad:
    """The host's part in what happened between two readings of `calls` calls."""
    user_s = after.user_s - before.user_s
    system_s = after.system_s - before.system_s
    own_s = user_s + system_s
    return HostLoad(
        minor_faults_per_call=(
            (after.minor_faults - before.minor_faults) / calls if calls else None
        ),
        system_share=system_s / own_s if own_s > 0 else None,
        involuntary_switches=after.involuntary_switches - before.involuntary_switches,
        foreign_load=_foreign_load(before, after, own_s),
    )


def _foreign_load(before: Reading, after: Reading, own_s: float) -> float | None:
    if before.busy_s is None or after.busy_s is None:
        return None
    available_s = (after.wall_s - before.wall_s) * (os.cpu_count() or 1)
    if available_s < _LEAST_CPU_TIME_S:
        return None
    foreign_s = (after.busy_s - before.busy_s) - own_s
    return min(1.0, max(0.0, foreign_s / available_s))


def _busy_s() -> float | None:
    """CPU time all processes and the hypervisor's other guests have used since boot."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    _user, _nice, _system, idle, iowait, *_ = ticks
    return (sum(ticks) - idle - iowait) / os.sysconf("SC_CLK_TCK")
