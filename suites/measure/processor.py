"""What Linux says of the processor, its caches, the memory and the container around us."""

from __future__ import annotations

import os
import platform
import re
from functools import lru_cache
from pathlib import Path

from suites.measure import container_limits

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

# The instruction sets that change what a matrix product or an exponential costs.
_TELLING_FLAGS = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni"),
    *("avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_bf16", "amx_int8", "amx_fp16"),
    *("asimd", "asimddp", "asimdhp", "bf16", "fphp", "i8mm", "sve", "sve2", "sme"),
)


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The processor's name, "unknown" if nobody tells it."""
    for key in ("model name", "Model", "cpu"):
        if name := _cpuinfo().get(key):
            return name
    return platform.processor() or platform.machine() or "unknown"


def cpu_count() -> int:
    """The logical CPUs this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def instruction_sets() -> str:
    """The architecture and its telling extensions, as "x86_64 avx2 avx512f"."""
    told = _cpuinfo().get("flags") or _cpuinfo().get("Features") or ""
    present = set(told.split())
    return " ".join([platform.machine(), *(f for f in _TELLING_FLAGS if f in present)])


@lru_cache(maxsize=1)
def cache_bytes() -> dict[int, int]:
    """Bytes of each data cache level one core sees, by level; empty where unknown."""
    found: dict[int, int] = {}
    for index in sorted(_CACHES.glob("index*")):
        if _text(index / "type") in ("Data", "Unified"):
            level, size = _text(index / "level"), _text(index / "size")
            if level and level.isdecimal() and (n_bytes := _size_bytes(size)):
                found[int(level)] = n_bytes
    return found


def l2_bytes() -> int | None:
    """Bytes of the second-level cache, None where unknown."""
    return cache_bytes().get(2)


def llc_bytes() -> int | None:
    """Bytes of the last-level cache, None where unknown."""
    return cache_bytes()[max(cache_bytes())] if cache_bytes() else None


def mhz() -> float | None:
    """The clock of the first core now, None where unknown."""
    _cpuinfo.cache_clear()
    told = _cpuinfo().get("cpu MHz")
    return float(told) if told else None


def governor() -> str | None:
    """The frequency governor of the first core, None where there is none."""
    return _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))


def memory_bytes() -> tuple[int | None, int | None]:
    """Bytes of memory in all and available, each None where unknown.

    In a container that is limited, those of the limit: beyond it the process is killed.
    """
    limits = container_limits.read()
    total, free = _machine_memory_bytes()
    return _least(total, limits.memory_bytes), _least(free, limits.memory_free_bytes)


def _least(*known: int | None) -> int | None:
    return min((n for n in known if n is not None), default=None)


def _machine_memory_bytes() -> tuple[int | None, int | None]:
    told = dict(re.findall(r"^(\w+):\s+(\d+) kB", _text(Path("/proc/meminfo")) or "", re.M))
    total, free = told.get("MemTotal"), told.get("MemAvailable")
    return int(total) * 1024 if total else None, int(free) * 1024 if free else None


def steal_s() -> float | None:
    """Seconds all CPUs together waited for the hypervisor since boot, None where unknown."""
    fields = (_text(Path("/proc/stat")) or "").partition("\n")[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else None


def container() -> str:
    """The kind of container around this process, "none" when no trace of one is seen."""
    # systemd and podman set it, in lower case.
    if named := os.environ.get("container"):  # noqa: SIM112
        return named
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    groups = _text(Path("/proc/1/cgroup")) or ""
    for mark, kind in (("kubepods", "kubernetes"), ("docker", "docker"), ("lxc", "lxc")):
        if mark in groups:
            return kind
    return "none"


@lru_cache(maxsize=1)
def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor."""
    first = (_text(Path("/proc/cpuinfo")) or "").partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _size_bytes(text: str | None) -> int | None:
    """Bytes of a size as the kernel writes it: "1024K" or "32M"."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text or "")
    if match is None:
        return None
    return int(match[1]) * 1024 ** " KMG".index(match[2] or " ")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
