"""One day: its steps one after another, each told on disk before the next, and an end in time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suites.gpu_day import child
from suites.gpu_day.phases import MINUTES, Form, Phase, Step
from suites.gpu_day.schedule import ends_s
from suites.measure.atomic_file import write_json
from suites.measure.journal import utc_now
from suites.supervisor.last_words import last_words
from suites.supervisor.stopping import Stopping

WRONG, BROKEN = 1, 5
LATE_S = 3.0
"""So long after its last minute a day that still runs is ended by force."""
LEAST_S = 1.0


@dataclass
class Day:
    """What a day does and did; `record` is day.json, written anew after each step."""

    form: Form
    phases: Sequence[Phase]
    tell: Callable[[str], None]
    record: dict[str, Any] = field(default_factory=dict)
    _child: int | None = None

    def run(self) -> int:
        """Go through all phases, whatever becomes of one; → exit code."""
        began = time.monotonic()
        total_s = 60 * self.form.minutes
        steps = [(phase, step) for phase in self.phases for step in phase.steps]
        ends = ends_s([step.share_s for _, step in steps], total_s, 60 * MINUTES)
        self.record = self._planned()
        with self._watchdog(total_s + LATE_S), Stopping() as stopping:
            self._write()
            for (phase, step), end_s in zip(steps, ends, strict=True):
                if stopping.is_asked:
                    break
                limit_s = end_s - (time.monotonic() - began)
                self.tell(f"{phase.name}: {step.name}, {max(0.0, limit_s):.0f} s at most")
                done = self._step(phase, step, limit_s, lambda: stopping.is_asked)
                self.tell(f"{phase.name}: {step.name}: {done['status']}{_because(done)}")
            code = stopping.exit_code if stopping.is_asked else self._code()
        elapsed_s = round(time.monotonic() - began, 3)
        self.record |= {"finished_utc": utc_now(), "elapsed_s": elapsed_s, "exit_code": code}
        self._write()
        return code

    def _planned(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "created_utc": utc_now(),
            "device": self.form.device,
            "is_dry": self.form.is_dry,
            "minutes": self.form.minutes,
            "phases": [
                {"phase": phase.name, "title": phase.title, "steps": []} for phase in self.phases
            ],
        }

    def _step(
        self, phase: Phase, step: Step, limit_s: float, is_stopping: Callable[[], bool]
    ) -> Mapping[str, Any]:
        """One step, to its end or its limit; its line of the record is on disk after it."""
        number = self.phases.index(phase)
        folder = self.form.folder / f"{number + 1}-{phase.name}"
        told: dict[str, Any] = {"step": step.name, "share_s": step.share_s}
        if step.unless is not None:
            told |= {"status": "not measured", "reason": step.unless}
        elif limit_s < LEAST_S:
            told |= {"status": "not begun", "reason": "no time was left"}
        else:
            folder.mkdir(parents=True, exist_ok=True)
            out, log = folder / f"{step.name}.json", folder / f"{step.name}.log"
            self._write(running=f"{phase.name}: {step.name}")
            ended = child.run(
                step.command,
                limit_s,
                out=out,
                log=log,
                is_stopping=is_stopping,
                started=self._note_child,
            )
            self._child = None
            told |= {
                "command": ["python", *step.command],
                "limit_s": round(limit_s, 3),
                "elapsed_s": round(ended.elapsed_s, 3),
                "code": ended.code,
                "result": str(out.relative_to(self.form.folder)),
                "log": str(log.relative_to(self.form.folder)),
                **_verdict(step, ended, _text(log), has_result=out.stat().st_size > 0),
                **_said(out),
            }
        self.record["phases"][number]["steps"].append(told)
        self._write()
        return told

    def _code(self) -> int:
        statuses = {s["status"] for phase in self.record["phases"] for s in phase["steps"]}
        if "wrong" in statuses:
            return WRONG
        return BROKEN if statuses & {"failed", "cut short", "not begun"} else 0

    def _write(self, running: str | None = None) -> None:
        write_json(self.form.folder / "day.json", {**self.record, "running": running})

    def _note_child(self, pid: int) -> None:
        self._child = pid

    @contextlib.contextmanager
    def _watchdog(self, limit_s: float) -> Iterator[None]:
        """End this process and its child at the limit, whatever holds it up."""

        def bite() -> None:
            if self._child is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child, signal.SIGKILL)
            os._exit(BROKEN)

        timer = threading.Timer(limit_s, bite)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _verdict(step: Step, ended: child.Ended, log: str, *, has_result: bool) -> dict[str, Any]:
    """The status of a step that was run, and the reason where it is not "done".

    Python ends with 1 where something raised, as a command does where a result is wrong: but then
    there is a result.
    """
    if ended.is_out_of_time:
        if step.is_open_ended:
            return {"status": "stopped", "reason": "its time was over; what it finished is kept"}
        return {"status": "cut short", "reason": f"its time was over after {ended.elapsed_s:.0f} s"}
    if ended.code in step.fine:
        return {"status": "done"}
    words = " / ".join(last_words(log)[-2:]) or "it said nothing"
    if ended.code in step.wrong and has_result:
        return {"status": "wrong", "reason": words}
    return {"status": "failed", "reason": f"exit code {ended.code}: {words}"}


def _said(out: Path) -> dict[str, str]:
    """The one sentence that a result has to say for itself, where it has one."""
    with contextlib.suppress(ValueError):
        told = json.loads(_text(out))
        if isinstance(told, dict) and isinstance(told.get("told"), str):
            return {"told": told["told"]}
    return {}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _because(done: Mapping[str, Any]) -> str:
    words = [done[name] for name in ("told", "reason") if done.get(name)]
    return f" ({'; '.join(words)})" if words else ""
