"""`python -m suites.gpu_day.clock_test`: the clock held against what is known without it.

On CUDA five things: that an empty kernel behind the spin costs about the floor; that a kernel of
four times the cycles takes four times as long; that events agree with the host's clock over a
long kernel; that a flushed read is slower than one from the cache; that a slow host is told. On a
CPU the clock there is held against work of known length; what needs a GPU is not measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from suites.measure.cuda_api import Cuda
from suites.measure.cuda_clock import measure_cuda
from suites.measure.samples import Samples, Settings

WRONG = 1
KNOWN_CYCLES = 200_000
LONG_CYCLES = 100_000_000
MOST_FLOOR_S = 50e-6
"""Events around an empty kernel are some microseconds apart; 50 are a fault, not a floor."""
LENGTH_WITHIN, HOST_CLOCK_WITHIN, FLOOR_WITHIN = 0.05, 0.02, 0.5
SLOW_HOST_S = 0.025
"""Longer than any spin that the clock makes."""
ON_CUDA = ("empty kernel", "known length", "host clock", "hot against cold", "slow host")


@dataclass(frozen=True)
class Held:
    """One thing the clock was held against; `is_right` None: not measured, `told` says why."""

    name: str
    is_right: bool | None
    told: str
    times_s: dict[str, float]


def on_cuda(cuda: Cuda, settings: Settings, sleep: Callable[[float], None]) -> Iterator[Held]:
    """The five, on a device; `sleep` holds up the host for so many seconds."""

    def measured(call: Callable[[], object], cache: str = "hot") -> Samples:
        return measure_cuda(call, cuda=cuda, cache=cache, settings=settings)

    yield _empty(measured(lambda: cuda.spin(0)))
    once, four_times = (measured(lambda n=n: cuda.spin(n * KNOWN_CYCLES)) for n in (1, 4))
    yield _known_length(once, four_times)
    yield _host_clock(cuda)
    # A quarter of the cache: it stays there from one call to the next, unless flushed.
    _, read = cuda.flush_buffer(cuda.l2_bytes // 4)
    yield _hot_cold(measured(read), measured(read, "cold"))

    def held_up() -> None:
        sleep(SLOW_HOST_S)
        cuda.spin(KNOWN_CYCLES)

    yield _slow_host(measured(held_up), once)


def _empty(samples: Samples) -> Held:
    floor_s, median_s = samples.floor_s or 0.0, _median(samples)
    is_right = 0 < floor_s < MOST_FLOOR_S and abs(median_s - floor_s) <= FLOOR_WITHIN * floor_s
    told = f"an empty kernel takes {median_s * 1e6:.2f} µs, the floor is {floor_s * 1e6:.2f} µs"
    return Held("empty kernel", is_right, told, {"floor": floor_s, "empty": median_s})


def _known_length(once: Samples, four_times: Samples) -> Held:
    """Differences of two lengths: what an empty kernel costs is in both, and cancels."""
    floor_s = once.floor_s or 0.0
    short_s, long_s = _median(once), _median(four_times)
    ratio = (long_s - floor_s) / (short_s - floor_s) if short_s > floor_s else 0.0
    told = f"four times the cycles take {ratio:.3f} times as long"
    times_s = {"once": short_s, "four times": long_s}
    return Held("known length", abs(ratio / 4 - 1) <= LENGTH_WITHIN, told, times_s)


def _host_clock(cuda: Cuda) -> Held:
    """One long kernel on both clocks; the host's has the launch and the waiting too."""
    start, end = cuda.event(), cuda.event()
    cuda.spin(LONG_CYCLES)
    cuda.synchronize()
    began = time.perf_counter()
    start.record()
    cuda.spin(LONG_CYCLES)
    end.record()
    cuda.synchronize()
    host_s, event_s = time.perf_counter() - began, start.seconds_to(end)
    told = f"{event_s * 1e3:.2f} ms by events, {host_s * 1e3:.2f} ms by the host's clock"
    is_right = abs(event_s / host_s - 1) <= HOST_CLOCK_WITHIN
    return Held("host clock", is_right, told, {"events": event_s, "host": host_s})


def _hot_cold(hot: Samples, cold: Samples) -> Held:
    hot_s, cold_s = _median(hot), _median(cold)
    told = f"a read of a quarter of the L2 takes {cold_s / hot_s:.2f} times as long when flushed"
    return Held("hot against cold", cold_s > hot_s, told, {"hot": hot_s, "cold": cold_s})


def _slow_host(held_up: Samples, quick: Samples) -> Held:
    is_told, is_quick_told = ("host_bound" in s.flags for s in (held_up, quick))
    told = f"a host held up is {'' if is_told else 'not '}told"
    told += ", and so is a quick one" if is_quick_told else ", a quick one is not"
    times_s = {"held up": held_up.host_s or 0.0, "quick": quick.host_s or 0.0}
    return Held("slow host", is_told and not is_quick_told, told, times_s)


def on_cpu(settings: Settings) -> Iterator[Held]:
    """The CPU's clock against work of known length, then what only a GPU could tell."""
    from suites.measure.clocks import measure

    def busy(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def median_s(seconds: float) -> float:
        found = measure(
            lambda: busy(seconds), device="cpu", clock="cpu_time", cache="hot", settings=settings
        )
        return _median(found)

    once_s, four_times_s = median_s(1e-3), median_s(4e-3)
    told = f"work of 1 and of 4 ms takes {once_s * 1e3:.3f} and {four_times_s * 1e3:.3f} ms"
    is_right = all(
        abs(seen / due - 1) <= LENGTH_WITHIN for seen, due in ((once_s, 1e-3), (four_times_s, 4e-3))
    )
    yield Held("known length, CPU", is_right, told, {"once": once_s, "four times": four_times_s})
    for name in ON_CUDA:
        yield Held(name, None, "not measured: no GPU", {})


def as_record(found: Sequence[Held]) -> dict[str, Any]:
    """What goes to disk, with the sentence of all of them first."""
    wrong = [held.name for held in found if held.is_right is False]
    right = sum(held.is_right is True for held in found)
    missing = sum(held.is_right is None for held in found)
    told = f"{right} of {len(found)} right"
    told += f", wrong: {', '.join(wrong)}" if wrong else ""
    told += f", {missing} not measured: no GPU" if missing else ""
    return {"told": told, "held": [asdict(held) for held in found]}


def _median(samples: Samples) -> float:
    return statistics.median(samples.samples_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Hold the clock against all of it; JSON on stdout → 0, or 1 where it is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    options = parser.parse_args(arguments)
    settings = Settings(budget_s=0.3, warmup_s=0.1)
    if options.device == "cuda":
        from suites.measure.cuda_api import TorchCuda

        found = list(on_cuda(TorchCuda(), settings, time.sleep))
    else:
        found = list(on_cpu(settings))
    print(json.dumps(as_record(found), indent=1, allow_nan=False))
    return WRONG if any(held.is_right is False for held in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
