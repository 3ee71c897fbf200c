"""Watching one child to its end: what it finishes, what it is at, how it dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites.measure.journal import row_of
from suites.session.orders import Orders
from suites.supervisor.child import Child
from suites.supervisor.display import Display
from suites.supervisor.request import Request
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping

POLL_S = 0.1
GRACE_S = 15.0
"""So long a child may take to end after Ctrl-C, and a hung one to say where it is."""
DUMP_S = 3.0


@dataclass(frozen=True)
class End:
    """How a child ended.

    Attributes:
        code: its return code; that of a signal is negative.
        is_orderly: it reached its end by itself, whatever the code.
        running: what running.json named then, None without it.
        trying: the implementation it was calling for the first time, and why.
        hung_s: the limit it was killed at, None where it was not.
        last_words: of its output.
        complaint: pytest's own words where it refused to begin.
        planned: the plan's entries, where only they were wanted.
    """

    code: int
    is_orderly: bool
    running: Mapping[str, Any] | None
    trying: tuple[str, str] | None
    hung_s: float | None
    last_words: list[str]
    complaint: str
    planned: list[Mapping[str, Any]] = field(default_factory=list)


class Watch:
    """Starts children one after another and tells what they do; `files` is there once known."""

    def __init__(
        self, request: Request, files: RunFiles | None, display: Display, stopping: Stopping
    ) -> None:
        """Nothing is started yet."""
        self.request, self.files, self.display = request, files, display
        self._stopping = stopping
        self.told: set[str] = set()
        self.children = 0

    def run(self, arguments: tuple[str, ...], orders: Orders) -> End:
        """One child from its start to its end."""
        command = (*self.request.command, *arguments)
        with Child(command, orders, self.request.place) as child:
            end = _Watched(self, child, self._stopping).to_its_end()
        self.children += 1
        return end


class _Watched:
    """One child's life; times are monotonic, so that a clock that is set changes nothing."""

    def __init__(self, watch: Watch, child: Child, stopping: Stopping) -> None:
        self._watch, self._child, self._stopping = watch, child, stopping
        self._trying: tuple[str, str] | None = None
        self._planned: list[Mapping[str, Any]] = []
        self._ended = False
        self._hung_s: float | None = None
        self._at: Any = None
        self._since = time.monotonic()

    def to_its_end(self) -> End:
        while (code := self._child.wait(POLL_S)) is None:
            self._look()
            if self._stopping.is_asked:
                code = self._stop()
                break
            limit_s = self._limit_s()
            if time.monotonic() - self._since > limit_s:
                self._hung_s = limit_s
                self._child.dump()
                code = self._wait(DUMP_S)
                break
        if code is None:
            self._child.kill()
            code = self._child.wait(POLL_S) or 0
        self._look()
        files = self._watch.files
        return End(
            code=code,
            is_orderly=self._ended,
            running=files.running() if files else None,
            trying=self._trying,
            hung_s=self._hung_s,
            last_words=self._child.last_words(),
            complaint=self._child.complaint(),
            planned=self._planned,
        )

    def _stop(self) -> int | None:
        """Hand Ctrl-C on; a second one, or patience at its end, and it is killed."""
        self._child.interrupt()
        return self._wait(GRACE_S, until=lambda: self._stopping.is_urgent)

    def _wait(self, limit_s: float, until: Callable[[], bool] = lambda: False) -> int | None:
        end, code = time.monotonic() + limit_s, None
        while code is None and time.monotonic() < end and not until():
            code = self._child.wait(POLL_S)
        return code

    def _look(self) -> None:
        """Take in what it noted and wrote since the last look."""
        watch = self._watch
        for note in self._child.notes():
            self._heed(note)
        for line in self._child.told():
            if line not in watch.told:
                watch.told.add(line)
                watch.display.line(line)
        self._child.trim()
        if watch.files is None:
            self._moved(("trying", self._trying))
            return
        records = watch.files.grown()
        for record in records:
            watch.display.finished(record)
        running = watch.files.running()
        at = (row_of(running), running.get("pid")) if running else ("trying", self._trying)
        if records:
            self._since = time.monotonic()
        if self._moved(at) and running:
            watch.display.started(watch.files.entries.get(row_of(running), running))

    def _heed(self, note: Mapping[str, Any]) -> None:
        if "run" in note and self._watch.files is None:
            files = self._watch.files = RunFiles(Path(note["run"]))
            self._watch.display.begins(files.entries.values(), 1, files.launches)
        if "trying" in note:
            self._trying = (note["trying"], note["what"])
        if "tried" in note:
            self._trying = None
        if "planned" in note:
            self._planned.append(note["planned"])
        self._ended |= "ended" in note

    def _moved(self, at: Any) -> bool:
        """Whether it is at another thing than at the last look; then its time begins anew."""
        if at == self._at:
            return False
        self._at, self._since = at, time.monotonic()
        return True

    def _limit_s(self) -> float:
        files, request = self._watch.files, self._watch.request
        running = files.running() if files else None
        if files and running:
            return request.limit_s(files.entries.get(row_of(running)))
        return request.limit_s(None) if self._trying else request.quiet_limit_s
