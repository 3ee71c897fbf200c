"""Samples on the CPU: CPU time or wall, looped when short, one call each when the cache is cold."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat

import torch

from suites.measure import host_load
from suites.measure.cold_cache import cpu_flusher
from suites.measure.evidence import is_steady
from suites.measure.samples import Samples, Settings, flags_of

CONTENDED_WALL_RATIO = 1.2
_MOST_CALLS_PER_SAMPLE = 100_000


def measure_cpu(
    call: Callable[[], object],
    *,
    clock: str,
    cache: str,
    settings: Settings,
    synchronize: Callable[[], None] | None = None,
    before_each: Callable[[], None] | None = None,
    first_call_s: float | None = None,
) -> Samples:
    """The samples of a CPU call; see `clocks.measure`.

    CPU time is that of the whole process, so it sees the worker threads of libraries.
    """
    work = call if synchronize is None else _then(call, synchronize)
    if first_call_s is None:
        _run(before_each)
        began = time.perf_counter()
        work()
        first_call_s = time.perf_counter() - began
    if clock == "wall":
        # So long takes the kernel's accounting of who else used the machine.
        span_s = max(settings.min_span_s, host_load.LEAST_SPAN_S)
        budget_s = max(settings.budget_s, span_s)
        settings = replace(settings, min_span_s=span_s, budget_s=budget_s)
    is_looped = cache == "hot" and before_each is None
    flush = cpu_flusher() if cache == "cold" else None
    with _collector_off():
        call_s, warmup_n = _warm_up(work, first_call_s, settings, before_each)
        calls = _calls_per_sample(call_s, settings) if is_looped else 1
        clock_s, wall_s, stop, host = _sample(work, calls, clock, settings, before_each, flush)
        floor_s = _floor_s(calls, clock)
    flags = flags_of(clock_s, floor_s, settings)
    if _is_contended(clock, clock_s, wall_s, host):
        flags.append("contended")
    return Samples(
        clock=clock,
        cache=cache,
        samples_s=tuple(clock_s),
        wall_samples_s=tuple(wall_s),
        stop=stop,
        first_call_s=first_call_s,
        warmup_n=warmup_n,
        floor_s=floor_s,
        calls_per_sample=calls,
        host=host,
        flags=tuple(flags),
    )


def _warm_up(
    work: Callable[[], object],
    first_call_s: float,
    settings: Settings,
    before_each: Callable[[], None] | None,
) -> tuple[float, int]:
    """Call until two windows agree; → seconds per call (wall, lately), and how many calls.

    Windows of short calls hold many: a window of three 10 µs calls says nothing. A call slower
    than the limit is warmed by one: the first call's time does not tell, it may have compiled.
    """
    began = time.perf_counter()
    times_s: list[float] = []
    n, group = 0, 1
    while True:
        _run(before_each)
        start = time.perf_counter()
        for _ in repeat(None, group):
            work()
        now = time.perf_counter()
        n += group
        times_s.append((now - start) / group)
        if now - start < settings.sample_s / 4 and before_each is None:
            group = min(2 * group, _MOST_CALLS_PER_SAMPLE)
            times_s = times_s[-1:]
        steady = is_steady(times_s, settings.warmup_window, settings.warmup_tolerance)
        if steady or now - began >= settings.warmup_s:
            return min(times_s[-settings.warmup_window :]), n


def _sample(
    work: Callable[[], object],
    calls: int,
    clock: str,
    settings: Settings,
    before_each: Callable[[], None] | None,
    flush: Callable[[], None] | None,
) -> tuple[list[float], list[float], str, host_load.HostLoad]:
    read_clock = time.process_time if clock == "cpu_time" else time.perf_counter
    clock_s: list[float] = []
    wall_s: list[float] = []
    before = host_load.read()
    began = time.perf_counter()
    while True:
        _run(before_each)
        _run(flush)
        wall, ticks = _time(work, calls, read_clock)
        wall_s.append(wall)
        clock_s.append(ticks)
        stop = settings.reason_to_stop(clock_s, time.perf_counter() - began)
        if stop is not None:
            # The flushes' faults and system time are ours, not the call's.
            host = host_load.between(before, host_load.read(), calls * len(clock_s))
            return clock_s, wall_s, stop, host


def _time(
    work: Callable[[], object], calls: int, read_clock: Callable[[], float]
) -> tuple[float, float]:
    """Wall and clock seconds per call of one sample. Only the loop and the calls are inside."""
    wall_start = time.perf_counter()
    start = read_clock()
    for _ in repeat(None, calls):
        work()
    clock_s = read_clock() - start
    wall_s = time.perf_counter() - wall_start
    return wall_s / calls, clock_s / calls


def _floor_s(calls: int, clock: str) -> float:
    """What this clock sees of a call that computes nothing to speak of.

    That is torch's least product of (B, H, T, d) tensors, all of size 1: an attention not well
    above it measures dispatching.
    """
    read_clock = time.process_time if clock == "cpu_time" else time.perf_counter
    one = torch.ones(1, 1, 1, 1)

    def least() -> None:
        torch.matmul(one, one)

    with torch.no_grad():
        least()
        # 100 calls are as telling as the sample's number, and cost less.
        return min(_time(least, min(calls, 100), read_clock)[1] for _ in range(5))


def _calls_per_sample(call_s: float, settings: Settings) -> int:
    if call_s <= 0:
        return _MOST_CALLS_PER_SAMPLE
    return min(_MOST_CALLS_PER_SAMPLE, max(1, math.ceil(settings.sample_s / call_s)))


def _is_contended(
    clock: str, clock_s: list[float], wall_s: list[float], host: host_load.HostLoad
) -> bool:
    """CPU time: even the fastest sample waited. Wall: others used the machine."""
    if clock == "cpu_time":
        fastest = min(range(len(wall_s)), key=wall_s.__getitem__)
        return wall_s[fastest] > CONTENDED_WALL_RATIO * clock_s[fastest]
    return host.foreign_load is not None and host.foreign_load > host_load.CONTENDED_ABOVE


def _then(call: Callable[[], object], synchronize: Callable[[], None]) -> Callable[[], None]:
    def call_and_wait() -> None:
        call()
        synchronize()

    return call_and_wait


def _run(step: Callable[[], None] | None) -> None:
    if step is not None:
        step()


@contextmanager
def _collector_off() -> Iterator[None]:
    """No garbage collection inside a sample; the setting is put back."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
