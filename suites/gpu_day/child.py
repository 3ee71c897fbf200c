"""One child of the day: started, waited for as long as it may take, and ended with its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from suites.calibrate.launches import checkout_path

POLL_S = 0.05
GRACE_SHARE, MOST_GRACE_S = 0.2, 12.0
"""Of a child's time it is given to end in good order: a run is closed, a file is written."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Ended:
    """How a child ended: its code, that of a signal negative, and whether its time ran out."""

    code: int
    elapsed_s: float
    is_out_of_time: bool


def run(
    command: Sequence[str],
    limit_s: float,
    *,
    out: Path,
    log: Path,
    is_stopping: Callable[[], bool],
    started: Callable[[int], None] = lambda pid: None,
) -> Ended:
    """Run this Python with `command` for `limit_s` at most; stdout to `out`, stderr to `log`.

    Near its limit, or where `is_stopping`, it is interrupted as by Ctrl-C; at the limit it and
    everything in its group is killed. Where this process dies, it is told to end too. `started` is
    told its process id.
    """
    began = time.monotonic()
    grace_s = min(MOST_GRACE_S, GRACE_SHARE * limit_s)
    with out.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=checkout_path(),
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    started(process.pid)
    try:
        is_out_of_time = not _wait(process, began + limit_s - grace_s, is_stopping)
        if is_out_of_time:
            _tell(process, signal.SIGINT)
            _wait(process, min(began + limit_s, time.monotonic() + grace_s), lambda: False)
    finally:
        _kill_group(process)
    return Ended(process.wait(), time.monotonic() - began, is_out_of_time)


def _wait(process: subprocess.Popen[bytes], until: float, is_stopping: Callable[[], bool]) -> bool:
    """Whether it ended by itself before `until`."""
    while process.poll() is None:
        if time.monotonic() >= until or is_stopping():
            return False
        time.sleep(POLL_S)
    return True


def _tell(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _end_with_parent() -> None:
    """A session without its day ends in good order: a supervisor heeds SIGTERM."""
    # An ignored signal is inherited; the child has to hear it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
