"""The few CUDA calls the clock makes, as one small object that a test can replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from suites.measure.cold_cache import flush_bytes


class Event(Protocol):
    """A moment on the device's own clock."""

    def record(self) -> None:
        """Enqueue the moment."""
        ...

    def seconds_to(self, later: Event) -> float:
        """Seconds between two moments that have passed."""
        ...


class Cuda(Protocol):
    """What the clock needs of a CUDA device."""

    l2_bytes: int

    def event(self) -> Event:
        """A new event."""
        ...

    def synchronize(self) -> None:
        """Wait until everything enqueued is done."""
        ...

    def flush_buffer(self, n_bytes: int) -> tuple[Callable[[], None], Callable[[], None]]:
        """Two functions that enqueue a write of one buffer and a read of another."""
        ...

    def spin(self, cycles: int) -> None:
        """Enqueue a kernel that does nothing for so many clock cycles."""
        ...

    def capture(self, calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
        """A function that replays `calls` from one CUDA graph."""
        ...


class TorchCuda:
    """The CUDA device torch uses now."""

    def __init__(self) -> None:
        device = torch.cuda.current_device()
        self.l2_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)

    def event(self) -> Event:
        """A new event."""
        return _TorchEvent()

    def synchronize(self) -> None:
        """Wait until everything enqueued is done."""
        torch.cuda.synchronize()

    def flush_buffer(self, n_bytes: int) -> tuple[Callable[[], None], Callable[[], None]]:
        """Two functions that enqueue a write of one buffer and a read of another.

        The read leaves clean lines: after a write alone, the write-back of dirty lines would
        land inside the clock.
        """
        written = torch.empty(n_bytes // 4, dtype=torch.int32, device="cuda")
        read = torch.zeros(n_bytes // 4, dtype=torch.int32, device="cuda")
        # amax reads each byte once and writes one number, into memory that is kept.
        largest = torch.empty((), dtype=torch.int32, device="cuda")

        def write() -> None:
            written.zero_()

        def read_all() -> None:
            torch.amax(read, dim=(0,), out=largest)

        return write, read_all

    def spin(self, cycles: int) -> None:
        """Enqueue a kernel that does nothing for so many clock cycles."""
        torch.cuda._sleep(cycles)

    def capture(self, calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
        """A function that replays `calls` from one CUDA graph."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        # Libraries make their workspaces at the first call on a stream; captured, that fails.
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph.replay


class _TorchEvent:
    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)

    def record(self) -> None:
        self.event.record()

    def seconds_to(self, later: Event) -> float:
        assert isinstance(later, _TorchEvent)
        return self.event.elapsed_time(later.event) / 1e3


def least_flush_bytes(cuda: Cuda) -> int:
    """Bytes of the flush buffers: twice the device's real L2, which a fixed size would miss."""
    return flush_bytes(cuda.l2_bytes)
