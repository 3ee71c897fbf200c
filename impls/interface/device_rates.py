"""How fast a device is for a bound: its datasheet, or the ceilings measured on this machine.

A measured figure and a published one are never mixed: every rate of one `DeviceRates` has one
origin, and `source` says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from impls.interface.devices import device_row
from impls.interface.problem import DTYPES

# Where `python -m suites ceilings` keeps what it measured on this machine.
CEILINGS = Path(__file__).resolve().parents[2] / "results" / "ceilings"


@dataclass(frozen=True)
class DeviceRates:
    """The rates that bound a computation on one device.

    Attributes:
        bytes_per_s: of main memory.
        flop_per_s: by dtype; a dtype that is absent is unknown.
        memory_bytes: None where it is not known.
        source: where the figures come from, for people to read.
    """

    name: str
    bytes_per_s: float
    flop_per_s: Mapping[str, float]
    memory_bytes: float | None
    source: str
    is_measured: bool


def of_datasheet(key: str) -> DeviceRates:
    """The published rates of a device in `devices.csv`.

    Raises:
        ValueError: no such device; close keys are offered.
    """
    row = device_row(key)
    peaks = {dtype: row.flop_per_s(dtype) for dtype in DTYPES}
    return DeviceRates(
        name=row.key,
        bytes_per_s=row.bytes_per_s,
        flop_per_s={dtype: peak for dtype, peak in peaks.items() if peak is not None},
        memory_bytes=row.memory_bytes,
        source=f"datasheet: {row.source}",
        is_measured=False,
    )


def measured_here(folder: Path = CEILINGS) -> DeviceRates | None:
    """The ceilings measured last on this machine, None where there are none to read.

    Those measured beside other programs, which are kept on demand, only where there are no others.
    Of the memory levels it is the last, of a rate measured both ways the spaced one, as a cell's
    bound takes them. A GPU's memory is its datasheet's, where it has one.
    """
    records = [record for path in sorted(folder.glob("*.json")) if (record := _read(path))]
    if not records:
        return None
    latest = max(records, key=lambda record: (not record["contended"], record["measured_utc"]))
    return _rates(latest)


def _read(path: Path) -> dict[str, Any] | None:
    """A ceilings file, None when it is broken or of an earlier form."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        _rates(record)
        return record if isinstance(record["contended"], bool) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None


def _rates(record: Mapping[str, Any]) -> DeviceRates:
    levels = record["bandwidth"].items()
    level, memory = next((n, r) for n, r in levels if r["capacity_bytes"] is None)
    sheet = record["datasheet"]
    threads = f", {record['threads']} threads" if record["threads"] != 1 else ", 1 thread"
    on = threads if record["device"] == "cpu" else ""
    beside = ""
    if record["contended"]:
        beside = f", while other programs took {record['foreign_load']:.0%} of the machine"
    return DeviceRates(
        name=record["device_name"],
        bytes_per_s=float(memory.get("spaced_bytes_per_s", memory["bytes_per_s"])),
        flop_per_s={
            dtype: float(gemm.get("spaced_flop_per_s", gemm["flop_per_s"]))
            for dtype, gemm in record["gemm"].items()
        },
        memory_bytes=device_row(sheet["key"]).memory_bytes if sheet else None,
        source=f"measured {record['measured_utc'][:10]}{on}, {level} and matrix products{beside}",
        is_measured=True,
    )
