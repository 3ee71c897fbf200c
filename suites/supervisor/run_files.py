"""The run directory as a supervisor sees it: what is measured, what is left, what died."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.measure.journal import CELLS, DECIDED, RUNNING, RunDirectory, row_of, utc_now
from suites.session.run_on_disk import read_header, record_of, text_of

TIMED = ("ok", "wrong")
GIVEN_UP = ("crashed", "timeout")
PATIENCE_S = 2.0


class RunFiles:
    """A run that child processes write, one after another, and their supervisor ends.

    The journal is read as it grows. While no child is alive the supervisor holds the run's lock
    itself; a child inherits it.
    """

    def __init__(self, path: Path) -> None:
        """Of a run that has its run.json; `grown` then reads what is measured already.

        Raises:
            ValueError: that is not one of this schema version.
        """
        self.path = path
        self.header = read_header(path)
        self.entries: dict[str, Mapping[str, Any]] = {row_of(e): e for e in self.header["plan"]}
        self.statuses: dict[tuple[str, int], str] = {}
        self._read = 0
        self._directory: RunDirectory | None = None
        self._seen: tuple[int, int] | None = None
        self._running: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The run's own name."""
        return self.path.name

    @property
    def launches(self) -> int:
        """How many launches were wanted when it was begun."""
        return int(self.header.get("launches", 1))

    def lock(self) -> int:
        """The file descriptor of the run's lock, taken now where it was not.

        From then on nobody else writes: what others wrote until then is known.

        Raises:
            ValueError: another process writes this run.
            OSError: it may only be read.
        """
        # A child whose supervisor was killed is killed with it, in a moment.
        patient_until = time.monotonic() + PATIENCE_S
        while self._directory is None:
            try:
                self._directory = RunDirectory(self.path)
                self.grown()
            except ValueError:
                if time.monotonic() > patient_until:
                    raise
                time.sleep(0.05)
        return self._directory.lock

    def grown(self) -> list[dict[str, Any]]:
        """The journal's lines since the last call: whole ones, in their order."""
        journal = self.path / CELLS
        if not journal.exists():
            return []
        if journal.stat().st_size < self._read:
            # A line that the disk refused was taken back.
            self._read = 0
        with journal.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        lines = whole.decode("utf-8", errors="replace").split("\n")
        records = [record for line in lines if (record := record_of(line))]
        for record in records:
            self.statuses[row_of(record), record.get("launch", 1)] = str(record.get("status"))
        return records

    def left(self, launch: int) -> list[str]:
        """The rows of the plan that a launch lacks, in the plan's order.

        A later launch repeats what the first one timed.
        """
        left = [row for row in self.entries if (row, launch) not in self.statuses]
        if launch > 1:
            left = [row for row in left if self.statuses.get((row, 1)) in TIMED]
        return left

    def give_another_chance(self) -> None:
        """Count cells that crashed or timed out as left; their next line will stand."""
        self.statuses = {k: s for k, s in self.statuses.items() if s not in GIVEN_UP}

    def running(self) -> Mapping[str, Any] | None:
        """What running.json says, read anew only when it changed; None without one."""
        file = self.path / RUNNING
        try:
            told = file.stat()
        except FileNotFoundError:
            self._seen = self._running = None
            return None
        seen = (told.st_ino, told.st_mtime_ns)
        if seen != self._seen:
            self._seen, self._running = seen, record_of(text_of(file))
        return self._running

    def judge(self, row: str, launch: int, status: str, reasons: Sequence[str]) -> dict[str, Any]:
        """Write the line of a cell that no process lived to write; → that line.

        Raises:
            OSError: the disk refused.
        """
        identity = {k: v for k, v in self.entries[row].items() if k not in DECIDED}
        record = {
            "schema": 1,
            **identity,
            "settings_version": self.header["settings"]["settings_version"],
            "launch": launch,
            "started_utc": (self.running() or {}).get("started_utc"),
            "status": status,
            "reasons": list(reasons),
            "flags": [],
            "timing": None,
        }
        self.append(record)
        return record

    def append(self, record: Mapping[str, Any]) -> None:
        """Put the line of a finished cell into the journal, where no child writes it.

        Raises:
            OSError: the disk refused.
        """
        self._held().append(record)
        self.grown()

    def forget_running(self) -> None:
        """Take back the note of a cell that will be tried again."""
        (self.path / RUNNING).unlink(missing_ok=True)

    def check_writable(self) -> None:
        """Try the disk before a child measures for it.

        Raises:
            OSError: it is full, or may only be read.
        """
        self._held().write_run(self._ended(is_interrupted=False) | {"finished_utc": None})

    def finish(self, is_interrupted: bool) -> None:
        """Write the run's end and give the directory back.

        Raises:
            OSError: the disk refused; the journal stands.
        """
        directory = self._held()
        directory.finished()
        directory.write_run(self._ended(is_interrupted))

    def close(self) -> None:
        """Give the directory back to others."""
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    @property
    def counts(self) -> dict[str, int]:
        """Cells of all launches by status."""
        return dict(Counter(self.statuses.values()))

    def _held(self) -> RunDirectory:
        self.lock()
        assert self._directory is not None
        return self._directory

    def _ended(self, is_interrupted: bool) -> dict[str, Any]:
        return {
            **self.header,
            "launches": self.launches,
            "finished_utc": utc_now(),
            "interrupted": is_interrupted,
            "counts": self.counts,
        }
