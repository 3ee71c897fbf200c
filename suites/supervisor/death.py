"""Deaths of child processes: what they were of, and when they are a cell's own fault."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.supervisor.watch import End

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
TRIES = 2
TRIES_FROM_OUTSIDE = 4
"""Somebody's kill, or a machine's, is not the cell's fault: it is tried more often."""


@dataclass(frozen=True)
class Death:
    """One child's death while it measured, or tried, one thing.

    `is_from_outside`: of a signal that other processes send, not what was running.
    """

    cause: str
    status: str
    is_from_outside: bool
    last_words: tuple[str, ...]


def death_of(end: End, is_oom: bool) -> Death:
    """What a child that did not reach its end died of."""
    words = tuple(end.last_words)
    if end.hung_s is not None:
        return Death(f"still running after {end.hung_s:g} s", "timeout", False, words)
    if end.code >= 0:
        return Death(f"the process ended with exit code {end.code}", "crashed", False, words)
    if end.code == -signal.SIGKILL and is_oom:
        return Death("killed by the kernel's out-of-memory killer", "oom", False, words)
    name = _signal_name(-end.code)
    return Death(f"the process died of {name}", "crashed", -end.code in _FROM_OUTSIDE, words)


def is_settled(deaths: Sequence[Death]) -> bool:
    """Whether it has been tried often enough, the last time alone in its process."""
    if all(death.is_from_outside for death in deaths):
        return len(deaths) >= TRIES_FROM_OUTSIDE
    return len(deaths) >= TRIES


def verdict(deaths: Sequence[Death]) -> tuple[str, list[str]]:
    """Status and reasons of what died so; of several causes the last, when it was alone."""
    own = [death for death in deaths if not death.is_from_outside] or list(deaths)
    last = own[-1]
    reasons = [f"{last.cause} ({len(deaths)} tries, the last alone in its process)"]
    if last.last_words:
        reasons.append(f"its last lines: {' / '.join(last.last_words)}")
    return last.status, reasons


def oom_kills() -> int | None:
    """How often the kernel's out-of-memory killer struck since boot; None where unknown."""
    try:
        told = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^oom_kill (\d+)$", told, re.M)
    return int(found[1]) if found else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
