"""Whether two runs may be compared: in which fields they differ, and what of it forbids it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from results.run import Header

# What makes timings incomparable: the fields a machine key is made of.
BLOCKING = frozenset(
    (
        "device",
        "cpu_model",
        "cpu_count",
        "instruction_sets",
        "gpu_name",
        "gpu_count",
        "gpu_is_mig",
        "gpu_power_cap_w",
        "driver_major",
        "cuda",
        "torch",
        "triton",
        "ptxas",
        "python_minor",
        "threads",
        "float32_matmul_precision",
        "allocator",
        "container",
    )
)
# What is expected to differ from run to run, or between the two revisions that are compared.
IGNORED = frozenset(
    (
        "commit",
        "dirty",
        "repository",
        "cpu_mhz",
        "hostname",
        "folder",
        "load_1min",
        "steal_s",
        "context_switches",
        "throttle_reasons",
    )
)
# How it is measured is all blocking, but for what names no method.
IGNORED_SETTINGS = frozenset({"baseline", "brought", "budget", "seconds"})
_BY_SEVERITY = ("blocking", "warning", "ignored")


@dataclass(frozen=True)
class Reason:
    """One field in which two runs differ; `severity` is "blocking", "warning" or "ignored"."""

    field: str
    base: Any
    head: Any
    severity: str
    is_allowed: bool = False

    @property
    def text(self) -> str:
        """The difference in words: "method changed: warmup_s 0.3 → 0" for a setting."""
        name = self.field.removeprefix("settings.")
        before = "method changed: " if name != self.field else ""
        allowed = " (allowed)" if self.is_allowed else ""
        pair = [_shown(value) for value in (self.base, self.head)]
        if pair[0] == pair[1]:
            pair = [str(value) for value in (self.base, self.head)]
        return f"{before}{name} {' → '.join(pair)}{allowed}"


def comparable(a: Header, b: Header, allow: Collection[str] = ()) -> list[Reason]:
    """Every field in which two runs differ, the blocking ones first.

    `allow` names fields, "torch" or "settings.warmup_s", whose difference is wanted: they warn.
    """
    reasons = [*_differing("", a.environment, b.environment, _severity)]
    reasons += _differing("settings.", a.settings.all, b.settings.all, _settings_severity)
    for name in ("kind", "device"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other and not any(reason.field == name for reason in reasons):
            reasons.append(Reason(name, one, other, "blocking"))
    is_told = any(reason.severity == "blocking" for reason in reasons)
    # Fields that this checkout does not know may have made the key.
    if a.machine_key != b.machine_key and not is_told:
        reasons.append(Reason("machine_key", a.machine_key, b.machine_key, "blocking"))
    judged = [_allowed(reason, allow) for reason in reasons]
    return sorted(judged, key=lambda reason: _BY_SEVERITY.index(reason.severity))


def blocking(reasons: Iterable[Reason]) -> list[Reason]:
    """The reasons that forbid a comparison."""
    return [reason for reason in reasons if reason.severity == "blocking"]


def _differing(prefix: str, a: Any, b: Any, severity: Any) -> Iterable[Reason]:
    for name in [*a, *(other for other in b if other not in a)]:
        one, other = a.get(name), b.get(name)
        if one != other:
            yield Reason(prefix + name, one, other, severity(name))


def _severity(name: str) -> str:
    if name in BLOCKING:
        return "blocking"
    return "ignored" if name in IGNORED else "warning"


def _settings_severity(name: str) -> str:
    return "ignored" if name in IGNORED_SETTINGS else "blocking"


def _allowed(reason: Reason, allow: Collection[str]) -> Reason:
    if reason.severity == "blocking" and reason.field in allow:
        return Reason(reason.field, reason.base, reason.head, "warning", is_allowed=True)
    return reason


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return str(float(f"{value:.4g}"))
    return "unknown" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
