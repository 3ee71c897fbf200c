"""The timer on fake kernels of known length, in a time that passes by them alone."""

import gc
import itertools
import threading
import time
from dataclasses import replace

import pytest
import torch

from suites.measure import cold_cache, cpu_clock, processor
from suites.measure.clocks import clock_for, measure
from suites.measure.host_load import LEAST_SPAN_S, HostLoad
from suites.measure.samples import Samples, Settings

QUICK = Settings(budget_s=0.3, warmup_s=0.1, min_span_s=0.0)


def measure_on_cpu(call, clock="cpu_time", cache="hot", settings=QUICK, **more) -> Samples:
    return measure(call, device="cpu", clock=clock, cache=cache, settings=settings, **more)


class Asynchronous:
    """A call that starts 20 ms of work in 10 µs; `synchronize` waits for it."""

    def __init__(self, fake_time):
        self.fake_time, self.started = fake_time, 0

    def __call__(self):
        self.fake_time.compute(10e-6)
        self.started += 1

    def synchronize(self):
        self.fake_time.wait(0.02 * self.started)
        self.started = 0


def test_asynchronous_work_is_waited_for(fake_time):
    """Case T01, mlx-benchmark PR#21: without waiting, only the launch is measured."""
    call = Asynchronous(fake_time)
    clock = clock_for("cpu", synchronize=call.synchronize)
    samples = measure_on_cpu(call, clock=clock, synchronize=call.synchronize)
    assert clock == "wall"
    assert samples.samples_s == pytest.approx([0.02] * len(samples.samples_s), rel=1e-3)
    assert samples.first_call_s == pytest.approx(0.02, rel=1e-3)


def test_asynchronous_work_that_nobody_declared_is_flagged_contended(fake_time):
    assert "contended" in measure_on_cpu(lambda: fake_time.wait(0.02)).flags
    assert "contended" not in measure_on_cpu(lambda: fake_time.compute(0.02)).flags


@pytest.mark.parametrize(("waits_s", "is_contended"), [((0.5, 0.0), False), ((0.5, 0.3), True)])
def test_a_cell_is_contended_when_even_its_fastest_sample_waited(fake_time, waits_s, is_contended):
    """Of two calls of 1 s one or both wait: by 30 % of their CPU time, where 20 % are allowed."""
    wait_s = itertools.cycle(waits_s)

    def call():
        fake_time.compute(1.0)
        fake_time.wait(next(wait_s))

    samples = measure_on_cpu(call)
    assert ("contended" in samples.flags) == is_contended
    assert samples.timing()["median_s"] == pytest.approx(1.0)


def test_a_device_without_synchronize_is_refused():
    with pytest.raises(ValueError, match="xpu may be asynchronous"):
        measure(lambda: None, device="xpu", clock="wall", cache="hot", settings=QUICK)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"clock": "thread_time"}, 'clock "thread_time" is not known'),
        ({"clock": "cuda_event"}, "cannot see the work of cpu"),
        ({"cache": "warm"}, 'cache state "warm" is not known'),
        ({"cache": "graph"}, "needs CUDA"),
        ({"synchronize": lambda: None}, "needs the wall clock"),
    ],
)
def test_what_a_clock_cannot_do_is_refused(more, message):
    with pytest.raises(ValueError, match=message):
        measure_on_cpu(lambda: None, **more)


def test_cuda_is_timed_by_events_only():
    with pytest.raises(ValueError, match='clock "wall" cannot see the work of cuda'):
        measure(lambda: None, device="cuda", clock="wall", cache="hot", settings=QUICK)


def test_the_first_call_stands_in_its_own_column_for_every_cell(fake_time):
    """Case T03, triton#2306: compiling counted in the average. Twice: it is not once a process."""
    for _ in range(2):
        lengths_s = itertools.chain([0.3], itertools.repeat(0.001))
        samples = measure_on_cpu(lambda lengths_s=lengths_s: fake_time.compute(next(lengths_s)))
        timing = samples.timing()
        assert timing["first_call_s"] == pytest.approx(0.3, rel=1e-3)
        assert [timing["median_s"], timing["mean_s"]] == pytest.approx([0.001] * 2, rel=1e-3)


def test_a_call_of_ten_microseconds_is_timed_right(fake_time):
    samples = measure_on_cpu(lambda: fake_time.compute(10e-6))
    # 2 ms, the least length of a sample, hold 200 of them; one reading of the clock is inside.
    assert samples.calls_per_sample == pytest.approx(200, abs=2)
    assert samples.timing()["median_s"] == pytest.approx(10e-6, rel=1e-3)
    assert samples.timing()["n"] >= 10


