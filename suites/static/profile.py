"""A compiled kernel as the profile that a run's journal holds: counted, held against its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from impls.interface.static_kernel import Build
from suites.static.architectures import RESERVED_SHARED_BYTES, Rates, limits_of, rates_of
from suites.static.bound import Bound, bound_of_bytes, bound_of_products, cycles_of
from suites.static.compiler import Compiled
from suites.static.instructions import kind, mix, opcodes, thread_bytes
from suites.static.loops import Loops, Pass, Work, find_loops, work_of
from suites.static.occupancy import Need, occupancy, reasons_against
from suites.static.sass import Code, parse
from suites.static.tensor_memory import products_in_code


def profile_of(compiled: Compiled, build: Build, capability: int) -> dict[str, Any]:
    """Status, reasons, resources, loops, bound and what was expected, as the journal has them.

    The status is "error" where a limit of the hardware is exceeded: the figures stay.
    """
    code = parse(compiled.sass, compiled.name)
    limits = limits_of(capability)
    need = _need(compiled, capability)
    reasons = reasons_against(need, limits)
    loops = find_loops(code, int(build.block.get("num_warps", 4)), compiled.warps)
    products = products_in_code(code)
    work = work_of(code, loops.hot, products)
    iterations = _iterations(work, build)
    rates = rates_of(capability)
    bound = _bound(code, loops, work, iterations, build, rates) if rates else None
    exponentials = None
    if build.exponentials is not None and iterations is not None:
        exponentials = build.exponentials * iterations / (32 * loops.hot.warps)
    has_mma = None if not build.products else build.uses_matrix_units
    return {
        "status": "error" if reasons else "ok",
        "reasons": reasons,
        "resources": _resources(compiled, code, need, asdict(occupancy(need, limits))),
        "hot_loop": _loop(code, loops.hot, iterations),
        "other_loops": [
            _loop(code, other, _iterations(work_of(code, other, products), build))
            for other in loops.others
        ],
        "bound": None if bound is None else asdict(bound),
        "expected": {
            "has_mma": has_mma,
            "exponentials": exponentials,
            "is_masked": build.is_masked,
            "may_spill": build.may_spill,
        },
    }


def _need(compiled: Compiled, capability: int) -> Need:
    static = compiled.usage.get("SHARED", 0)
    if capability >= 90 and static:
        static -= RESERVED_SHARED_BYTES
    return Need(
        warps=compiled.warps,
        registers=compiled.usage["REG"],
        shared_bytes=static + compiled.dynamic_shared_bytes,
        tensor_memory_columns=compiled.tensor_memory_columns,
    )


def _resources(
    compiled: Compiled, code: Code, need: Need, resident: Mapping[str, Any]
) -> dict[str, Any]:
    spills = [i for i in code.instructions if kind(i) == "spill"]
    stores = [i for i in spills if i.opcode == "STL"]
    loads = [i for i in spills if i.opcode == "LDL"]
    return {
        "registers": need.registers,
        "stack_bytes": compiled.usage["STACK"],
        "spill_stores": len(stores),
        "spill_loads": len(loads),
        "spill_store_bytes": sum(map(thread_bytes, stores)),
        "spill_load_bytes": sum(map(thread_bytes, loads)),
        "static_shared_bytes": need.shared_bytes - compiled.dynamic_shared_bytes,
        "dynamic_shared_bytes": compiled.dynamic_shared_bytes,
        "tensor_memory_columns": compiled.tensor_memory_columns,
        "warps": compiled.warps,
        "scratch_bytes": compiled.scratch_bytes,
        "instructions": len(code.instructions),
        "occupancy": dict(resident),
    }


def _loop(code: Code, one: Pass, iterations: float | None) -> dict[str, Any]:
    body = code.body(one.place)
    spills = [i.opcode for i in body if kind(i) == "spill"]
    return {
        "warps": one.warps,
        "instructions": len(body),
        "mix": mix(body),
        "opcodes": opcodes(body),
        "spill_stores": spills.count("STL"),
        "spill_loads": spills.count("LDL"),
        "iterations": iterations,
    }


def _iterations(work: Work, build: Build) -> float | None:
    """Iterations of the kernel's loop in one pass: FLOP in the code over FLOP as written.

    A remainder is no iteration: more warps than a tile has rows for make some products twice.
    """
    if not build.uses_matrix_units or not work.mma_flop:
        return 1.0 if build.products else None
    ratio = work.mma_flop / build.flop
    return float(int(ratio + 0.01)) if ratio >= 1.0 else round(ratio, 4)


def _bound(
    code: Code,
    loops: Loops,
    work: Work,
    iterations: float | None,
    build: Build,
    rates: Rates,
) -> Bound | None:
    """None where what the loop multiplies, or moves, cannot be told."""
    body = code.body(loops.hot.place)
    times = iterations or 1.0
    cycles = cycles_of(body, loops.hot.warps, work, rates, build.bulk_bytes * times)
    multiplies = any(kind(i) == "mma" for i in body)
    if build.dram_bytes is not None:
        return bound_of_bytes(cycles, build.dram_bytes * times, rates)
    if multiplies:
        if work.mma_flop is None or work.mma_flop == 0:
            return None
        useful = _useful_flop(work, iterations, build) / work.mma_flop * cycles["mma"]
        return bound_of_products(cycles, "mma", useful)
    if build.products and build.uses_matrix_units:
        return None  # a stub: what a compiler leaves of a tile beyond the limits multiplies nothing
    if build.products:
        useful = (build.useful_flop or build.flop) / (2 * rates.fp32)
        return bound_of_products(cycles, "fp32", useful)
    if work.global_bytes:
        return bound_of_bytes(cycles, work.global_bytes, rates)
    return None


def _useful_flop(work: Work, iterations: float | None, build: Build) -> float:
    """Of one pass: without padding, and without what is made twice. All, if nothing is told."""
    if not build.products or iterations is None:
        return float(work.mma_flop or 0)
    return iterations * (build.flop if build.useful_flop is None else build.useful_flop)
