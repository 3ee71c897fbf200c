"""The ceilings of this machine, measured and kept for a week, and the bound they give a cell."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import torch

from impls.interface.devices import datasheet
from impls.interface.problem import Problem
from suites.measure import (
    allocator,
    bandwidth_ceiling,
    device,
    gemm_ceiling,
    host_load,
    onnxruntime_product,
    processor,
    windows,
)
from suites.measure.atomic_file import write_json
from suites.measure.environment import ROOT, version_of
from suites.measure.journal import utc_now

STORE = ROOT / "results" / "ceilings"
VALID_FOR = timedelta(days=7)
ABOVE_BY = 0.03

_DATASHEET = (
    *("key", "fp32_flop_per_s", "tf32_flop_per_s", "bf16_flop_per_s", "fp16_flop_per_s"),
    *("bytes_per_s", "source", "confidence"),
)

# A change of what is measured makes the kept files of the earlier procedure invalid.
PROCEDURE = 2


def ceilings_for(
    device_name: str = "cpu",
    threads: int = 1,
    *,
    fresh: bool = False,
    keep_contended: bool = False,
    store: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The ceilings record of a device at so many threads: the kept one, or measured now.

    A kept one is at most 7 days old and of this device, torch and procedure. Contended ones are
    returned, marked, and kept only with `keep_contended`: on a machine that is never quiet.
    """
    path = (store or STORE) / _file_name(device_name, threads)
    kept = None if fresh else _kept(path)
    if kept is not None:
        return kept
    measured = measure_ceilings(device_name, threads, progress)
    if keep_contended or not measured["contended"]:
        # Where they cannot be kept they are measured again next time; that is no reason to stop.
        with suppress(OSError):
            write_json(path, measured)
    return measured


def measure_ceilings(
    device_name: str = "cpu",
    threads: int = 1,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The ceilings record, measured now, in under 10 s. The thread count is put back after."""
    threads_before = torch.get_num_threads()
    before = host_load.read()
    try:
        if device_name == "cpu":
            torch.set_num_threads(threads)
        with torch.no_grad():
            figures = _cuda_figures(progress) if device_name == "cuda" else _cpu(threads, progress)
    finally:
        torch.set_num_threads(threads_before)
    foreign_load = host_load.between(before, host_load.read()).foreign_load
    return {
        "device": device_name,
        "device_name": device.describe(device_name).name,
        "threads": threads,
        "measured_utc": utc_now(),
        "procedure": PROCEDURE,
        # A GPU's ceilings do not hang on who else uses the CPU.
        "contended": device_name == "cpu" and (foreign_load or 0.0) > host_load.CONTENDED_ABOVE,
        "foreign_load": foreign_load,
        "clock": _clock_name(device_name, threads),
        **figures,
        "datasheet": datasheet_of(device_name),
    }


def bound(
    counts: Mapping[str, Any], problem: Problem, cache: str, ceilings: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The least time a cell can take: max(flop / measured FLOP/s, bytes / measured bytes/s).

    None where no product of the problem's dtype was measured, or nothing is to be done. A hot cell
    is held against the first memory level that holds its compulsory bytes, others against main
    memory (Williams et al. 2009, the roofline, per level).
    """
    gemm = ceilings["gemm"].get(problem.dtype)
    if gemm is None or not counts["flop"] or not counts["compulsory_bytes"]:
        return None
    level, bandwidth = _level(counts["compulsory_bytes"], cache, ceilings["bandwidth"])
    flop_per_s = gemm.get("spaced_flop_per_s", gemm["flop_per_s"])
    bytes_per_s = bandwidth.get("spaced_bytes_per_s", bandwidth["bytes_per_s"])
    compute_s = counts["flop"] / flop_per_s
    memory_s = counts["compulsory_bytes"] / bytes_per_s
    return {
        "time_s": max(compute_s, memory_s),
        "binds": "compute" if compute_s >= memory_s else "memory",
        "flop_per_s": flop_per_s,
        "flop_provider": gemm["provider"],
        "bytes_per_s": bytes_per_s,
        "bytes_level": level,
        "bytes_provider": bandwidth["provider"],
    }


def is_above_ceiling(time_s: float, bound_record: Mapping[str, Any] | None) -> bool:
    """Whether a measured time beats its bound by more than 3 %: one of the two is wrong."""
    return bound_record is not None and bound_record["time_s"] > (1 + ABOVE_BY) * time_s


def datasheet_of(device_name: str) -> dict[str, Any] | None:
    """The vendor's figures of this device, None where the table does not know it."""
    facts = device.describe(device_name)
    row = datasheet(facts.name, facts.sm_count, facts.memory_total_bytes)
    return None if row is None else {name: getattr(row, name) for name in _DATASHEET}


def _level(n_bytes: int, cache: str, bandwidth: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The name and record of the memory level that serves a cell of so many bytes."""
    if cache == "hot":
        for name, record in bandwidth.items():
            if record["capacity_bytes"] is not None and n_bytes <= record["capacity_bytes"]:
                return name, record
    return next((n, r) for n, r in bandwidth.items() if r["capacity_bytes"] is None)


def _cpu(threads: int, progress: Callable[[str], None] | None) -> dict[str, Any]:
    clock = time.process_time if threads == 1 else time.perf_counter
    works = [*gemm_ceiling.works(threads), *bandwidth_ceiling.works(threads)]
    rates = windows.measure_rates(works, clock, progress)
    return {
        "gemm": gemm_ceiling.records(rates),
        "bandwidth": bandwidth_ceiling.bandwidth_records(rates, threads),
        "exp": bandwidth_ceiling.exp_records(rates),
    }


def _cuda_figures(progress: Callable[[str], None] | None) -> dict[str, Any]:
    from suites.measure import cuda_ceilings

    def said(what: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if progress is not None:
            progress(what)
        return measure()

    return {
        "gemm": said("gemm", cuda_ceilings.gemm_records),
        "bandwidth": said("bandwidth", cuda_ceilings.bandwidth_records),
        "exp": said("exp", cuda_ceilings.exp_records),
    }


def _clock_name(device_name: str, threads: int) -> str:
    if device_name == "cuda":
        return "cuda_event"
    return "cpu_time" if threads == 1 else "wall"


def _file_name(device_name: str, threads: int) -> str:
    """The device's name to read, and a hash of all that the ceilings hang on."""
    name = device.describe(device_name).name
    telling = [
        *(name, threads, version_of("torch"), version_of("numpy"), allocator.policy()),
        *(processor.cpu_count(), processor.instruction_sets(), torch.version.cuda),
    ]
    if onnxruntime_product.is_installed():
        telling.append(version_of("onnxruntime"))
    digest = hashlib.sha256(json.dumps(telling).encode()).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{slug}-torch-{version_of('torch')}-threads-{threads}-{digest}.json"


def _kept(path: Path) -> dict[str, Any] | None:
    """The record of a file, None when it is missing, broken, of another procedure or too old."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        measured = datetime.strptime(record["measured_utc"], "%Y-%m-%dT%H:%M:%SZ")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    age = datetime.now(UTC) - measured.replace(tzinfo=UTC)
    is_whole = {"gemm", "bandwidth", "exp", "contended", "foreign_load"} <= set(record)
    is_valid = record.get("procedure") == PROCEDURE and timedelta(0) <= age <= VALID_FOR
    return record if is_whole and is_valid else None
