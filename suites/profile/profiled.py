"""One cell called again and again under torch's profiler, after it was warmed up and proven."""

from __future__ import annotations

import gzip
import os
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from impls.interface.check import Check
from suites.measure.counters import compilations
from suites.profile.dispatched import dispatched
from suites.profile.kernels import ANNOTATION, Table, table
from suites.session.cell import time_limit
from suites.session.subject import Call, SubjectMemory
from suites.session.sweep import Cell

LEAST_CALLS, MOST_CALLS, CALLS_S = 3, 20, 0.4
WARM_CALLS, WARM_S = 2, 0.2
COMPILE_LIMIT_S = 120.0

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Profiled:
    """What a profile of `calls` calls found, each after `warm_up` calls that are not in it.

    `plain_s` is the median wall of a call without the profiler; `page_faults` are those of such a
    call. `check` is of the same call, against float64.
    """

    table: Table
    calls: int
    warm_up: int
    plain_s: float
    page_faults: float
    check: Check


class Ready:
    """A cell that has been called and is warm: what instruments look at."""

    def __init__(self, cell: Cell, device: str, tell: Tell) -> None:
        """Inputs, reference, first call, warm-up and proof: none of it is profiled.

        Raises:
            Whatever the implementation raises; CompileTimeout.
        """
        self.cell, self.device = cell, device
        tell("inputs and their float64 reference")
        with self._grad():
            subject = SubjectMemory().of(cell.problem, device, cell.pass_ != "forward")
            before = compilations()
            tell("the first call, which may compile")
            with time_limit(COMPILE_LIMIT_S, "the first call"):
                self.call: Call = subject.call(cell)
                self.once()
            self.is_compiled = compilations().since(before).graphs > 0
            self.check: Check = subject.check(self.call)
            self.warm_up = self._warm()

    def once(self) -> None:
        """One call, waited for."""
        self.call.run()
        self.call.wait()

    def run(self, calls: int) -> None:
        """So many calls, one after another."""
        with self._grad():
            for _ in range(calls):
                self.once()

    def _warm(self) -> int:
        n, end = 0, time.perf_counter() + WARM_S
        while n < WARM_CALLS or time.perf_counter() < end:
            self.once()
            n += 1
        return n

    def _grad(self) -> Any:
        return torch.no_grad() if self.cell.pass_ == "forward" else nullcontext()

    def profiled(self, trace: Path, tell: Tell) -> Profiled:
        """The table of its kernels; the Chrome trace goes to `trace`, a .json.gz."""
        with self._grad():
            plain_s, faults = self._plain()
            calls = max(LEAST_CALLS, min(MOST_CALLS, int(CALLS_S / plain_s)))
            tell(f"{calls} calls under torch's profiler")
            # The first profile of a process sets up the profiler itself.
            self._profile(1)
            found = self._profile(calls)
            _write_trace(found, trace)
            # torch.compile steps aside for what notes operators: it would note others.
            noted = None if self.is_compiled else dispatched(self.call.run)
        self.call.wait()
        made = table(list(found.function_events or ()), noted)
        return Profiled(made, calls, self.warm_up, plain_s, faults, self.check)

    def _plain(self) -> tuple[float, float]:
        """Median wall of a call and its page faults, with no profiler."""
        times_s: list[float] = []
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        while len(times_s) < LEAST_CALLS or (sum(times_s) < CALLS_S and len(times_s) < MOST_CALLS):
            began = time.perf_counter()
            self.once()
            times_s.append(time.perf_counter() - began)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        return statistics.median(times_s), faults / len(times_s)

    def _profile(self, calls: int) -> profile:
        # Kineto tells of each start and stop on stderr; it reads this before its first profile.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        on_gpu = self.device == "cuda"
        found = profile(use_cpu=True, use_device="cuda" if on_gpu else None, use_kineto=True)
        with found:
            for _ in range(calls):
                with record_function(ANNOTATION):
                    self.call.run()
                    if not on_gpu:
                        # What is asynchronous on a CPU is told of by waiting for it.
                        self.call.wait()
            self.call.wait()
        return found


def _write_trace(found: profile, trace: Path) -> None:
    trace.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        found.export_chrome_trace(str(plain))
        with gzip.open(trace, "wb") as file:
            file.write(plain.read_bytes())
