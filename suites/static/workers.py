"""Two processes that compile side by side, replaced where a compiler aborts or hangs."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from suites.static import worker
from suites.static.interruption import without_interrupts
from suites.static.job import Job, Toolchain

WORKERS = 2
LIMIT_S = 300.0
# A fresh process: the compiler's threads and this one's must not share a fork.
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class _Worker:
    """One process, and the job it has since `started`."""

    process: BaseProcess
    connection: Connection
    job: Job | None = None
    started: float = 0.0


def compiled(
    jobs: Sequence[Job],
    toolchains: Mapping[int, Toolchain],
    *,
    workers: int = WORKERS,
    limit_s: float = LIMIT_S,
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Each job with its journal line, in the order in which they are done.

    A job whose process dies is "crashed", one that takes longer than `limit_s` "timeout".

    Raises:
        Misused: what was asked of a kernel does not fit it.
    """
    left = deque(jobs)
    running: list[_Worker] = []
    try:
        while left or running:
            while left and len(running) < min(workers, len(jobs)):
                running.append(_begun(_started(), left.popleft()))
            ready = wait([w.connection for w in running], timeout=_rest_s(running, limit_s))
            for one in list(running):
                if one.connection in ready:
                    record, is_alive = _answer(one, toolchains)
                elif time.monotonic() - one.started > limit_s:
                    why = f"compiling took longer than {limit_s:g} s"
                    record, is_alive = _line(one, toolchains, "timeout", why), False
                else:
                    continue
                assert one.job is not None
                yield one.job, record
                running.remove(one)
                if is_alive and left:
                    running.append(_begun(one, left.popleft()))
                else:
                    _stopped(one, is_alive)
    finally:
        for one in running:
            _stopped(one, is_alive=False)


def read_toolchains(capabilities: Sequence[int]) -> dict[int, Toolchain]:
    """The toolchain for each architecture, asked of a process of its own.

    Raises:
        ImportError: triton is not installed.
    """
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(
        target=worker.toolchains, args=(list(capabilities), theirs), daemon=True
    )
    with without_interrupts():
        process.start()
    theirs.close()
    try:
        found = ours.recv()
    except EOFError:
        raise ImportError("triton cannot be imported: see above") from None
    finally:
        process.join()
    return found


def _started() -> _Worker:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=worker.serve, args=(theirs,), daemon=True)
    with without_interrupts():
        process.start()
    # Held open here it would keep the end of the process from being seen.
    theirs.close()
    return _Worker(process, ours)


def _begun(one: _Worker, job: Job) -> _Worker:
    one.job, one.started = job, time.monotonic()
    one.connection.send(job)
    return one


def _rest_s(running: Sequence[_Worker], limit_s: float) -> float:
    """Until the next of them reaches its limit."""
    return max(0.0, min(one.started for one in running) + limit_s - time.monotonic()) + 0.01


def _answer(one: _Worker, toolchains: Mapping[int, Toolchain]) -> tuple[dict[str, Any], bool]:
    """The record, and whether the process lives."""
    try:
        answer = one.connection.recv()
    except EOFError:
        one.process.join()
        why = f"the compiler's process ended with exit code {one.process.exitcode}"
        return _line(one, toolchains, "crashed", why), False
    if isinstance(answer, Exception):
        raise answer
    return answer, True


def _line(
    one: _Worker, toolchains: Mapping[int, Toolchain], status: str, why: str
) -> dict[str, Any]:
    """The line of a job that brought nothing, with what of its identity is known without it."""
    job = one.job
    assert job is not None
    build = job.build
    return worker.line_of(
        job,
        toolchains[job.capability],
        job.constants if build is None else build.constants,
        job.block if build is None else build.block,
        worker.failed(status, why),
    ) | {"started_utc": None, "elapsed_s": round(time.monotonic() - one.started, 3)}


def _stopped(one: _Worker, is_alive: bool) -> None:
    if is_alive:
        one.connection.send(None)
    else:
        one.process.kill()
    one.process.join()
    one.connection.close()
