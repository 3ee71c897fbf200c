"""The profiler's events as a table: each kernel with its time, its share and its bytes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from suites.profile.dispatched import Dispatched
from suites.profile.kinds import BOOKKEEPING, PAGE_FAULTS, kind_of

ANNOTATION = "attnbench: one call"


@dataclass(frozen=True)
class Kernel:
    """All of one name in a call: how often, for how long, of what kind, over which bytes.

    `bytes` counts each tensor that its operators are given or give once; None where no operator
    of torch's tells. `new_bytes` are those of pages that had to be made for it.
    """

    name: str
    what: str
    calls: float
    time_s: float
    share: float
    bytes: float | None = None
    new_bytes: float | None = None


@dataclass(frozen=True)
class Table:
    """Where the time of a call goes: kernels, operators that move no data, and the rest.

    The three add up to `call_s`: of a CPU the wall from the call to its return, of a GPU the time
    from the first kernel to the end of the last. All are means over `calls`: on a CPU the faster
    half of those that were profiled, as what else the machine does only makes calls longer.
    """

    kernels: tuple[Kernel, ...]
    calls: int
    call_s: float
    bookkeeping_s: float
    outside_s: float


def table(events: Sequence[Any], noted: Sequence[Dispatched] | None) -> Table:
    """What the profile of some calls shows; `noted` is what one of them dispatched."""
    on_gpu = [e for e in events if _is_on_gpu(e) and not _is_annotation(e)]
    hosts = [e for e in events if not _is_on_gpu(e)]
    spans = sorted((e for e in hosts if e.name == ANNOTATION), key=_us)
    if on_gpu:
        timed = [(e.name, _us(e)) for e in on_gpu]
        whole_us, busy_us = _span_us(on_gpu), _union_us(on_gpu)
        # A backward on a GPU is called from a thread of its own, below no annotation.
        roots = [e for e in hosts if e.cpu_parent is None]
    else:
        roots = spans = spans[: (len(spans) + 1) // 2]
        timed = [(e.name, float(e.self_cpu_time_total)) for e in _below(spans)]
        whole_us, busy_us = sum(map(_us, spans)), sum(time_us for _, time_us in timed)
    calls = len(spans)
    moved = _moved(roots, noted or (), calls)
    found: dict[str, Kernel] = {}
    for name, time_us in timed:
        before = found.get(name) or Kernel(name, kind_of(name), 0, 0.0, 0.0, *moved.get(name, ()))
        found[name] = replace(
            before, calls=before.calls + 1 / calls, time_s=before.time_s + time_us / calls * 1e-6
        )
    call_s, busy_s = whole_us / calls * 1e-6, busy_us / calls * 1e-6
    done = [_finished(one, call_s) for one in found.values()]
    kernels = [one for one in done if one.what != BOOKKEEPING]
    return Table(
        kernels=tuple(sorted(kernels, key=lambda one: (-one.time_s, one.name))),
        calls=calls,
        call_s=call_s,
        bookkeeping_s=sum(one.time_s for one in done if one.what == BOOKKEEPING),
        outside_s=max(0.0, call_s - busy_s),
    )


def _finished(one: Kernel, call_s: float) -> Kernel:
    """With its share, and told apart where half of its bytes are on pages made for it."""
    is_new = one.bytes and one.new_bytes and 2 * one.new_bytes >= one.bytes
    what = f"{PAGE_FAULTS} ({one.what})" if is_new and one.what != BOOKKEEPING else one.what
    share = one.time_s / call_s if call_s else 0.0
    return replace(one, calls=round(one.calls, 3), share=share, what=what)


def _moved(
    roots: Iterable[Any], noted: Sequence[Dispatched], calls: int
) -> dict[str, tuple[float, float]]:
    """Bytes and new bytes of a call, by the name of the kernel that did the operator's work.

    An operator below another that was dispatched belongs to that one: it is not seen by itself.
    """
    waiting: dict[str, deque[Dispatched]] = defaultdict(deque)
    for one in [*noted] * calls:
        waiting[one.name].append(one)
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def visit(event: Any) -> None:
        if waiting.get(event.name):
            one = waiting[event.name].popleft()
            bearer = _bearer(event)
            found[bearer][0] += one.n_bytes
            found[bearer][1] += one.new_bytes
            return
        for child in sorted(event.cpu_children, key=lambda e: e.time_range.start):
            visit(child)

    for root in sorted(roots, key=lambda e: e.time_range.start):
        visit(root)
    return {name: (moved / calls, new / calls) for name, (moved, new) in found.items()}


def _bearer(event: Any) -> str:
    """The name of the kernel on which an operator spent most: its own where it has no other."""
    below = [event, *_below([event])]
    launched = [kernel for one in below for kernel in one.kernels]
    if launched:
        return max(launched, key=lambda kernel: kernel.duration).name
    working = [one for one in below if kind_of(one.name) != BOOKKEEPING] or below
    return max(working, key=lambda one: one.self_cpu_time_total).name


def _below(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        for child in event.cpu_children:
            yield child
            yield from _below([child])


def _is_on_gpu(event: Any) -> bool:
    return event.device_type.name != "CPU"


def _is_annotation(event: Any) -> bool:
    return event.name == ANNOTATION or bool(event.is_user_annotation)


def _us(event: Any) -> float:
    return float(event.time_range.elapsed_us())


def _span_us(events: Sequence[Any]) -> float:
    return max(e.time_range.end for e in events) - min(e.time_range.start for e in events)


def _union_us(events: Sequence[Any]) -> float:
    """Time during which at least one of them ran: kernels of several streams overlap."""
    total = reached = 0.0
    for start, end in sorted((e.time_range.start, e.time_range.end) for e in events):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
