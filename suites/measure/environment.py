"""The environment of a run, and the key of the machine: what makes timings incomparable."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from suites.measure import allocator, container_limits, device, processor, trust
from suites.measure.spoilers import spoilers

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class _Known:
    """What is read once and feeds several fields."""

    facts: device.DeviceFacts
    fixed: Mapping[str, Any]
    git: tuple[str | None, bool | None]


@dataclass(frozen=True)
class Field:
    """One fact of the environment; `is_key` when runs that differ in it cannot be compared."""

    name: str
    is_key: bool
    read: Callable[[_Known], Any]


FIELDS: tuple[Field, ...] = (
    Field("device", True, lambda known: known.facts.device),
    Field("cpu_model", True, lambda _: processor.cpu_model()),
    Field("cpu_count", True, lambda _: processor.cpu_count()),
    Field("instruction_sets", True, lambda _: processor.instruction_sets()),
    Field("gpu_name", True, lambda known: _gpu(known, known.facts.name)),
    Field("gpu_count", True, lambda known: known.facts.count),
    Field("gpu_is_mig", True, lambda known: known.fixed.get("is_mig")),
    Field("gpu_power_cap_w", True, lambda known: known.fixed.get("power_cap_w")),
    Field("driver_major", True, lambda known: _major(known.fixed.get("driver"))),
    Field("cuda", True, lambda _: torch.version.cuda),
    Field("torch", True, lambda _: version_of("torch")),
    Field("triton", True, lambda _: version_of("triton")),
    Field("ptxas", True, lambda _: _ptxas()),
    Field("python_minor", True, lambda _: "{}.{}".format(*sys.version_info)),
    Field("threads", True, lambda _: torch.get_num_threads()),
    Field("float32_matmul_precision", True, lambda _: torch.get_float32_matmul_precision()),
    Field("allocator", True, lambda _: allocator.policy()),
    Field("container", True, lambda _: processor.container()),
    Field("python", False, lambda _: platform.python_version()),
    Field("xformers", False, lambda _: version_of("xformers")),
    Field("numpy", False, lambda _: version_of("numpy")),
    Field("pytest_benchmark", False, lambda _: version_of("pytest-benchmark")),
    Field("blas", False, lambda _: _blas()),
    Field("commit", False, lambda known: known.git[0]),
    Field("dirty", False, lambda known: known.git[1]),
    Field("repository", False, lambda known: repository() if known.git[0] else None),
    Field("omp_num_threads", False, lambda _: os.environ.get("OMP_NUM_THREADS")),
    Field("cpu_mhz", False, lambda _: processor.mhz()),
    Field("governor", False, lambda _: processor.governor()),
    Field("cache_bytes", False, lambda _: {f"L{n}": b for n, b in processor.cache_bytes().items()}),
    Field("memory_bytes", False, lambda _: processor.memory_bytes()[0]),
    Field("gpu_memory_bytes", False, lambda known: _gpu(known, known.facts.memory_total_bytes)),
    Field("gpu_l2_bytes", False, lambda known: _gpu(known, known.facts.l2_bytes)),
    Field("compute_capability", False, lambda known: _dotted(known.facts.compute_capability)),
    Field("driver", False, lambda known: known.fixed.get("driver")),
    Field("throttle_reasons", False, lambda known: known.fixed.get("throttle_reasons")),
    Field("system", False, lambda _: platform.system()),
    Field("kernel", False, lambda _: platform.release()),
    Field("hostname", False, lambda _: socket.gethostname()),
    Field("folder", False, lambda _: str(Path.cwd())),
    Field("load_1min", False, lambda _: os.getloadavg()[0]),
    Field("steal_s", False, lambda _: processor.steal_s()),
    Field("context_switches", False, lambda _: psutil.cpu_stats().ctx_switches),
    Field("cpu_quota", False, lambda _: container_limits.read().cpus),
    Field("memory_limit_bytes", False, lambda _: container_limits.read().memory_bytes),
    Field("swap_used_bytes", False, lambda _: psutil.swap_memory().used),
    Field("gpu_other_processes", False, lambda known: trust.read(known.facts.device).others),
    Field("warnings", False, lambda _: _warnings()),
)


def read_environment(device_name: str = "cpu") -> dict[str, Any]:
    """Every field of the environment of a run on "cpu" or "cuda"; None where unknown.

    Read at run time, after threads and allocator are set. Optional libraries are not imported:
    their versions come from their metadata.
    """
    known = _Known(device.describe(device_name), device.fixed_state(device_name), checkout())
    return {field.name: field.read(known) for field in FIELDS}


def machine_key(environment: Mapping[str, Any]) -> str:
    """12 hex digits of the fields that make timings incomparable when they differ."""
    telling = {field.name: environment.get(field.name) for field in FIELDS if field.is_key}
    canonical = json.dumps(telling, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def checkout(root: Path = ROOT) -> tuple[str | None, bool | None]:
    """The commit of the checkout and whether files differ from it; (None, None) without git."""
    git = _git(root)
    commit = _output(*git, "rev-parse", "--verify", "HEAD")
    inside = _output(*git, "rev-parse", "--show-toplevel")
    if not commit or not inside or Path(inside).resolve() != root.resolve():
        return None, None
    changes = _output(*git, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def repository(root: Path = ROOT) -> str | None:
    """Where others find the commit, as "github.com/owner/name"; None if it was not pushed.

    Host and path of the remote that is called origin: no user, no password, no path of a disk.
    """
    git = _git(root)
    if not _output(*git, "branch", "--remotes", "--contains", "HEAD", "--list", "origin/*"):
        return None
    url = _output(*git, "remote", "get-url", "origin") or ""
    place = r"(?:\w+://)?(?:[^/\s]*@)?([\w.-]+\.\w+)(?::\d+(?=/))?[:/]+([^@\s]+?)(?:\.git)?/*"
    told = re.fullmatch(place, url)
    return f"{told[1]}/{told[2]}" if told else None


def _git(root: Path) -> tuple[str, ...]:
    # In a container the files are often another user's, of which git says nothing unless told to.
    return ("git", "-c", f"safe.directory={root}", "-C", str(root))


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, None when it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _warnings() -> list[str]:
    """What the user should know before believing the numbers."""
    warnings = []
    told = os.environ.get("OMP_NUM_THREADS")
    if told is not None:
        first = told.split(",")[0].strip()
        if not first.isdecimal() or int(first) == 0:
            threads = torch.get_num_threads()
            warnings.append(
                f'OMP_NUM_THREADS="{told}" is not a number of threads: torch uses {threads}'
            )
    precision = torch.get_float32_matmul_precision()
    if precision != "highest":
        warnings.append(
            f'float32_matmul_precision is "{precision}": products of float32 are rounded to TF32 '
            "or bfloat16, and are no float32 results"
        )
    return [*warnings, *spoilers(os.environ).values()]


def _blas() -> str | None:
    """The BLAS torch was built with, and oneDNN where it is there."""
    told = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    names = [told[1]] if told else []
    names += ["onednn"] if torch.backends.mkldnn.is_available() else []
    return " ".join(names) or None


def _ptxas() -> str | None:
    """The version of the assembler Triton would use, None without one."""
    path = os.environ.get("TRITON_PTXAS_PATH")
    if path is None:
        found = importlib.util.find_spec("triton")
        if found is None or found.origin is None:
            return None
        path = str(Path(found.origin).parent / "backends" / "nvidia" / "bin" / "ptxas")
    told = re.search(r"V([\d.]+)", _output(path, "--version") or "")
    return told[1] if told else None


def _output(*command: str) -> str | None:
    """What a command printed, stripped; None when it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _gpu(known: _Known, value: Any) -> Any:
    return value if known.facts.device == "cuda" else None


def _major(version: str | None) -> int | None:
    return int(version.split(".")[0]) if version else None


def _dotted(numbers: tuple[int, int] | None) -> str | None:
    return ".".join(map(str, numbers)) if numbers else None
