"""Samples on a CUDA device: events behind a spin kernel, caches flushed or a graph replayed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from suites.measure import host_load
from suites.measure.cuda_api import Cuda, Event, least_flush_bytes
from suites.measure.evidence import is_steady
from suites.measure.samples import Samples, Settings, flags_of

_MOST_PER_BATCH = 16
_BATCH_S = 0.05
# The spin covers the host's time twice over, and the events' own enqueueing.
_SPIN_FACTOR = 2.0
_SPIN_MARGIN_S = 20e-6
_LONGEST_SPIN_S = 0.01
_CALIBRATION_CYCLES = 1_000_000


@dataclass(frozen=True)
class _Step:
    """One sample's work: `work` is `calls` calls; what comes before it is outside the clock."""

    work: Callable[[], object]
    calls: int
    before_each: Callable[[], None] | None
    flush: tuple[Callable[[], None], Callable[[], None]] | None
    spin_cycles: int


def measure_cuda(
    call: Callable[[], object],
    *,
    cuda: Cuda,
    cache: str,
    settings: Settings,
    before_each: Callable[[], None] | None = None,
    first_call_s: float | None = None,
    rotated: Sequence[Callable[[], object]] = (),
    rotated_bytes: int | None = None,
) -> Samples:
    """The samples of a CUDA call; see `clocks.measure`.

    Each sample: `before_each`, write and read the flush buffers (cold), spin, event, call, event.
    The spin keeps the device busy until the host has enqueued the call, so that launching never
    shows; where it did not last, the row is `host_bound`. One synchronise per batch.
    """
    if first_call_s is None:
        first_call_s = _first_call_s(call, cuda, before_each)
    work: Callable[[], object] = cuda.capture(rotated) if cache == "graph" else call
    calls = len(rotated) if cache == "graph" else 1
    flush = cuda.flush_buffer(least_flush_bytes(cuda)) if cache == "cold" else None
    sample_s, warmup_n = _warm_up(work, cuda, settings, before_each)
    host_s = _host_s(work, cuda, before_each)
    # After the warm-up: an idle device's clock is slower, and the spin would be too short.
    cycles_per_s = _cycles_per_s(cuda)
    spin_s = min(_LONGEST_SPIN_S, _SPIN_FACTOR * host_s + _SPIN_MARGIN_S)
    step = _Step(work, calls, before_each, flush, max(1, int(spin_s * cycles_per_s)))
    batch = max(1, min(_MOST_PER_BATCH, int(_BATCH_S / max(sample_s, 1e-9))))
    before = host_load.read()
    samples_s, hosts_s, stop = _sample(step, cuda, settings, batch)
    host = host_load.between(before, host_load.read(), calls * len(samples_s))
    floor_s = _floor_s(cuda, step) / calls
    flags = flags_of(samples_s, floor_s, settings)
    if statistics.median(hosts_s) > spin_s:
        flags.append("host_bound")
    if cache == "graph" and (rotated_bytes is None or rotated_bytes < least_flush_bytes(cuda)):
        flags.append("warm")
    return Samples(
        clock="cuda_event",
        cache=cache,
        samples_s=tuple(samples_s),
        wall_samples_s=(),
        stop=stop,
        first_call_s=first_call_s,
        warmup_n=warmup_n,
        floor_s=floor_s,
        calls_per_sample=calls,
        host=host,
        host_s=statistics.median(hosts_s) / calls,
        flags=tuple(flags),
    )


def _first_call_s(
    call: Callable[[], object], cuda: Cuda, before_each: Callable[[], None] | None
) -> float:
    if before_each is not None:
        before_each()
    cuda.synchronize()
    began = time.perf_counter()
    call()
    cuda.synchronize()
    return time.perf_counter() - began


def _cycles_per_s(cuda: Cuda) -> float:
    """How many cycles of the spin kernel are a second, at the clock the device has now."""
    cuda.spin(_CALIBRATION_CYCLES)
    (pair,) = _events(cuda, 1)
    pair[0].record()
    cuda.spin(_CALIBRATION_CYCLES)
    pair[1].record()
    cuda.synchronize()
    return _CALIBRATION_CYCLES / max(pair[0].seconds_to(pair[1]), 1e-9)


def _warm_up(
    work: Callable[[], object],
    cuda: Cuda,
    settings: Settings,
    before_each: Callable[[], None] | None,
) -> tuple[float, int]:
    """Run until two windows of device times agree; → seconds per sample, and how many ran."""
    began = time.perf_counter()
    times_s: list[float] = []
    while True:
        pairs = _events(cuda, settings.warmup_window)
        for start, end in pairs:
            if before_each is not None:
                before_each()
            start.record()
            work()
            end.record()
        cuda.synchronize()
        times_s += [start.seconds_to(end) for start, end in pairs]
        steady = is_steady(times_s, settings.warmup_window, settings.warmup_tolerance)
        if steady or time.perf_counter() - began >= settings.warmup_s:
            return statistics.median(times_s[-settings.warmup_window :]), len(times_s)


def _host_s(
    work: Callable[[], object], cuda: Cuda, before_each: Callable[[], None] | None
) -> float:
    """The host's time to enqueue the work once, the device idle before it."""
    times_s = []
    for _ in range(5):
        if before_each is not None:
            before_each()
        cuda.synchronize()
        began = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - began)
    cuda.synchronize()
    return statistics.median(times_s)


def _sample(
    step: _Step, cuda: Cuda, settings: Settings, batch: int
) -> tuple[list[float], list[float], str]:
    """Batches of samples until the settings say stop; → seconds per call, host seconds, why."""
    samples_s: list[float] = []
    hosts_s: list[float] = []
    began = time.perf_counter()
    while True:
        n = min(batch, settings.max_samples - len(samples_s))
        pairs = _events(cuda, n)
        hosts_s += [_enqueue(step, cuda, start, end) for start, end in pairs]
        cuda.synchronize()
        samples_s += [start.seconds_to(end) / step.calls for start, end in pairs]
        stop = settings.reason_to_stop(samples_s, time.perf_counter() - began)
        if stop is not None:
            return samples_s, hosts_s, stop


def _enqueue(step: _Step, cuda: Cuda, start: Event, end: Event) -> float:
    """Enqueue one sample; → the host's time from the spin to the second event.

    Nothing is allocated by us between the events: events and buffers were made before.
    """
    if step.before_each is not None:
        step.before_each()
    if step.flush is not None:
        write, read = step.flush
        write()
        read()
    cuda.spin(step.spin_cycles)
    began = time.perf_counter()
    start.record()
    step.work()
    end.record()
    return time.perf_counter() - began


def _floor_s(cuda: Cuda, step: _Step) -> float:
    """What the events see of an empty kernel, enqueued as the samples are."""
    empty = _Step(lambda: cuda.spin(0), 1, None, None, step.spin_cycles)
    pairs = _events(cuda, 20)
    for start, end in pairs:
        _enqueue(empty, cuda, start, end)
    cuda.synchronize()
    return statistics.median(start.seconds_to(end) for start, end in pairs)


def _events(cuda: Cuda, n: int) -> list[tuple[Event, Event]]:
    return [(cuda.event(), cuda.event()) for _ in range(n)]
