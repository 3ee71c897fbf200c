"""What is tried before a plan: which implementations run here, and what the machine can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from impls.interface.attention import Implementation
from impls.interface.availability import inability
from impls.interface.brought import is_brought
from impls.interface.first_call import inability_tried_apart
from suites.measure.ceilings import ceilings_for
from suites.session import torch_state
from suites.session.options import Options
from suites.session.orders import Orders

Tell = Callable[[str], None]


def find_unavailable(
    implementations: Sequence[Implementation],
    device: str,
    tell: Tell,
    orders: Orders,
    limit_s: float,
) -> dict[str, tuple[str, list[str]]]:
    """Status and reasons, by name, of those that do not run on `device`: each is called once.

    One that was brought is called in a process of its own first, for at most `limit_s` seconds,
    unless this one has a supervisor, who knows what to do when it dies.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for implementation in implementations:
        name = implementation.name
        if name in orders.broken:
            status, reason = orders.broken[name]
            found[name] = (status, [reason])
            continue
        started = time.monotonic()
        if is_brought(implementation):
            tell(f"{name}: trying it once")
        before = torch_state.read()
        with orders.trying(name, "availability"):
            if orders.is_supervised:
                unable = inability(implementation, device)
            else:
                unable = inability_tried_apart(implementation, device, limit_s)
        if unable is not None:
            found[name] = (unable.status, list(unable.reasons))
            if unable.status != "unavailable":
                tell(f"{name}: {unable.status}: {'; '.join(unable.reasons)}")
        # Its own cells tell of it; what is probed next must not run with it.
        torch_state.put_back(before)
        if (took := time.monotonic() - started) > 2:
            tell(f"{name}: tried once ({took:.0f} s)")
    return found


def roofs_of(device: str, options: Options, tell: Tell) -> dict[str, Any]:
    """The ceilings of this machine, kept or measured now."""
    told: list[str] = []

    def progress(what: str) -> None:
        if not told:
            tell("measuring the ceilings, what this machine can do at all (10 s; kept a week)")
        told.append(what)

    roofs = ceilings_for(device, options.threads, progress=progress)
    if roofs["contended"]:
        load = roofs["foreign_load"]
        tell(
            f"WARNING: other programs took {load:.0%} of the machine while the ceilings were "
            "measured: % of bound may read high"
        )
    return roofs
