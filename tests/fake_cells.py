"""Journal lines of a small, plausible machine, written as suites write them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from impls.interface import layer_work
from impls.interface.cost import Cost, cost
from impls.interface.problem import Problem

FLOP_PER_S = 100e9
BYTES_PER_S = {"l2": 190e9, "llc": 100e9, "dram": 38e9}


def cell_id(implementation: str, problem: Problem, pass_: str, cache: str, clock: str) -> str:
    """The identity of a cell, as the schema has it."""
    content = [implementation, problem.to_json(), pass_, cache, clock, 1]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cell(
    implementation: str, problem: Problem, time_s: float | None = None, **changes: Any
) -> dict:
    """One journal line: ok with a timing where `time_s` is given; `changes` replace fields."""
    pass_ = changes.get("pass", "forward")
    cache, clock = changes.get("cache", "hot"), changes.get("clock", "cpu_time")
    record: dict[str, Any] = {
        "schema": 1,
        "cell": cell_id(implementation, problem, pass_, cache, clock),
        "implementation": implementation,
        "problem": problem.to_json(),
        "pass": pass_,
        "cache": cache,
        "clock": clock,
        "settings_version": 1,
        "suite": "sequence_length",
        "series": "T, causal" if problem.causal else "T, full",
        "launch": 1,
        "started_utc": "2026-11-29T19:30:00Z",
        "elapsed_s": 1.2,
        "status": "skipped" if time_s is None else "ok",
        "reasons": [],
        "flags": [],
        "version": "torch 2.13.0+cpu",
        "timing": None,
        "counts": counts_record(problem, pass_),
        "bound": None,
        "memory": {"peak_bytes": None, "peak_reserved_bytes": None, "how": None},
        "check": None,
        "ran": ["unknown"],
        "host": None,
        "device_state": dict.fromkeys(("sm_clock_mhz", "power_w", "temperature_c", "energy_j")),
    }
    if time_s is not None:
        record |= {
            "timing": timing_record(time_s),
            "bound": bound_record(problem, pass_),
            "check": check_record(),
            "ran": [f"attnbench::{implementation}"],
            "memory": memory_record(implementation, problem),
            "host": {"minor_faults_per_call": 12.0, "system_share": 0.02, "foreign_load": 0.01},
            "device_state": dict.fromkeys(("sm_clock_mhz", "power_w", "temperature_c", "energy_j")),
        }
    return record | changes


def timing_record(time_s: float) -> dict:
    """Eleven samples, two percent apart, around a median of `time_s`."""
    samples = [time_s * (1 + 0.002 * i) for i in range(-5, 6)]
    return {
        "median_s": time_s,
        "min_s": samples[0],
        "q1_s": time_s * 0.995,
        "q3_s": time_s * 1.005,
        "mean_s": time_s,
        "n": 11,
        "ci_low_s": time_s * 0.996,
        "ci_high_s": time_s * 1.004,
        "stop": "precise",
        "samples_s": samples,
        "wall_median_s": time_s * 1.01,
        "wall_min_s": time_s,
        "first_call_s": time_s * 3,
        "prepare_s": 0.0,
        "warmup_n": 3,
        "first_ten_median_s": time_s * 1.01,
        "floor_s": 1e-6,
        "calls_per_sample": 1,
        "host_s": None,
    }


def counts_record(problem: Problem, pass_: str) -> dict:
    """The counts of the cost model; nothing moved beyond the compulsory bytes."""
    counted = _cost(problem, pass_)
    return {
        "pairs": counted.pairs,
        "flop": counted.flop,
        "flop_convention": counted.flop_convention,
        "exp": counted.exp,
        "compulsory_bytes": counted.compulsory_bytes,
        "algorithmic_bytes": counted.compulsory_bytes,
    }


def _cost(problem: Problem, pass_: str) -> Cost:
    return (cost if problem.around is None else layer_work.cost)(problem, pass_)


def bound_record(problem: Problem, pass_: str) -> dict:
    """The bound under the ceilings of the fake machine, from the last-level cache."""
    counted = _cost(problem, pass_)
    compute_s = counted.flop / FLOP_PER_S
    memory_s = counted.compulsory_bytes / BYTES_PER_S["llc"]
    return {
        "time_s": max(compute_s, memory_s),
        "binds": "compute" if compute_s >= memory_s else "memory",
        "flop_per_s": FLOP_PER_S,
        "flop_provider": "torch.mm",
        "bytes_per_s": BYTES_PER_S["llc"],
        "bytes_level": "llc",
        "bytes_provider": "copy",
    }


def memory_record(implementation: str, problem: Problem) -> dict:
    """Naive holds the scores twice; the others the output and a little more."""
    out = 4 * problem.B * problem.H * problem.T_q * problem.d_v
    scores = 4 * problem.B * problem.H * problem.T_q * problem.T_kv
    peak = out + 2 * scores if implementation == "naive" else out + 65536
    return {"peak_bytes": peak, "peak_reserved_bytes": None, "how": "profiler"}


def check_record(*, ok: bool = True) -> dict:
    """A check against float64 that passed, or did not."""
    distance = {
        "max_error": 2e-7 if ok else 0.4,
        "relative_error": 1e-7 if ok else 0.3,
        "allowed_max": 2e-6,
        "allowed_relative": 1e-6,
        "naive_max_error": 3e-7,
    }
    return {
        "ok": ok,
        "against": "float64",
        "rows": "all",
        "outputs": {"out": distance},
        "after_timing": True,
        "where": "device",
    }
