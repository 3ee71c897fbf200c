"""Static profiles as the rows of one table, wherever it is shown: its columns and their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from results.static_profile import (
    Loop,
    Resources,
    StaticBound,
    StaticProfile,
    arch_number,
    assignments,
)
from results.static_promises import breaches

NOTHING = "–"
_KIB = 1024
_OPTIONS = {"num_warps": "w", "num_stages": "s"}


@dataclass(frozen=True)
class StaticColumn:
    """One column: its unit is in the header; `show` gives a profile's text, a dash for none."""

    key: str
    header: str
    is_number: bool
    show: Callable[[StaticProfile], str]
    help: str = ""


def static_columns(profiles: Sequence[StaticProfile]) -> list[StaticColumn]:
    """The columns of a table of these profiles, without those that say nothing in any row.

    Of the constants only what tells subjects apart is shown.
    """
    varying = varying_constants(profiles)
    found = [
        StaticColumn("kernel", "kernel", False, lambda p: p.kernel),
        StaticColumn("arch", "arch", False, lambda p: p.arch),
        StaticColumn("dtype", "dtype", False, lambda p: p.dtype or NOTHING),
        StaticColumn("d_h", "d_h", True, lambda p: str(p.d_h or NOTHING)),
        StaticColumn(
            "constants", "constants", False, lambda p: constants_text(p, varying) or NOTHING
        ),
        StaticColumn("block", "block", False, block_text, _BLOCK),
        StaticColumn("registers", "registers", True, _of(lambda r: str(r.registers)), _THREAD),
        StaticColumn("spills", "spills", True, spills_text, _SPILLS),
        StaticColumn("stack", "stack B", True, _of(lambda r: str(r.stack_bytes)), _THREAD),
        StaticColumn("shared", "shared KiB", True, _of(_shared), "of one block"),
        StaticColumn(
            "tensor_memory", "tmem", True, _of(lambda r: str(r.tensor_memory_columns)), _TMEM
        ),
        StaticColumn("warps", "warps", True, _of(lambda r: str(r.warps)), "of one block"),
        StaticColumn("blocks", "blocks/SM", True, _of(_blocks), _OCCUPANCY),
        StaticColumn("overlap", "bound %", True, _bound(lambda b: b.overlap_percent), _OVERLAP),
        StaticColumn(
            "no_overlap", "no overlap %", True, _bound(lambda b: b.no_overlap_percent), _NO_OVERLAP
        ),
        StaticColumn("limit", "limited by", False, limit_text, "the fullest pipe"),
        StaticColumn("mma", "MMA", True, _mix("mma"), _LOOP),
        StaticColumn("mufu", "MUFU", True, _mix("mufu"), _LOOP),
        StaticColumn("notes", "notes", False, lambda p: "; ".join(notes(p)) or NOTHING),
    ]
    return [c for c in found if c.key not in _LEFT_OUT or _tells(c, profiles)]


# Shown only where some profile has something to say there.
_LEFT_OUT = ("dtype", "d_h", "constants", "tensor_memory")
_BLOCK = "the block's sizes in the launcher's order, w: warps, s: pipeline stages"
_THREAD = "of one thread"
_SPILLS = "stores + loads of local memory in the whole kernel; how many are in the hot loop"
_TMEM = "columns of tensor memory, of 512"
_OCCUPANCY = "how many blocks an SM can hold at once"
_OVERLAP = "of the peak, if all pipes work at once: nothing can be above it; no prediction"
_NO_OVERLAP = "of the peak, if products and everything else take turns"
_LOOP = "instructions of one warp in one pass of the hot loop"


def _tells(column: StaticColumn, profiles: Sequence[StaticProfile]) -> bool:
    return any(column.show(p) not in (NOTHING, "0") for p in profiles)


def reading_order(profiles: Iterable[StaticProfile]) -> list[StaticProfile]:
    """By kernel, dtype, head size and variant; then by architecture, the best bound first."""
    profiles = list(profiles)
    # Constants that follow from the architecture must not come before it.
    varying = varying_constants(profiles)

    def order(p: StaticProfile) -> tuple:
        subject = (p.origin or "", p.kernel, p.dtype or "", p.d_h or 0, constants_text(p, varying))
        overlap = p.bound.overlap_percent if p.bound else 0.0
        return (*subject, arch_number(p.arch), p.arch, -overlap, assignments(p.block))

    return sorted(profiles, key=order)


