"""The process that compiles: it takes jobs and sends back journal lines, until it is told to stop.

A compiler may abort, hang or print whatever it likes: that is why it runs in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import IO, Any

from suites.static.job import Job, Toolchain, identity

# Of what compilers print beside their message, the end tells why.
_PRINTED_LINES = 12


def serve(connection: Connection) -> None:
    """Compile jobs from `connection` until None comes; answer with records or `Misused`."""
    os.environ.pop("TRITON_INTERPRET", None)
    # Paths and line numbers of the source would be in the code, and in its hash.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    while (job := connection.recv()) is not None:
        from suites.static.compiler import Misused

        try:
            connection.send(record_of(job))
        except Misused as error:
            connection.send(error)


def toolchains(capabilities: list[int], connection: Connection) -> None:
    """Send the toolchain of each architecture, by capability."""
    from suites.static.compiler import toolchain_of

    connection.send({capability: toolchain_of(capability) for capability in capabilities})


def record_of(job: Job) -> dict[str, Any]:
    """The journal line of one job, whatever the compiler made of it.

    Raises:
        Misused: what was asked does not fit the kernel.
    """
    from suites.static.brought import brought_build, brought_kernel
    from suites.static.compiler import Refused, compile_kernel, shipped_kernel, toolchain_of
    from suites.static.profile import profile_of

    started, started_utc = time.perf_counter(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    toolchain = toolchain_of(job.capability)
    with _printed() as printed:
        if job.build is not None:
            function, build = shipped_kernel(job.kernel), job.build
        else:
            function = brought_kernel(job.kernel)
            build = brought_build(function, job)
        try:
            compiled = compile_kernel(function, build, job.dtype, job.capability)
            found = profile_of(compiled, build, job.capability)
        except Refused as error:
            found = failed("error", _told(str(error), printed))
    record = line_of(job, toolchain, build.constants, build.block, found)
    return record | {
        "started_utc": started_utc,
        "elapsed_s": round(time.perf_counter() - started, 3),
    }


def line_of(
    job: Job, toolchain: Toolchain, constants: Any, block: Any, found: dict[str, Any]
) -> dict[str, Any]:
    """A journal line: schema, identity and what was found."""
    return {
        "schema": 1,
        "kind": "static",
        **identity(job, toolchain, constants, block),
        "origin": job.origin,
        "is_default": job.is_default,
        **found,
    }


def failed(status: str, reason: str) -> dict[str, Any]:
    """What is found of a kernel that has no code."""
    return {
        "status": status,
        "reasons": [reason],
        "resources": None,
        "hot_loop": None,
        "other_loops": [],
        "bound": None,
        "expected": {},
    }


@contextlib.contextmanager
def _printed() -> Iterator[IO[str]]:
    """Whatever is printed meanwhile, by Python or by libraries below it, goes into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        kept = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])


def _told(message: str, printed: IO[str]) -> str:
    """The compiler's message, and the errors it printed where the message tells nothing of them."""
    printed.seek(0)
    errors = [line.strip() for line in printed if "error" in line.lower()]
    fresh = [line for line in dict.fromkeys(errors) if line not in message]
    return "\n".join([message, *fresh[-_PRINTED_LINES:]])
