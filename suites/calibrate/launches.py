"""Several launches of one plan in a process of their own, and how far they are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from suites.supervisor.request import ROOT


@dataclass(frozen=True)
class Outcome:
    """How the launches ended: an exit code, and the run if there is one.

    `cells_left` counts what its launches still lack.
    """

    code: int
    path: Path | None = None
    cells_left: int = 0


def checkout_path() -> dict[str, str]:
    """The environment of a process that finds our packages from any folder."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path}


def measure(arguments: Sequence[str]) -> Outcome:
    """Run `python -m suites` so and tell on stderr what it does → the outcome.

    Ctrl-C reaches both processes: this one waits until the other has put its run in order.
    """
    command = [sys.executable, "-m", "suites", *arguments]
    told = Told(sys.stderr)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # An ignored signal is inherited; the child has to hear it.
        with subprocess.Popen(
            command,
            env=checkout_path(),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:
            for line in process.stdout or ():
                told.take(json.loads(line))
    finally:
        signal.signal(signal.SIGINT, before)
    return told.outcome(process.returncode)


class Told:
    """Turns events of a supervised run into lines: what will be done, how long, how it ended."""

    def __init__(self, stream: TextIO) -> None:
        """Nothing has happened."""
        self._stream = stream
        self._ended: Mapping[str, Any] | None = None
        self._launches = 0
        self._since = time.monotonic()

    def take(self, event: Mapping[str, Any]) -> None:
        """Tell what one event is about; single cells are told only where they are not ok."""
        kind = event["event"]
        if kind == "launch":
            self._begin(event)
        elif kind == "notice":
            self._line(event["text"])
        elif kind == "died":
            self._line(f"{event['what']}: {event['cause']}: {event['then']}")
        elif kind == "finished" and event["status"] in ("wrong", "error", "crashed", "timeout"):
            why = "; ".join(event["reasons"][:1])
            self._line(f"{event['implementation']} {event['problem_id']}: {event['status']}: {why}")
        elif kind == "ended":
            self._ended = event

    def outcome(self, code: int) -> Outcome:
        """What is left once the process has ended."""
        if self._ended is None:
            return Outcome(code)
        return Outcome(code, Path(self._ended["path"]), self._ended["cells_left"])

    def _begin(self, event: Mapping[str, Any]) -> None:
        launch, launches = event["launch"], event["launches"]
        left = launches - launch + 1
        took_s = time.monotonic() - self._since
        # The first launch is planned; of those after it the last one tells.
        each_s = took_s if self._launches else event["estimate_s"]
        total = _duration(left * each_s)
        if not self._launches:
            cells = f"{event['cells']} cells planned, about {_duration(each_s)} each"
            self._line(f"{left} launches of one plan: {cells}, {total} in all")
        else:
            self._line(f"launch {launch} of {launches}: {total} left")
        self._launches += 1
        self._since = time.monotonic()

    def _line(self, text: str) -> None:
        print(f"attnbench: {text}", file=self._stream, flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
