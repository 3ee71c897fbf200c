"""What really ran in one call, and its peak memory: a profile, outside every clock."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.autograd.profiler import profile

from suites.measure.memory import UNKNOWN, Peak, cuda_peak, peak_of_events

UNKNOWN_RAN = ("unknown",)
_MOST_NAMES = 8
_LEAST_SHARE = 0.01
# A call of less CPU time is profiled so often: one interruption is longer than all it does.
_SHORT_S = 0.01
_PROFILES_OF_SHORT = 3

# Operators that move no data, or are the profiler's and dispatcher's own.
_PLUMBING = re.compile(
    r"aten::(view|reshape|_reshape_alias|_unsafe_view|transpose|permute|t|as_strided|expand|"
    r"unsqueeze|squeeze|slice|select|narrow|alias|detach|unflatten|flatten|unbind|split\w*|chunk|"
    r"resolve_conj|resolve_neg|empty\w*|new_empty\w*|to|item|_local_scalar_dense|lift_fresh)"
    r"|\[memory\]|detach|autograd::engine::.*|TorchDynamo Cache Lookup|Pregraph bytecode|"
    r"AOTDispatcher .*|cuda[A-Z]\w*|cu[A-Z]\w*|Activity Buffer Request|Mem(cpy|set) .*"
)
# Always telling, however little time the host spends in them: which kernel was chosen.
_ALWAYS = re.compile(r"_scaled_dot_product_|flash|fmha|_attn|Compiled", re.IGNORECASE)


@dataclass(frozen=True)
class Executed:
    """What one call ran.

    `ran` are the telling operators and kernels, the longest first; ("unknown",) when the profile
    shows none. `names` is every event's name, for `contains`. `memory` is the call's peak.
    `kernels` is how many were launched on a GPU, `kernels_s` the device's time in all of them and
    in copies; None where no profiler tells, as on a CPU.
    """

    ran: tuple[str, ...]
    names: frozenset[str]
    memory: Peak
    kernels: int | None = None
    kernels_s: float | None = None

    def contains(self, parts: Sequence[str]) -> bool:
        """Whether any of these is part of any name that ran, letter case aside."""
        names = [name.lower() for name in self.names]
        return any(part.lower() in name for part in parts for name in names)


@dataclass(frozen=True)
class _Event:
    name: str
    self_time_us: float
    is_kernel: bool


def executed(
    call: Callable[[], object],
    device: str = "cpu",
    synchronize: Callable[[], None] | None = None,
) -> Executed:
    """What `call` runs and the most memory it holds, from a profile of one call.

    On a CPU a short call is made and profiled three times, and of each operator's times the least
    counts. The first profile of a process costs up to a second, later ones some milliseconds more
    than the call. Raises whatever `call` raises.
    """
    # Kineto tells of each start and stop on stderr; it reads this before its first profile.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    work = call if synchronize is None else _both(call, synchronize)
    if device == "cuda":
        profiled = profile(use_cpu=True, use_device="cuda", use_kineto=True)
        with profiled:
            peak = cuda_peak(work)
        events = _events(profiled)
    else:
        started = time.process_time()
        events, peak = _profiled_on_cpu(work)
        if time.process_time() - started < _SHORT_S:
            again = [_profiled_on_cpu(work)[0] for _ in range(_PROFILES_OF_SHORT - 1)]
            events = _least([events, *again])
    return Executed(
        ran=_telling(events) or UNKNOWN_RAN,
        names=frozenset(event.name for event in events),
        memory=peak,
        kernels=(_kernels(events) or None) if device == "cuda" else None,
        kernels_s=(_kernels_s(events) or None) if device == "cuda" else None,
    )


def _profiled_on_cpu(work: Callable[[], object]) -> tuple[list[_Event], Peak]:
    profiled = profile(use_cpu=True, use_kineto=True, profile_memory=True)
    with profiled:
        work()
    return _events(profiled), _cpu_peak(profiled)


def _least(profiles: Iterable[Iterable[_Event]]) -> list[_Event]:
    """One event a name, with the least time that one of the profiles found for it in all."""
    least: dict[str, _Event] = {}
    for events in profiles:
        found: dict[str, _Event] = {}
        for event in events:
            before = found[event.name].self_time_us if event.name in found else 0.0
            found[event.name] = replace(event, self_time_us=before + event.self_time_us)
        for name, event in found.items():
            if name not in least or event.self_time_us < least[name].self_time_us:
                least[name] = event
    return list(least.values())


def _telling(events: Iterable[_Event]) -> tuple[str, ...]:
    """The names worth a place in a table: kernels and operators that took time, longest first."""
    times_us: dict[str, float] = {}
    for event in events:
        if not _PLUMBING.fullmatch(event.name):
            name = _short(event.name)
            times_us[name] = times_us.get(name, 0.0) + event.self_time_us
    kernels = {_short(event.name) for event in events if event.is_kernel}
    # Beside kernels an operator's own time is only the host's: name it for what it is alone.
    total_us = sum(t for name, t in times_us.items() if not kernels or name in kernels)

    def is_telling(name: str) -> bool:
        took_time = times_us[name] >= _LEAST_SHARE * total_us
        return _ALWAYS.search(name) is not None or (took_time and (not kernels or name in kernels))

    telling = sorted(filter(is_telling, times_us), key=lambda name: (-times_us[name], name))
    # Which kernel was chosen has its place however many helpers took longer.
    kept = sorted(telling, key=lambda name: _ALWAYS.search(name) is None)[:_MOST_NAMES]
    return tuple(name for name in telling if name in kept)


def _kernels(events: Iterable[_Event]) -> int:
    """The launches among the events of one call; copies and fills of memory are none."""
    return sum(event.is_kernel and not event.name.startswith(("Mem", "[")) for event in events)


def _kernels_s(events: Iterable[_Event]) -> float:
    return 1e-6 * sum(event.self_time_us for event in events if event.is_kernel)


def _events(profiled: profile) -> list[_Event]:
    return [_event(event) for event in profiled.function_events or ()]


def _event(event: Any) -> _Event:
    is_kernel = event.device_type.name == "CUDA"
    time_us = event.time_range.elapsed_us() if is_kernel else event.self_cpu_time_total
    return _Event(event.name, float(time_us), is_kernel)


def _cpu_peak(profiled: profile) -> Peak:
    results: Any = profiled.kineto_results
    if results is None:
        return UNKNOWN
    return peak_of_events(
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]" and event.device_type().name == "CPU"
    )


def _short(name: str) -> str:
    """A name without what differs from launch to launch, at most 120 characters."""
    name = re.sub(r"^## Call CompiledFxGraph .*##$", "CompiledFxGraph", name)
    return name if len(name) <= 120 else name[:119] + "…"


def _both(call: Callable[[], object], synchronize: Callable[[], None]) -> Callable[[], None]:
    def call_and_wait() -> None:
        call()
        synchronize()

    return call_and_wait
