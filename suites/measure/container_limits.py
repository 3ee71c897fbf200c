"""What a container, or a service's slice, lets this process have: control groups 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Version 1 writes "no limit" as the largest number of pages there can be.
_NO_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True)
class Limits:
    """Of all groups around this process the narrowest; None where there is no limit.

    Attributes:
        cpus: CPU seconds a second; above them the kernel stops the process for some ms.
        memory_bytes: above them it is killed.
        memory_free_bytes: what is left of them.
        throttled: how often the kernel stopped a process of the group for its quota.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    throttled: int | None = None


def read(root: Path = Path("/")) -> Limits:
    """The limits as the files below `root` have them (proc/self/cgroup, sys/fs/cgroup)."""
    cpus: list[float] = []
    memory: list[tuple[int, int]] = []
    throttled: list[int] = []
    for folder in _groups(root):
        cpus += _cpus(folder)
        memory += _memory(folder)
        throttled += _numbers(folder / "cpu.stat", "nr_throttled")
    return Limits(
        cpus=min(cpus, default=None),
        memory_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((max(0, limit - used) for limit, used in memory), default=None),
        throttled=max(throttled, default=None),
    )


def _groups(root: Path) -> Iterator[Path]:
    """The folders of every group this process is in, and of those around them.

    In a container the path is often the host's, and its own group is mounted at the top.
    """
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup"
        for name in controllers.split(",") if controllers else [""]:
            top = mount / name if name else mount
            inner = top / path.lstrip("/")
            yield from dict.fromkeys(
                folder for folder in (inner, *inner.parents, top) if folder.is_relative_to(top)
            )


def _cpus(folder: Path) -> list[float]:
    told = (_text(folder / "cpu.max") or "").split()
    if len(told) == 2 and told[0] != "max":
        return [int(told[0]) / int(told[1])]
    quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    return [int(quota) / int(period)] if quota and period and int(quota) > 0 else []


def _memory(folder: Path) -> list[tuple[int, int]]:
    """(limit, used) in bytes; what is cached of files, and can be dropped, is not used."""
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _text(folder / limit), _text(folder / used)
        if most and now and most != "max" and int(most) < _NO_LIMIT_BYTES:
            droppable = sum(_numbers(folder / "memory.stat", cached))
            return [(int(most), max(0, int(now) - droppable))]
    return []


def _numbers(file: Path, name: str) -> list[int]:
    """The number beside a name in a file of "name number" lines; none without it."""
    lines = (line.split() for line in (_text(file) or "").splitlines())
    return [int(words[1]) for words in lines if len(words) == 2 and words[0] == name]


def _text(path: Path) -> str | None:
    try:
        # A group may have any name.
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return None
