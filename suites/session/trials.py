"""What is tried before a plan: which implementations run here, and what the machine can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from impls.interface.attention import Implementation
from impls.interface.availability import inability
from impls.interface.brought import is_brought
from impls.interface.first_call import inability_tried_apart
from impls.interface.rectangular import rectangular_fault
from suites.measure.ceilings import ceilings_for
from suites.session.options import Options
from suites.session.orders import Orders

Tell = Callable[[str], None]


def try_each(
    implementations: Sequence[Implementation],
    device: str,
    tell: Tell,
    orders: Orders,
    limit_s: float,
) -> tuple[dict[str, tuple[str, list[str]]], dict[str, str]]:
    """Which cannot be measured, and which are wrong before they are: see the two below."""
    unavailable = find_unavailable(implementations, device, tell, orders, limit_s)
    able = [i for i in implementations if i.name not in unavailable]
    return unavailable, find_doubts(able, device, tell, orders)


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
        with orders.trying(name, "availability"):
            if orders.is_supervised:
                unable = inability(implementation, device)
            else:
                unable = inability_tried_apart(implementation, device, limit_s)
        if unable is not None:
            found[name] = (unable.status, list(unable.reasons))
            if unable.status != "unavailable":
                tell(f"{name}: {unable.status}: {'; '.join(unable.reasons)}")
        if (took := time.monotonic() - started) > 2:
            tell(f"{name}: tried once ({took:.0f} s)")
    return found


def find_doubts(
    implementations: Iterable[Implementation], device: str, tell: Tell, orders: Orders
) -> dict[str, str]:
    """What is wrong, by name, with brought kernels that run: causal where T_q ≠ T_kv.

    Their cells are proven each for itself; a sweep may have none that would show it.
    """
    found: dict[str, str] = {}
    for one in filter(is_brought, implementations):
        with orders.trying(one.name, "availability"):
            why = rectangular_fault(one, device)
        if why is None:
            continue
        found[one.name] = (
            f"wrong for causal T_q ≠ T_kv ({why}): python -m impls check --impl {one.source} shows "
            "more; one for T_q = T_kv alone says so by its attribute causal_rectangular = False"
        )
        tell(f"WARNING: {one.name} is {found[one.name]}")
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