def arch_order(names: Iterable[str]) -> list[str]:
    """Architectures each once, sm_80 before sm_100."""
    return sorted(set(names), key=lambda name: (arch_number(name), name))


def compilers_text(profiles: Sequence[StaticProfile]) -> str:
    """What compiled them: "Triton 3.7.1, ptxas 12.8.93 (sm_80, sm_90), 13.1.80 (sm_100)"."""
    by_ptxas: dict[str, list[str]] = {}
    for arch in arch_order(p.arch for p in profiles):
        for ptxas in sorted({p.ptxas for p in profiles if p.arch == arch}):
            by_ptxas.setdefault(ptxas, []).append(arch)
    words = [f"{name} ({', '.join(archs)})" for name, archs in by_ptxas.items()]
    tritons = sorted({p.triton for p in profiles})
    return ", ".join([f"Triton {' and '.join(tritons)}", f"ptxas {', '.join(words)}"])


def varying_constants(profiles: Sequence[StaticProfile]) -> frozenset[str]:
    """The names of the constants that tell subjects of one kernel, dtype and d_h apart."""
    found: set[str] = set()
    groups: dict[tuple, list[StaticProfile]] = {}
    for profile in profiles:
        groups.setdefault(profile.subject[:4], []).append(profile)
    for group in groups.values():
        known = {name for p in group for name in p.constants}
        found |= {n for n in known if len({repr(p.constants.get(n)) for p in group}) > 1}
    return frozenset(found)


def constants_text(profile: StaticProfile, names: Iterable[str]) -> str:
    """Those of the constants, "IS_CAUSAL=True"."""
    return assignments({n: profile.constants[n] for n in names if n in profile.constants})


def block_text(profile: StaticProfile) -> str:
    """A block in few letters, "128×64 w8 s2": sizes as the launcher has them, warps, stages."""
    sizes = [str(v) for name, v in profile.block.items() if name not in _OPTIONS]
    options = [f"{_OPTIONS[n]}{v}" for n, v in profile.block.items() if n in _OPTIONS]
    return " ".join([*(["×".join(sizes)] if sizes else []), *options]) or NOTHING


def spills_text(profile: StaticProfile) -> str:
    """ "0", "48+50" outside the hot loop, "48+50, 12 in the loop" where some are inside."""
    resources, loop = profile.resources, profile.hot_loop
    if resources is None:
        return NOTHING
    total = resources.spill_stores + resources.spill_loads
    inside = loop.spill_stores + loop.spill_loads if loop else 0
    text = f"{resources.spill_stores}+{resources.spill_loads}" if total else "0"
    return f"{text}, {inside} in the loop" if inside else text


def limit_text(profile: StaticProfile) -> str:
    """The pipe that limits, and whose peak is 100 % where that is not the matrix products'."""
    if profile.bound is None:
        return NOTHING
    of = "" if profile.bound.of == "mma" else f" (of {profile.bound.of})"
    return f"{profile.bound.limited_by}{of}"


def notes(profile: StaticProfile) -> list[str]:
    """Why there are no figures, or which promises the code breaks."""
    if profile.status != "ok":
        lines = profile.reasons[0].strip().splitlines() if profile.reasons else []
        return [f"{profile.status}: {lines[0] if lines else 'no reason was written'}"]
    return [breach.text for breach in breaches(profile)]


def _of(show: Callable[[Resources], str]) -> Callable[[StaticProfile], str]:
    return lambda p: show(p.resources) if p.resources else NOTHING


def _mix(kind: str) -> Callable[[StaticProfile], str]:
    def show(loop: Loop | None) -> str:
        return str(loop.mix[kind]) if loop else NOTHING

    return lambda p: show(p.hot_loop)


def _bound(read: Callable[[StaticBound], float]) -> Callable[[StaticProfile], str]:
    return lambda p: f"{read(p.bound):.0f}" if p.bound else NOTHING


def _shared(resources: Resources) -> str:
    return f"{resources.shared_bytes / _KIB:.0f}"


def _blocks(resources: Resources) -> str:
    return str(resources.occupancy.blocks)
