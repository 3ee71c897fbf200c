"""Small, plausible run folders for the tests of what reads them, written as suites write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from impls.interface.problem import Problem
from tests.fake_cells import BYTES_PER_S, FLOP_PER_S, cell, check_record

LENGTHS = (128, 512, 2048, 4096)

# Seconds of a full forward at H=8, d_h=64, float32, one thread of a small CPU; causal's share.
_FULL_S = {
    "naive": (0.00047, 0.008, 0.125, 0.520),
    "chunked": (0.00060, 0.009, 0.118, 0.470),
    "sdpa_flash": (0.00043, 0.00615, 0.094, 0.373),
}
_CAUSAL_SHARE = {
    "naive": (1.0, 1.0, 1.02, 1.02),
    "chunked": (1.0, 0.9, 0.66, 0.6),
    "sdpa_flash": (1.0, 1.0, 0.62, 0.56),
}


def ceilings_record() -> dict:
    """The ceilings of a small CPU."""

    def gemm(flop_per_s: float) -> dict:
        best = {"flop_per_s": flop_per_s, "median_flop_per_s": flop_per_s * 0.98}
        return best | {"provider": "torch.mm", "size": 1024, "providers": {"torch.mm": best}}

    def level(name: str, capacity: int | None) -> dict:
        best = BYTES_PER_S[name]
        return {
            "bytes_per_s": best,
            "provider": "copy",
            "copy_bytes_per_s": best,
            "read_bytes_per_s": best * 0.9,
            "working_set_bytes": (capacity or 2**28) // 2,
            "capacity_bytes": capacity,
        }

    return {
        "device": "cpu",
        "device_name": "Fake CPU 9000",
        "threads": 1,
        "measured_utc": "2026-11-29T19:29:50Z",
        "contended": False,
        "foreign_load": 0.01,
        "clock": "cpu_time",
        "gemm": {"float32": gemm(FLOP_PER_S), "bfloat16": gemm(4.7 * FLOP_PER_S)},
        "bandwidth": {
            name: level(name, size)
            for name, size in (("l2", 2**20), ("llc", 2**25), ("dram", None))
        },
        "exp": {"float32": {"exp_per_s": 1.6e9, "median_exp_per_s": 1.55e9}},
        "datasheet": None,
    }


def default_cells() -> list[dict]:
    """A T sweep, full and causal, of three implementations, and one cell of every other status."""
    records = list(_sweep())
    problem = Problem.parse("T=512,H=8,d_h=64")
    long = problem.with_(T_q=16384, T_kv=16384)
    others = {
        "unsupported": ("flex", ["causal with T_q=1 and T_kv=9: only T_q = T_kv"]),
        "unavailable": ("sdpa_cudnn", ["needs a CUDA device"]),
        "error": ("compiled_naive", ["RuntimeError: no compiler found"]),
        "crashed": ("xformers_flash", ["the process died while measuring it"]),
        "timeout": ("sdpa_math", ["took longer than 20 s"]),
    }
    records += [
        cell(name, problem, status=status, reasons=reasons)
        for status, (name, reasons) in others.items()
    ]
    records.append(cell("naive", long, status="oom", reasons=["needs 17.2 GB, 12.0 GB are free"]))
    records.append(cell("sdpa_flash", long, reasons=["beyond the budget: 24 s estimated"]))
    records.append(
        cell(
            "sdpa_efficient",
            problem,
            0.001,
            status="wrong",
            reasons=["out is 0.4 from float64, 2e-06 is allowed"],
            check=check_record(ok=False),
        )
    )
    tiny = problem.with_(T_q=16, T_kv=16)
    records.append(cell("sdpa_flash", tiny, 2e-6, flags=["near_floor"]))
    return records


def _sweep() -> Iterator[dict]:
    for implementation, full_s in _FULL_S.items():
        for T, time_s, share in zip(LENGTHS, full_s, _CAUSAL_SHARE[implementation], strict=True):
            problem = Problem.parse(f"T={T},H=8,d_h=64")
            yield cell(implementation, problem, time_s)
            yield cell(implementation, problem.with_(causal=True), time_s * share)


def write_run(
    store: Path,
    *,
    records: list[dict] | None = None,
    created: str = "20261129T193000Z",
    machine_key: str = "cpu-0123456789ab",
    commit: str = "1234567",
    change: Callable[[dict], None] | None = None,
) -> Path:
    """Write a finished run below `store` and say where; `change` may alter its run.json first."""
    records = default_cells() if records is None else records
    name = f"{created}-{commit}"
    folder = store / machine_key / name
    folder.mkdir(parents=True)
    plan_fields = ("cell", "implementation", "problem", "pass", "cache", "clock", "suite", "series")
    counts: dict[str, int] = {}
    for record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    day, hour = created[:8], created[9:15]
    utc = f"{day[:4]}-{day[4:6]}-{day[6:]}T{hour[:2]}:{hour[2:4]}:{hour[4:]}Z"
    header = {
        "schema": 1,
        "run": name,
        "created_utc": utc,
        "finished_utc": utc,
        "interrupted": False,
        "commit": commit,
        "dirty": False,
        "command": "pytest suites --budget quick",
        "machine_key": machine_key,
        "device": "cpu",
        "environment": {"cpu": "Fake CPU 9000", "python": "3.11.2", "torch": "2.13.0+cpu"},
        "ceilings": ceilings_record(),
        "settings": {
            "settings_version": 1,
            "budget": "quick",
            "threads": 1,
            "flop_convention": "exact",
            "baseline": "naive",
        },
        "plan": [
            {f: record[f] for f in plan_fields}
            | {
                "decision": "skip" if record["status"] == "skipped" else "run",
                "reason": "; ".join(record["reasons"]) or None,
                "estimate_s": 1.0,
            }
            for record in records
        ],
        "counts": counts,
    }
    if change is not None:
        change(header)
    (folder / "run.json").write_text(json.dumps(header, allow_nan=False), encoding="utf-8")
    lines = [json.dumps(record, allow_nan=False) + "\n" for record in records]
    (folder / "cells.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder
