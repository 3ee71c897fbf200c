"""What a static run was asked for: what it did not look at is neither missing nor replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from results.run import Header, Run
from results.static_baseline import Accepted
from results.static_profile import arch_number

# Options that only leave something out of the set that the gate looks at.
_NARROWING = ("archs", "kernels")
_OPTIONS = {"archs": "--arch", "kernels": "--kernel", "dtypes": "--dtype", "head_sizes": "--d_h"}
_OPTIONS |= {"everything": "--all", "sweep": "--sweep"}


def selection(run: Run) -> Mapping[str, Any]:
    """The options that were given, by the names that suites write; empty is the gate's set."""
    return _selection(run.header)


def is_of_shipped(header: Header) -> bool:
    """Whether a static run was asked for shipped kernels, not for one that was brought."""
    kernels = _selection(header).get("kernels") or ()
    return not any(":" in str(kernel) for kernel in kernels)


def _selection(header: Header) -> Mapping[str, Any]:
    given = header.settings.all.get("selection")
    return given if isinstance(given, Mapping) else {}


def looked_at(one: Accepted, asked: Mapping[str, Any]) -> bool:
    """Whether a run that was asked so compiled the accepted profile, unless it is gone."""
    if asked.get("sweep"):
        return False
    # An architecture is written as the command takes it: "sm_90", "sm90" or "90".
    found = (
        (asked.get("archs"), arch_number(one.arch), arch_number),
        (asked.get("kernels"), one.kernel, str),
        (asked.get("dtypes"), one.dtype, str),
        (asked.get("head_sizes"), one.d_h, int),
    )
    return all(not given or value in [read(g) for g in given] for given, value, read in found)


def widened(run: Run) -> list[str]:
    """The options that go beyond the gate's set: a baseline of such a run would never be met."""
    return [_OPTIONS.get(name, name) for name in selection(run) if name not in _NARROWING]


def options_text(run: Run) -> str:
    """The options that chose what the run looked at, "--arch, --kernel"; empty for none."""
    return ", ".join(_OPTIONS.get(name, name) for name in selection(run))
