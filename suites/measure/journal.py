"""The run directory while it is written: one flushed line per finished cell."""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import psutil

from suites.measure.atomic_file import finite, unwritable, write_json
from suites.measure.evidence import thin

CELLS = "cells.jsonl"
RUN = "run.json"
RUNNING = "running.json"
_LOCK = ".lock"
_MOST_SAMPLES = 1000
_ROW = ("suite", "series", "cell")
DECIDED = ("decision", "reason", "estimate_s", "memory_bytes")
"""What the plan's entry of a cell has beside its identity."""


_OPEN: weakref.WeakSet[RunDirectory] = weakref.WeakSet()


class RunDirectory:
    """One run's folder, locked for as long as this object lives.

    A finished cell is on the disk when `append` returns: killing the process later loses nothing
    of it. Use it in a `with` statement, or call `close`.
    """

    def __init__(self, path: Path, lock: int | None = None) -> None:
        """Take the lock of an existing run directory, to start or to resume it.

        `lock` is the file descriptor of one that is held already, by a process that this one
        writes for.

        Raises:
            OSError: the directory cannot be written.
            ValueError: another process is writing this run.
        """
        self.path = path
        self._writer = os.getpid()
        self._lock = _lock(path) if lock is None else os.fdopen(lock, "ab", closefd=False)
        self._is_lent = lock is not None
        _OPEN.add(self)
        try:
            self._cells: IO[bytes] = (path / CELLS).open("ab")
            self._end_broken_line()
        except OSError as error:
            self._lock.close()
            raise unwritable(path / CELLS, error) from error

    @classmethod
    def create(
        cls, store: Path, machine_key: str, commit: str | None, now: datetime | None = None
    ) -> RunDirectory:
        """A new directory `store/<machine-key>/<utc>-<commit>`, `-2` and so on if it is taken."""
        utc = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        name = f"{utc}-{commit[:7] if commit else 'nogit'}"
        parent = store / machine_key
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(parent, error) from error
        n = 1
        while True:
            path = parent / (name if n == 1 else f"{name}-{n}")
            try:
                path.mkdir()
                return cls(path)
            except FileExistsError:
                n += 1
            except OSError as error:
                raise unwritable(path, error) from error

    @property
    def run_id(self) -> str:
        """The run's name: `<utc>-<commit>`."""
        return self.path.name

    def write_run(self, run: Mapping[str, Any]) -> None:
        """Replace `run.json`; numbers that are not finite become null."""
        write_json(self.path / RUN, finite(run)[0])

    @property
    def lock(self) -> int:
        """The file descriptor of the lock, for a child to write this run under it."""
        return self._lock.fileno()

    def start(self, identity: Mapping[str, Any], problem_id: str, launch: int = 1) -> None:
        """Name the cell that is about to be measured, so that a crash is known by name."""
        self._end_copies()
        process = psutil.Process()
        record = {
            **{name: identity[name] for name in (*_ROW, "implementation", "pass")},
            "problem_id": problem_id,
            "launch": launch,
            "pid": process.pid,
            "pid_started": process.create_time(),
            "started_utc": utc_now(),
        }
        write_json(self.path / RUNNING, record)

    def append(self, cell: Mapping[str, Any]) -> None:
        """Put a finished cell on the disk, and take back the note that it is running.

        Raises:
            OSError: the disk refused; what stood in the journal stays, this line is not in it.
        """
        self._end_copies()
        line = (line_of(cell) + "\n").encode()
        length = self._cells.seek(0, os.SEEK_END)
        try:
            self._cells.write(line)
            self._cells.flush()
            os.fsync(self._cells.fileno())
        except OSError as error:
            self._take_back(length)
            raise unwritable(self.path / CELLS, error) from error
        self.finished()

    def finished(self) -> None:
        """No cell is being measured any more."""
        self._end_copies()
        (self.path / RUNNING).unlink(missing_ok=True)

    def close(self) -> None:
        """Give the directory back to others."""
        self._cells.close()
        if not self._lock.closed and not self._is_lent:
            # By name: a process that was started meanwhile may have the lock open still.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_copies(self) -> None:
        """End a process that a kernel forked and that comes here in its parent's place."""
        if os.getpid() != self._writer:
            os._exit(1)

    def _end_broken_line(self) -> None:
        """Set a line that a crash cut off apart from the next one."""
        path = self.path / CELLS
        if path.stat().st_size:
            with path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                is_broken = file.read(1) != b"\n"
            if is_broken:
                self._cells.write(b"\n")
                self._cells.flush()

    def _take_back(self, length: int) -> None:
        """Drop a half-written line, in the buffer and in the file."""
        descriptor = os.open(self.path / CELLS, os.O_WRONLY | os.O_APPEND)
        # The old writer's buffer still holds some of the line, and closing it may write that.
        with suppress(OSError):
            self._cells.close()
        os.truncate(descriptor, length)
        self._cells = os.fdopen(descriptor, "ab")


def row_of(record: Mapping[str, Any]) -> str:
    """Which row of a run's plan an entry, a line of the journal or running.json is about.

    Two series may measure the same cell: each has a row of its own.
    """
    return "/".join(str(record.get(name)) for name in _ROW)


def line_of(cell: Mapping[str, Any]) -> str:
    """One cell as one line of strict JSON.

    Numbers that are not finite become null, each with its reason; samples are thinned evenly.
    """
    timing = cell.get("timing")
    if timing and len(timing.get("samples_s") or ()) > _MOST_SAMPLES:
        cell = {**cell, "timing": {**timing, "samples_s": thin(timing["samples_s"], _MOST_SAMPLES)}}
    record, reasons = finite(cell)
    if reasons:
        record["reasons"] = [*(record.get("reasons") or []), *reasons]
    return json.dumps(record, allow_nan=False, separators=(",", ":"))


def utc_now() -> str:
    """This moment as "2026-11-29T19:30:00Z"."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _let_go() -> None:
    """In a forked copy: it must not keep a run locked when its parent is gone."""
    for directory in list(_OPEN):
        if not directory._lock.closed:
            os.close(directory.lock)


os.register_at_fork(after_in_child=_let_go)


def _lock(path: Path) -> IO[bytes]:
    """The lock of a run directory; the kernel gives it back when the process ends, however."""
    try:
        lock = (path / _LOCK).open("ab")
    except OSError as error:
        raise unwritable(path / _LOCK, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ValueError(
            f"{path} is being written by another process: wait for it, or start a new run"
        ) from None
    return lock
