"""Whole cores of this machine's CPU, claimed so that no two tasks have one at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 0.1
_TOPOLOGY = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Claim:
    """The CPUs of the claimed cores, and the locks that say so, to be handed to a child."""

    cpus: tuple[int, ...]
    locks: tuple[int, ...]


def siblings_of(cpu: int) -> frozenset[int]:
    """The hardware threads of a CPU's core, itself among them, as Linux tells them."""
    try:
        told = (_TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return frozenset({cpu})
    found: set[int] = set()
    for part in told.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found | {cpu})


def whole_cores(
    allowed: Collection[int], siblings: Callable[[int], frozenset[int]] = siblings_of
) -> list[frozenset[int]]:
    """The cores of the allowed CPUs, each with its hardware threads that are allowed.

    Two threads of a core share its arithmetic units: they are one device.
    """
    return sorted({siblings(cpu) & frozenset(allowed) for cpu in allowed}, key=min)


@contextmanager
def claimed(count: int, cores: list[frozenset[int]], folder: Path | None = None) -> Iterator[Claim]:
    """Hold `count` of the cores, waiting until so many are free.

    A claim is a lock on a file of each core, in `folder`, one for all of a user's fleets; the
    kernel gives it back when its last holder ends, however that ends.

    Raises:
        ValueError: there are not so many.
    """
    if count > len(cores):
        raise ValueError(f"{count} cores are wanted and {len(cores)} are here")
    folder = folder or Path(tempfile.gettempdir()) / f"attnbench-cores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    while True:
        with ExitStack() as held:
            found = _free(count, cores, folder, held)
            if len(found) == count:
                cpus = tuple(sorted(cpu for core, _ in found for cpu in core))
                yield Claim(cpus, tuple(lock for _, lock in found))
                return
        time.sleep(PATIENCE_S)


def _free(
    count: int, cores: list[frozenset[int]], folder: Path, held: ExitStack
) -> list[tuple[frozenset[int], int]]:
    """Up to `count` cores that nobody has, now locked until `held` ends."""
    found = []
    # One at a time: of two that lack a core each, neither would ever have enough.
    with _opened(folder / "claiming") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for core in cores:
            if len(found) == count:
                break
            lock = held.enter_context(_opened(folder / f"cpu{min(core)}"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            found.append((core, lock))
    return found


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
