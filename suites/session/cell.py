"""One cell, from its problem to its record: inputs, proof, profile, clock, proof again."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from impls.interface.attention import Implementation
from suites.measure import device
from suites.measure.clocks import measure
from suites.measure.counters import UNKNOWN as OPERATORS_UNKNOWN
from suites.measure.counters import compilations, operators_of
from suites.measure.executed import Executed, executed
from suites.measure.pace import Pace
from suites.measure.samples import Samples, Settings
from suites.session.determinism import repeats
from suites.session.faults import CompileTimeout, SilentFallback, kept_from_pytest
from suites.session.record import checked_again, measured_fields
from suites.session.subject import Call, Subject, SubjectMemory, cost_of
from suites.session.sweep import Cell

ONE_LOOK_S = 1.0


@dataclass(frozen=True)
class Conditions:
    """What is the same for every cell of a run."""

    device: str
    settings: Settings
    ceilings: Mapping[str, Any]
    flop_convention: str
    compile_limit_s: float
    is_timed: bool = True
    pace: Pace | None = None


@kept_from_pytest()
def measure_cell(cell: Cell, conditions: Conditions, memory: SubjectMemory) -> dict[str, Any]:
    """The fields of the record that measuring gives; `status` is "ok", "wrong" or "skipped".

    Inside the clock is the call alone (and, for asynchronous implementations, waiting for it).
    Outside: inputs, `prepare`, the first call, the checks before and after, the profile, the call
    that is counted, and the two that tell whether gradients repeat.

    Raises:
        Unsupported, CompileTimeout and whatever the implementation raises: see `faults`.
    """
    implementation, backward = cell.implementation, cell.pass_ != "forward"
    subject = memory.of(cell.problem, conditions.device, backward)
    with nullcontext() if backward else torch.no_grad():
        # Not only of what declares it: a kernel that is brought may compile unasked.
        _forget_compiled()
        doing = "compiling" if implementation.needs_compiler else "the first call"
        compiled_before = compilations()
        with time_limit(conditions.compile_limit_s, doing):
            call = subject.call(cell)
            started = time.perf_counter()
            call.run()
            call.wait()
            first_call_s = time.perf_counter() - started
        compiled = compilations().since(compiled_before)
        written = set(subject.put_back())
        checks = [subject.check(call)]
        # Not since the first call: poisoning, like any global switch, has code compiled anew.
        compiled_before = compilations()
        seen = executed(call.run, conditions.device, implementation.synchronize)
        recompiles = compilations().since(compiled_before).graphs
        made = seen
        if cell.pass_ == "backward":
            # The forward that it is the backward of ran when the call was made, unseen.
            made = executed(partial(subject.call, cell), conditions.device)
        _refuse_fallback(implementation, made, cell.problem.has_core)
        is_same = repeats(cell, call)
        counted = OPERATORS_UNKNOWN if compiled.graphs else operators_of(call.run)
        call.wait()
        samples = None
        if conditions.is_timed:
            samples = _sample(cell, subject, call, conditions, first_call_s)
            written |= set(subject.put_back())
            checks.append(subject.check_turned(call))
        written |= set(subject.put_back())
    if written:
        why = f"it wrote into its inputs: {', '.join(sorted(written))}"
        checks.insert(0, replace(checks[-1], ok=False, reasons=(why,)))
    return measured_fields(
        cell,
        device_name=conditions.device,
        ceilings=conditions.ceilings,
        flop_convention=conditions.flop_convention,
        checks=checks,
        seen=seen,
        samples=samples,
        prepare_s=call.prepare_s,
    ) | {
        "repeats": is_same,
        "counters": {
            **asdict(counted),
            "kernels": seen.kernels,
            **asdict(compiled),
            "recompiles": recompiles,
        },
    }


def look_again(
    cell: Cell, fields: Mapping[str, Any], conditions: Conditions, memory: SubjectMemory
) -> dict[str, Any]:
    """The fields of a cell already measured, with more samples, taken and checked now.

    "samples" are those of this look alone.

    Raises:
        Whatever the implementation raises.
    """
    backward = cell.pass_ != "forward"
    subject = memory.of(cell.problem, conditions.device, backward)
    with nullcontext() if backward else torch.no_grad():
        call = subject.call(cell)
        call.run()
        call.wait()
        again = _sample(cell, subject, call, conditions, fields["timing"]["first_call_s"])
        check = subject.check_turned(call)
    subject.put_back()
    return checked_again(fields, check) | {"samples": again}


def _sample(
    cell: Cell, subject: Subject, call: Call, conditions: Conditions, first_call_s: float
) -> Samples:
    rotated: list[Call] = []
    if cell.cache == "graph":
        copies = copies_beyond_cache(cell, conditions.device)
        rotated = [subject.call(cell, seed=n + 1) for n in range(copies)]
    settings = conditions.settings
    if cell.implementation.needs_compiler:
        # Another look would cost another compilation: this one lasts as long as several.
        settings = replace(
            settings, min_span_s=ONE_LOOK_S, budget_s=max(ONE_LOOK_S, settings.budget_s)
        )
    pace_s = conditions.pace.read() if conditions.pace else None
    samples = measure(
        call.run,
        device=conditions.device,
        clock=cell.clock,
        cache=cell.cache,
        settings=settings,
        synchronize=cell.implementation.synchronize,
        first_call_s=first_call_s,
        rotated=[r.run for r in rotated],
        rotated_bytes=len(rotated) * _compulsory_bytes(cell) or None,
    )
    if conditions.pace is None or pace_s is None:
        return samples
    return replace(samples, pace_s=max(pace_s, conditions.pace.read()))


def copies_beyond_cache(cell: Cell, device_name: str) -> int:
    """How many sets of inputs make twice the device's last-level cache together: 2 to 64."""
    llc_bytes = device.describe(device_name).llc_bytes or 0
    one = max(1, _compulsory_bytes(cell))
    return min(64, max(2, -(-2 * llc_bytes // one)))


def _compulsory_bytes(cell: Cell) -> int:
    return cost_of(cell.problem, cell.pass_).compulsory_bytes


def _forget_compiled() -> None:
    """Empty torch.compile's cache: past 8 sizes of one function it goes on without compiling."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


def _refuse_fallback(implementation: Implementation, seen: Executed, has_core: bool) -> None:
    if has_core and implementation.runs and not seen.contains(implementation.runs):
        raise SilentFallback(
            f"asked for {implementation.name}, but none of {', '.join(implementation.runs)} ran: "
            f"{', '.join(seen.ran) or 'unknown'}"
        )


@contextmanager
def time_limit(limit_s: float | None, doing: str) -> Iterator[None]:
    """Interrupt the body after `limit_s` seconds; None, or off the main thread: never.

    Raises:
        CompileTimeout: the limit was reached.
    """
    if limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise CompileTimeout(f"{doing} took longer than {limit_s:g} s (--compile-limit)")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
