"""One child process: started with its orders, waited for, and ended with all it started."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suites.session.orders import VARIABLE, Orders
from suites.supervisor.last_words import last_words
from suites.supervisor.request import Place

_TAIL_BYTES = 64 << 10
_MOST_OUTPUT_BYTES = 64 << 20
_WITHOUT_PIDFD_S = 0.01
_NONE_LEFT = re.compile(r"collected (\d+) items? / \1 deselected / 0 selected")


class Child:
    """A process that measures; use it in a `with` statement, which ends it."""

    def __init__(self, command: Sequence[str], orders: Orders, place: Place | None = None) -> None:
        """Start `command` with `orders`; the run's lock, if they have one, is inherited."""
        place = place or Place()
        self._folder = tempfile.TemporaryDirectory(prefix="attnbench-")
        folder = Path(self._folder.name)
        self._notes, self._output = folder / "notes", folder / "output"
        self._read = 0
        self._notes.touch()
        orders = replace(orders, notes=str(self._notes), supervisor=os.getpid())
        orders.write(folder / "orders")
        environment = os.environ | dict(place.variables)
        path = [str(place.root), *filter(None, [environment.get("PYTHONPATH")])]
        environment |= {
            VARIABLE: str(folder / "orders"),
            "PYTHONPATH": os.pathsep.join(path),
            # What a kernel printed before it crashed, and where it was.
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
        }
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=place.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[] if orders.lock is None else [orders.lock],
            )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None

    def wait(self, limit_s: float) -> int | None:
        """The return code as soon as it has one (a signal's is negative), None after `limit_s`."""
        end = time.monotonic() + limit_s
        if self._pidfd is not None:
            select.select([self._pidfd], [], [], limit_s)
        while not self._has_ended():
            if time.monotonic() >= end:
                return None
            time.sleep(_WITHOUT_PIDFD_S)
        # While it is a zombie its number is nobody else's.
        self._kill_session()
        return self._process.wait()

    def notes(self) -> list[dict[str, Any]]:
        """What it told since the last call."""
        with self._notes.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def last_words(self) -> list[str]:
        """The telling lines of the end of its output."""
        return last_words(self._tail())

    def told(self) -> list[str]:
        """The lines of its output that are meant for the user."""
        lines = self._tail().splitlines()
        return [line.removeprefix("attnbench: ") for line in lines if line[:11] == "attnbench: "]

    def complaint(self) -> str:
        """Why pytest refused to start: its own words, and not what we told of a kernel's error."""
        lines = [line.strip() for line in self._tail().splitlines() if line.strip()]
        lines = [line for line in lines if line[:11] != "attnbench: "]
        refused = [line.partition(": error: ")[2] for line in lines if ": error: " in line]
        if refused:
            return refused[0]
        errors = [line for line in lines if line.startswith(("ERROR: ", "E   "))]
        if not errors and (none := next(filter(None, map(_NONE_LEFT.fullmatch, lines)), None)):
            return f"0 cells would be measured: -k or -m leaves none of {none[1]}"
        errors = [line.removeprefix("ERROR: attnbench: ") for line in errors]
        # What stands below it is pytest's summing up, and how to see a whole traceback.
        said = [line for line in lines if not line.startswith(("=", "("))]
        return " ".join((errors or said[-1:] or ["it said nothing"])[:3])

    def trim(self) -> None:
        """Drop what it printed where that fills the disk; new lines go to the file's new end."""
        if self._output.stat().st_size > _MOST_OUTPUT_BYTES:
            os.truncate(self._output, 0)

    def interrupt(self) -> None:
        """Ask it to end as Ctrl-C does."""
        self._signal(signal.SIGINT)

    def dump(self) -> None:
        """Ask it to say where it is and die of that; a hung native call may not listen."""
        self._signal(signal.SIGABRT)

    def kill(self) -> None:
        """End it and everything it started in its session."""
        if self._process.returncode is None:
            self._kill_session()
            self._process.wait()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._folder.cleanup()

    def _has_ended(self) -> bool:
        if self._process.returncode is not None:
            return True
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, options) is not None

    def _kill_session(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self._has_ended():
            os.kill(self.pid, number)

    def _tail(self) -> str:
        with self._output.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