def test_cpu_time_sees_the_worker_threads_of_a_library():
    def two_threads():
        worker = threading.Thread(target=busy_thread, args=(0.005,))
        worker.start()
        busy_thread(0.005)
        worker.join()

    def busy_thread(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    assert measure_on_cpu(two_threads).timing()["min_s"] >= 0.0099


def test_few_samples_of_a_slow_call_are_flagged_and_bounded(fake_time):
    """Case T12, intel-xpu-backend-for-triton PR#2142: run once, with NaN as its variance."""
    calls = []
    samples = measure_on_cpu(
        lambda: calls.append(fake_time.compute(0.1)),
        settings=replace(QUICK, budget_s=0.2, overrun=1.0),
    )
    assert len(samples.samples_s) == 3
    assert "low_n" in samples.flags
    assert samples.stop == "budget"
    assert len(calls) == 5, "the first call, one to warm up, and the samples"


def test_an_empty_call_is_near_the_floor():
    samples = measure_on_cpu(lambda: None)
    assert "near_floor" in samples.flags
    assert samples.floor_s is not None
    assert samples.floor_s > samples.timing()["median_s"]


def test_overhead_dominated_attention_is_near_the_floor():
    """Case T06, Triton PR#1893: T = 1, d_h = 8 is dispatch, not attention."""
    q = torch.randn(1, 1, 1, 8)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert "near_floor" in measure_on_cpu(lambda: attention(q, q, q)).flags


def test_gradients_are_dropped_before_every_single_call():
    order = []
    samples = measure_on_cpu(lambda: order.append("call"), before_each=lambda: order.append("drop"))
    assert order == ["drop", "call"] * (len(order) // 2)
    assert samples.calls_per_sample == 1


def test_a_first_call_made_by_the_caller_is_not_made_again(fake_time):
    calls = []
    samples = measure_on_cpu(lambda: calls.append(fake_time.compute(0.001)), first_call_s=7.5)
    assert samples.first_call_s == 7.5
    assert len(calls) == samples.warmup_n + len(samples.samples_s) * samples.calls_per_sample


def test_a_cold_cell_flushes_before_each_call_outside_the_clock(monkeypatch, fake_time):
    order = []

    def flush():
        order.append("flush")
        fake_time.compute(0.005)

    monkeypatch.setattr(cpu_clock, "cpu_flusher", lambda: flush)
    samples = measure_on_cpu(lambda: (order.append("call"), fake_time.compute(0.001)), cache="cold")
    n = len(samples.samples_s)
    assert samples.samples_s == pytest.approx([0.001] * n, rel=1e-3)
    assert order[-2 * n :] == ["flush", "call"] * n
    assert samples.calls_per_sample == 1


def test_the_flush_covers_twice_the_last_level_cache(monkeypatch):
    sizes = []
    real_zeros = torch.zeros
    monkeypatch.setattr(processor, "llc_bytes", lambda: 3 << 20)
    monkeypatch.setattr(
        torch, "zeros", lambda n, dtype: sizes.append(n * 8) or real_zeros(n, dtype=dtype)
    )
    cold_cache.cpu_flusher.cache_clear()
    cold_cache.cpu_flusher()()
    cold_cache.cpu_flusher.cache_clear()
    assert sizes == [6 << 20]


def test_what_a_call_raises_comes_out():
    def fail():
        raise MemoryError("no more")

    with pytest.raises(MemoryError):
        measure_on_cpu(fail)


def test_timing_has_the_fields_of_a_cell_and_keeps_1000_samples():
    samples = Samples(
        clock="cpu_time",
        cache="hot",
        samples_s=tuple(float(i) for i in range(1, 2002)),
        wall_samples_s=(),
        stop="precise",
        first_call_s=None,
        warmup_n=0,
        floor_s=None,
        calls_per_sample=1,
        host=HostLoad(None, None, 0, None),
    )
    timing = samples.timing(prepare_s=1.5)
    assert timing["median_s"] == 1001
    assert timing["first_ten_median_s"] == 5.5
    assert timing["prepare_s"] == 1.5
    assert timing["wall_median_s"] is None
    assert len(timing["samples_s"]) == 1000
    assert (timing["samples_s"][0], timing["samples_s"][-1]) == (1, 2001)


def test_nothing_but_readings_of_the_clock_lies_between_the_samples(fake_time):
    """Where the calls alone take time, their samples are all the time there was."""
    settings = Settings(budget_s=0.5, min_span_s=0.5)
    samples = measure_on_cpu(
        lambda: fake_time.compute(0.001), settings=settings, first_call_s=0.001
    )
    sampled_s = sum(samples.wall_samples_s) * samples.calls_per_sample
    assert sampled_s + samples.warmup_n * 0.001 == pytest.approx(fake_time.wall_s, rel=1e-3)


def test_a_budget_may_be_overrun_for_ten_samples_but_not_without_end():
    settings = replace(QUICK, budget_s=1.0, min_samples=10, least_samples=3, overrun=4.0)
    some, enough = [1.0] * 4, [1.0, 2.0] * 5
    assert settings.reason_to_stop(some, 1.5) is None
    assert settings.reason_to_stop(some, 4.0) == "budget"
    assert settings.reason_to_stop(some[:2], 9.0) is None
    assert settings.reason_to_stop(enough, 1.0) == "budget"


def test_a_fast_steady_call_is_sampled_over_a_span_of_time(fake_time):
    settings = Settings(min_span_s=0.25, budget_s=2.0)
    assert settings.reason_to_stop([1e-5] * 10, 0.249) is None
    assert settings.reason_to_stop([1e-5] * 10, 0.25) == "precise"
    samples = measure_on_cpu(lambda: fake_time.compute(0.002), settings=settings)
    # To be precise it needs ten; a span of 0.25 s holds 125.
    assert len(samples.samples_s) == pytest.approx(125, abs=15)


def test_on_the_wall_clock_samples_span_what_it_takes_to_know_of_others(fake_time):
    samples = measure_on_cpu(lambda: fake_time.compute(0.002), clock="wall")
    assert samples.calls_per_sample == 1
    assert sum(samples.wall_samples_s) == pytest.approx(LEAST_SPAN_S, rel=0.15)


def test_the_garbage_collector_is_off_inside_every_call_and_on_again_after(fake_time):
    seen = set()
    measure_on_cpu(lambda: seen.add(gc.isenabled()) or fake_time.compute(0.001), first_call_s=0.001)
    assert seen == {False}
    assert gc.isenabled()
