"""A static run as suites write it: shipped kernels, one that spills and one that was refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fake_profiles import profile
from tests.fake_run import write_run

# A plan's entry names what a timed cell has; a static run has no plan.
_OF_CELLS = ("implementation", "problem", "pass", "cache", "clock", "suite", "series")


def default_profiles() -> list[dict[str, Any]]:
    """Two kernels on three architectures, compiled by two versions of ptxas."""
    records = [
        profile(
            arch=arch,
            d_h=d_h,
            ptxas=ptxas,
            bound__overlap_percent=overlap,
            bound__no_overlap_percent=no_overlap,
            bound__limited_by=limit,
        )
        for arch, d_h, ptxas, no_overlap, overlap, limit in (
            ("sm_80", 64, "12.8.93", 61.0, 100.0, "mma"),
            ("sm_80", 128, "12.8.93", 62.0, 100.0, "mma"),
            ("sm_90", 64, "12.8.93", 49.0, 97.0, "mufu"),
            ("sm_90", 128, "12.8.93", 66.0, 100.0, "mma"),
            ("sm_100", 64, "13.1.80", 33.0, 49.0, "mufu"),
            ("sm_100", 128, "13.1.80", 20.0, 98.0, "mufu"),
        )
    ]
    decode = {"kernel": "triton_flash_decode", "bound__of": "dram", "bound__limited_by": "dram"}
    spills = {"spill_stores": 48, "spill_loads": 50}
    spilling = profile(**decode, hot_loop__spill_stores=12)
    spilling["resources"] |= spills
    refused = profile(
        **decode | {"arch": "sm_80", "status": "error"},
        reasons=["shared memory: 262144 bytes of 166912\nand more"],
    )
    return [*records, spilling, refused | dict.fromkeys(("resources", "hot_loop", "bound"))]


def write_static_run(
    store: Path, records: Sequence[dict[str, Any]] | None = None, **keywords: Any
) -> Path:
    """Write a finished static run below `store` and say where; `keywords` as in `write_run`."""
    change = keywords.pop("change", None)

    def static(header: dict[str, Any]) -> None:
        header |= {"kind": "static", "ceilings": None, "plan": []}
        header["command"] = "python -m suites static"
        if change is not None:
            change(header)

    lines = [r | dict.fromkeys(_OF_CELLS, "") for r in records or default_profiles()]
    return write_run(store, records=lines, change=static, **keywords)
