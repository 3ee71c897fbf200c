"""Small, plausible static profiles for the tests of what reads them, as journal lines have them."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from results.static_profile import INSTRUCTION_KINDS

_IDENTITY = ("kernel", "arch", "dtype", "d_h", "constants", "block", "triton", "ptxas")


def profile(**changes: Any) -> dict[str, Any]:
    """The forward kernel on sm_90; a change of a nested value is written `block__num_warps=4`."""
    record: dict[str, Any] = {
        "schema": 1,
        "kind": "static",
        "kernel": "triton_flash_forward",
        "origin": None,
        "arch": "sm_90",
        "dtype": "bf16",
        "d_h": 128,
        "constants": {"IS_CAUSAL": True, "HAS_WINDOW": False},
        "block": {"BLOCK_Q": 128, "BLOCK_KV": 128, "num_warps": 8, "num_stages": 2},
        "is_default": True,
        "triton": "3.7.1",
        "ptxas": "12.8.93",
        "status": "ok",
        "reasons": [],
        "resources": {
            "registers": 255,
            "stack_bytes": 0,
            "spill_stores": 0,
            "spill_loads": 0,
            "spill_store_bytes": 0,
            "spill_load_bytes": 0,
            "static_shared_bytes": 0,
            "dynamic_shared_bytes": 163840,
            "tensor_memory_columns": 0,
            "warps": 8,
            "scratch_bytes": 0,
            "instructions": 1999,
            "occupancy": {"blocks": 1, "warps": 8, "share": 0.125, "limited_by": "registers"},
        },
        "hot_loop": loop(),
        "other_loops": [loop(select=64, alu=200)],
        "bound": {
            "of": "mma",
            "overlap_percent": 100.0,
            "no_overlap_percent": 66.0,
            "limited_by": "mma",
            "cycles": {"mma": 2048.0, "mufu": 1056.0, "shared": 1848.0, "issue": 1044.0},
        },
        "expected": {"has_mma": True, "exponentials": 64.0, "is_masked": False, "may_spill": False},
        "started_utc": "2026-11-29T19:30:00Z",
        "elapsed_s": 2.5,
    }
    for path, value in changes.items():
        *outer, last = path.split("__")
        inner = record
        for name in outer:
            inner = inner[name]
        inner[last] = value
    identity = json.dumps(["static", *(record[name] for name in _IDENTITY)], sort_keys=True)
    record["cell"] = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return copy.deepcopy(record)


def loop(**mix: int) -> dict[str, Any]:
    """A loop of the forward kernel, with other counts of some kinds of instructions."""
    usual = {"mma": 16, "mufu": 66, "fp32": 140, "alu": 90, "conversion": 32, "shared": 4}
    counts = dict.fromkeys(INSTRUCTION_KINDS, 0) | usual | mix
    return {
        "warps": 8,
        "instructions": sum(counts.values()),
        "mix": counts,
        "opcodes": {"HGMMA": 16, "MUFU": 66},
        "spill_stores": 0,
        "spill_loads": 0,
        "iterations": 1.0,
    }
