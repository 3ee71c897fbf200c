"""The timer: which clock sees the work, and the samples it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from suites.measure.cpu_clock import measure_cpu
from suites.measure.samples import Samples, Settings

CLOCKS = ("cpu_time", "wall", "cuda_event")
CACHES = ("hot", "cold", "graph")


def clock_for(device: str, threads: int = 1, synchronize: Callable[[], None] | None = None) -> str:
    """The clock a cell is timed with: events on CUDA, CPU time at one thread, else the wall."""
    if device == "cuda":
        return "cuda_event"
    return "cpu_time" if threads == 1 and synchronize is None else "wall"


def measure(
    call: Callable[[], object],
    *,
    device: str,
    clock: str,
    cache: str,
    settings: Settings,
    synchronize: Callable[[], None] | None = None,
    before_each: Callable[[], None] | None = None,
    first_call_s: float | None = None,
    rotated: Sequence[Callable[[], object]] = (),
    rotated_bytes: int | None = None,
) -> Samples:
    """The samples of `call`, warmed up, on one clock and in one cache state.

    Inside the clock: `call`, and `synchronize` where given. Outside: the first call, the warm-up,
    cache flushes and `before_each` (which drops gradients, and makes a sample one call).
    `first_call_s` is given by a caller that has already made and timed the first call.
    `rotated` are calls over different inputs of `rotated_bytes` together, for `cache="graph"`.

    Raises:
        ValueError: the clock cannot see the device's work, or the cache state is not one of it.
        Whatever `call` raises.
    """
    _check(device, clock, cache, synchronize, rotated)
    if device == "cuda":
        from suites.measure.cuda_api import TorchCuda
        from suites.measure.cuda_clock import measure_cuda

        return measure_cuda(
            call,
            cuda=TorchCuda(),
            cache=cache,
            settings=settings,
            before_each=before_each,
            first_call_s=first_call_s,
            rotated=rotated,
            rotated_bytes=rotated_bytes,
        )
    return measure_cpu(
        call,
        clock=clock,
        cache=cache,
        settings=settings,
        synchronize=synchronize,
        before_each=before_each,
        first_call_s=first_call_s,
    )


def _check(
    device: str,
    clock: str,
    cache: str,
    synchronize: Callable[[], None] | None,
    rotated: Sequence[Callable[[], object]],
) -> None:
    if clock not in CLOCKS:
        raise ValueError(f'clock "{clock}" is not known: one of {", ".join(CLOCKS)}')
    if cache not in CACHES:
        raise ValueError(f'cache state "{cache}" is not known: one of {", ".join(CACHES)}')
    if (device == "cuda") != (clock == "cuda_event"):
        raise ValueError(f'clock "{clock}" cannot see the work of {device}')
    if device not in ("cpu", "cuda") and synchronize is None:
        raise ValueError(
            f"{device} may be asynchronous and has no registered synchronize: "
            "only the launch would be timed"
        )
    if clock == "cpu_time" and synchronize is not None:
        raise ValueError("an asynchronous implementation needs the wall clock, not CPU time")
    if cache == "graph" and (device != "cuda" or not rotated):
        raise ValueError('cache state "graph" needs CUDA and calls over rotated inputs')
