"""The few sentences a static run bears out: what failed, what spills, how high the bounds are."""

from __future__ import annotations

from collections import Counter

from results.finding import Finding
from results.run import Run
from results.static_profile import StaticProfile
from results.static_promises import breaches
from results.static_table import arch_order, notes

# What works in each pipe of `results.static_profile.PIPES`.
PIPE_WORDS = {
    "mma": "matrix products",
    "mufu": "exponentials",
    "fp32": "float32 arithmetic",
    "alu": "integers and selects",
    "shuffle": "shuffles",
    "shared": "shared memory",
    "issue": "issuing instructions",
    "dram": "device memory",
}
# Whose share a bound is, the most telling first.
PEAK_WORDS = {
    "mma": "the matrix peak",
    "fp32": "the float32 peak",
    "dram": "the memory bandwidth",
}


def refused(run: Run) -> Finding | None:
    """Profiles without figures, and the first one's reason."""
    bad = [p for p in run.profiles if p.status != "ok"]
    if not bad:
        return None
    counted = Counter(p.status for p in bad)
    words = ", ".join(f"{n} {status}" for status, n in counted.items())
    first = f"{_named(bad[0])}: {notes(bad[0])[0]}"
    have = "has" if len(bad) == 1 else "have"
    return Finding(f"{len(bad)} of {len(run.profiles)} {have} no figures ({words}): {first}.")


def broken_promises(run: Run) -> Finding | None:
    """Kernels whose code does not look as their author says it must."""
    broken = [(p, found) for p in run.profiles if (found := breaches(p))]
    if not broken:
        return None
    (first, found), rest = broken[0], len(broken) - 1
    more = f"; and {rest} more" if rest else ""
    return Finding(f"{_named(first)} breaks a promise: {found[0].text}{more}.")


def spills(run: Run) -> Finding | None:
    """How many default blocks spill, the worst of them, and whether any does in its hot loop.

    Where there is no default block, as of a kernel that was brought, all that compiled.
    """
    compiled = [p for p in run.profiles if p.resources and p.hot_loop]
    shown = [p for p in compiled if p.is_default] or compiled
    if not shown:
        return None
    what = f"{'default' if shown[0].is_default else 'compiled'} block{'s' * (len(shown) > 1)}"
    spilling = [p for p in shown if _spilled(p)]
    if not spilling:
        return Finding(f"Of {len(shown)} {what} none spills a register.")
    worst = max(spilling, key=_spilled)
    inside = [
        p for p in spilling if p.hot_loop and (p.hot_loop.spill_stores + p.hot_loop.spill_loads)
    ]
    where = f"{len(inside)} of them in the hot loop" if inside else "none of them in the hot loop"
    resources = worst.resources
    assert resources is not None
    return Finding(
        f"{len(spilling)} of {len(shown)} {what} spill, {where}; most: {_named(worst)} "
        f"with {resources.spill_stores} stores and {resources.spill_loads} loads."
    )


def bounds(run: Run) -> Finding | None:
    """For each architecture how far the most useful kernel's two bounds allow.

    Of kernels that multiply matrices; where none does, of those held to another peak.
    """
    known = {of: [p for p in run.profiles if p.bound and p.bound.of == of] for of in PEAK_WORDS}
    of = next((of for of, found in known.items() if found), None)
    if of is None:
        return None
    parts: list[str] = []
    for arch in arch_order(p.arch for p in known[of]):
        best = max((p for p in known[of] if p.arch == arch), key=_height)
        parts.append(f"{arch} {_bounds_text(best)}")
    return Finding(
        f"Share of {PEAK_WORDS[of]} that the code allows, nothing overlapped to all overlapped, of "
        f"each architecture's best: {'; '.join(parts)}. Bounds, not predictions."
    )


def limits(run: Run) -> Finding | None:
    """Which pipes limit, over all profiles with a bound."""
    known = Counter(p.bound.limited_by for p in run.profiles if p.bound)
    if len(known) < 2:
        return None
    words = ", ".join(f"{PIPE_WORDS.get(pipe, pipe)} {n}" for pipe, n in known.most_common())
    return Finding(f"What limits, over {known.total()} profiles: {words}.")


STATIC_FINDINGS = (refused, broken_promises, spills, bounds, limits)


def _bounds_text(profile: StaticProfile) -> str:
    bound = profile.bound
    assert bound is not None
    name = profile.kernel + (f" d_h={profile.d_h}" if profile.d_h else "")
    limit = PIPE_WORDS.get(bound.limited_by, bound.limited_by)
    span = f"{bound.no_overlap_percent:.0f} to {bound.overlap_percent:.0f} %"
    return f"{span} ({name}, limited by {limit})"


def _height(profile: StaticProfile) -> tuple[float, float]:
    bound = profile.bound
    assert bound is not None
    return (bound.overlap_percent, bound.no_overlap_percent)


def _spilled(profile: StaticProfile) -> int:
    resources = profile.resources
    return resources.spill_stores + resources.spill_loads if resources else 0


def _named(profile: StaticProfile) -> str:
    size = [f"d_h={profile.d_h}"] if profile.d_h else []
    return " ".join([profile.kernel, profile.arch, *size])
