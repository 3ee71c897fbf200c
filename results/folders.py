"""The folders of a store that are runs, each with a stamp that changes when its files do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from results.run_folder import JOURNAL, RUN, RUNNING

# Nanoseconds that a file must have been left alone: file systems count time in steps, some of a
# second, and within one step a file may change twice and show it once.
SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    Attributes:
        stamp: of its files inode, size and times of change, in words; equal stamps, equal files.
        changed_ns: when the last of its files changed, nanoseconds since 1970.
    """

    machine_key: str
    name: str
    location: str
    stamp: str
    changed_ns: int

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.location)

    @cached_property
    def key(self) -> bytes:
        """What tells it from the other runs of its store; names need not be UTF-8."""
        return os.fsencode(f"{self.machine_key}/{self.name}")

    def is_settled(self, now_ns: int) -> bool:
        """Whether the stamp tells all later changes from what is there now.

        A file that changed in the last moment, or by another clock in the future, is not settled.
        """
        return self.changed_ns + SETTLED_NS < now_ns


def run_folders(store: Path) -> list[RunFolder]:
    """Every folder `<machine-key>/<run>` of the store that has a header or a journal, by name.

    What cannot be listed is as if it were not there; a link counts as what it leads to.
    """
    found = [
        folder
        for machine in _folders(str(store))
        for entry in _folders(machine.path)
        if (folder := _run_folder(machine.name, entry.name, entry.path)) is not None
    ]
    return sorted(found, key=lambda folder: (folder.machine_key, folder.name))


def run_folder(path: Path) -> RunFolder | None:
    """The run in this folder; None where there is none."""
    return _run_folder(path.parent.name, path.name, str(path))


def _folders(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from [entry for entry in entries if _is_folder(entry)]
    except OSError:
        return


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # links in a circle


def _run_folder(machine_key: str, name: str, location: str) -> RunFolder | None:
    stats = [_stat(f"{location}/{file}") for file in (RUN, JOURNAL, RUNNING)]
    header, journal, _ = stats
    if header is None and journal is None:
        return None
    there = [stat for stat in stats if stat]
    stamp = "|".join(
        f"{s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" if s else "none" for s in stats
    )
    changed_ns = max(max(s.st_mtime_ns, s.st_ctime_ns) for s in there)
    return RunFolder(machine_key, name, location, stamp, changed_ns)


def _stat(path: str) -> os.stat_result | None:
    try:
        # A Path of each would take as long as asking.
        return os.stat(path)  # noqa: PTH116
    except OSError:
        return None
