"""What the clock's CUDA calls ask of torch, on a recording stand-in for `torch.cuda`."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from suites.measure.cuda_api import TorchCuda, least_flush_bytes
from suites.measure.cuda_clock import measure_cuda
from suites.measure.samples import Settings

L2_BYTES = 1 << 20
MAIN = "main"
SETTINGS = Settings(budget_s=5.0, min_span_s=0.0, warmup_s=0.01, max_samples=20)


class FakeTorchCuda:
    """`torch.cuda` with streams; `log` has what was enqueued, as (stream, what)."""

    def __init__(self):
        self.log = []
        self.stream_now = MAIN
        self.now_ms = 0.0
        self.captured = None
        cuda = self

        class Event:
            def __init__(self, enable_timing=False):
                assert enable_timing, "an event that cannot be read"
                self.at_ms = None

            def record(self, stream=None):
                assert self.at_ms is None, "an event that was recorded already"
                cuda.enqueue("event", 0.0, stream)
                self.at_ms = cuda.now_ms

            def elapsed_time(self, later):
                assert cuda.log[-1][1] == "synchronize", "read before the device was waited for"
                return later.at_ms - self.at_ms

        class Stream:
            def __init__(self, name=None):
                self.name = name or f"side {id(self)}"

            def wait_stream(self, other):
                cuda.log.append((self.name, f"wait for {other.name}"))

        self.Event, self.Stream, self.CUDAGraph = Event, Stream, object

    def enqueue(self, what, ms, stream=None):
        where = self.stream_now if stream is None else stream
        self.log.append((where if isinstance(where, str) else where.name, what))
        self.now_ms += ms

    def current_device(self):
        return 0

    def get_device_properties(self, device):
        return SimpleNamespace(L2_cache_size=L2_BYTES)

    def current_stream(self):
        return self.Stream(self.stream_now)

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.stream_now = self.stream_now, stream.name
        yield
        self.stream_now = before

    def synchronize(self):
        self.log.append((None, "synchronize"))

    def _sleep(self, cycles):
        self.enqueue("spin", 1e-6 * cycles + 2e-3)


@pytest.fixture
def fake(monkeypatch):
    found = FakeTorchCuda()
    for name in ("Event", "Stream", "CUDAGraph", "current_device", "get_device_properties"):
        monkeypatch.setattr(torch.cuda, name, getattr(found, name))
    for name in ("current_stream", "stream", "synchronize", "_sleep"):
        monkeypatch.setattr(torch.cuda, name, getattr(found, name))
    for name in ("empty", "zeros"):
        made = getattr(torch, name)
        # The same memory, on the processor.
        monkeypatch.setattr(torch, name, lambda *a, made=made, device=None, **k: made(*a, **k))
    return found


def test_every_event_and_kernel_of_a_sample_is_on_the_stream_of_the_call(fake):
    samples = measure_cuda(
        lambda: fake.enqueue("call", 1.0), cuda=TorchCuda(), cache="cold", settings=SETTINGS
    )
    assert {stream for stream, what in fake.log if what != "synchronize"} == {MAIN}
    assert samples.timing()["median_s"] == pytest.approx(1e-3)


def test_no_event_is_used_twice_and_none_is_read_too_early(fake):
    """The stand-in refuses both; that it does is shown by doing so."""
    cuda = TorchCuda()
    measure_cuda(lambda: fake.enqueue("call", 1.0), cuda=cuda, cache="hot", settings=SETTINGS)
    event, later = cuda.event(), cuda.event()
    event.record()
    with pytest.raises(AssertionError, match="recorded already"):
        event.record()
    later.record()
    with pytest.raises(AssertionError, match="waited for"):
        event.seconds_to(later)


def test_the_buffers_that_are_written_and_read_are_twice_the_real_l2(fake, monkeypatch):
    cuda = TorchCuda()
    assert least_flush_bytes(cuda) == 2 * L2_BYTES
    written, read = [], []
    zero, amax = torch.Tensor.zero_, torch.amax
    monkeypatch.setattr(torch.Tensor, "zero_", lambda t: written.append(t.nbytes) or zero(t))
    monkeypatch.setattr(torch, "amax", lambda t, **k: read.append(t.nbytes) or amax(t, **k))
    for one in cuda.flush_buffer(least_flush_bytes(cuda)):
        one()
    assert (written, read) == ([2 * L2_BYTES], [2 * L2_BYTES])


def test_a_flush_asks_for_no_memory(fake):
    write, read = TorchCuda().flush_buffer(2 * L2_BYTES)
    profiled: Any = torch.autograd.profiler.profile(use_kineto=True, profile_memory=True)
    with profiled:
        write()
        read()
    results = profiled.kineto_results
    asked = [e.nbytes() for e in results.events() if e.name() == "[memory]"]
    assert [n for n in asked if n > 0] == []


def test_a_graph_is_captured_after_its_calls_ran_once_on_a_stream_that_is_waited_for(
    fake, monkeypatch
):
    @contextlib.contextmanager
    def graph(_):
        fake.log.append((None, "capture"))
        yield
        fake.log.append((None, "captured"))

    class Graph:
        def replay(self):
            fake.enqueue("replay", 1.0)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    calls = [lambda n=n: fake.enqueue(f"call {n}", 1.0) for n in range(3)]
    replay = TorchCuda().capture(calls)
    asked = [what for _, what in fake.log]
    begin, end = asked.index("capture"), asked.index("captured")
    assert asked[begin + 1 : end] == ["call 0", "call 1", "call 2"]
    before = fake.log[:begin]
    (side,) = {stream for stream, what in before if what.startswith("call")}
    assert side != MAIN
    # The side stream waits for what was there, and what follows for the side stream.
    assert before[0] == (side, f"wait for {MAIN}")
    assert before[-2:] == [(MAIN, f"wait for {side}"), (None, "synchronize")]
    replay()
    assert fake.log[-1] == (MAIN, "replay")
