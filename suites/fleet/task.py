"""What an engine runs on a node: hold one whole device and have a process measure there."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from suites.fleet.cores import Claim, claimed, whole_cores

GRACE_S = 30.0
"""So long the process may take to end its child when the task is cancelled."""
POLL_S = 0.2
_TAIL_BYTES = 2000


def hold(order: Mapping[str, Any]) -> Iterator[str]:
    """Carry out an order while holding its device; yields what `worker` tells, in JSON.

    The first says what is held. `order["cores"]` are held alone, by this and every other task of
    this user on this machine; without any, the device is the GPU that the engine made visible.
    """
    cores, wanted = whole_cores(os.sched_getaffinity(0)), order["cores"]
    with claimed(wanted, cores) if wanted else nullcontext(Claim((), ())) as claim:
        holds = {
            "node": socket.gethostname(),
            "pid": os.getpid(),
            "cpus": list(claim.cpus),
            "gpus": "" if wanted else os.environ.get("CUDA_VISIBLE_DEVICES", "all"),
            "cores": len(cores),
        }
        yield json.dumps({"holds": holds})
        yield from _carried_out(order, claim)


def _carried_out(order: Mapping[str, Any], claim: Claim) -> Iterator[str]:
    """The lines of the process that measures; it ends with this one, however that ends."""
    home = Path.cwd()
    with (
        tempfile.TemporaryDirectory(prefix="attnbench-", dir=order["scratch"]) as scratch,
        tempfile.TemporaryFile(dir=scratch) as errors,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "suites.fleet.worker"],
            cwd=home,
            env=_environment(order, home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=claim.locks,
        )
        try:
            assert process.stdin is not None and process.stdout is not None
            given = {**order, "parent": os.getpid(), "cpus": list(claim.cpus), "scratch": scratch}
            with process.stdin:
                process.stdin.write(json.dumps(given).encode())
            yield from _lines(process.stdout.fileno())
            if process.wait():
                end = errors.seek(0, os.SEEK_END)
                errors.seek(max(0, end - _TAIL_BYTES))
                told = errors.read().decode(errors="replace").strip().splitlines()
                failure = f"the worker ended with {process.returncode}: {' / '.join(told[-2:])}"
                yield json.dumps({"ended": {"failure": failure, "is_usage": False}})
        finally:
            _end(process)


def _lines(descriptor: int) -> Iterator[str]:
    """Whole lines as they come; Ray interrupts a task only where it does not block."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], POLL_S)[0]:
            continue
        if not (chunk := os.read(descriptor, 1 << 16)):
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode() for line in lines)


def _environment(order: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The shipped code before any other, and as many threads as there are cores."""
    path = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    threads = {"OMP_NUM_THREADS": str(order["threads"])}
    return os.environ | threads | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
