"""The timer on fake kernels of known length."""

import gc
import itertools
import threading
import time
from dataclasses import replace

import pytest
import torch

from suites.measure import cold_cache, cpu_clock, processor
from suites.measure.clocks import clock_for, measure
from suites.measure.host_load import HostLoad
from suites.measure.samples import Samples, Settings

QUICK = Settings(budget_s=0.3, warmup_s=0.1, min_span_s=0.0)


def busy(seconds):
    """Burn CPU time of this process for so long."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def measure_on_cpu(call, clock="cpu_time", cache="hot", settings=QUICK, **more) -> Samples:
    return measure(call, device="cpu", clock=clock, cache=cache, settings=settings, **more)


class Asynchronous:
    """A call that starts a 20 ms worker and returns at once; `synchronize` waits for it."""

    def __init__(self):
        self.workers = []

    def __call__(self):
        worker = threading.Thread(target=time.sleep, args=(0.02,))
        worker.start()
        self.workers.append(worker)

    def synchronize(self):
        while self.workers:
            self.workers.pop().join()


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_asynchronous_work_is_waited_for(name):
    """mlx-benchmark PR#21, pytorch PR#177765: without waiting, only the launch is measured."""
    call = Asynchronous()
    clock = clock_for("cpu", synchronize=call.synchronize)
    samples = measure_on_cpu(call, clock=clock, synchronize=call.synchronize)
    assert clock == "wall"
    assert min(samples.samples_s) >= 0.02, name
    assert samples.timing()["median_s"] < 0.04
    assert samples.first_call_s is not None
    assert samples.first_call_s >= 0.02


def test_asynchronous_work_that_nobody_declared_is_flagged_contended():
    samples = measure_on_cpu(lambda: time.sleep(0.02))
    assert "contended" in samples.flags


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


def test_the_first_call_stands_in_its_own_column_for_every_cell():
    """triton#2306: compiling counted in the average. Twice, since it is not once per process."""
    for _ in range(2):
        lengths_s = itertools.chain([0.3], itertools.repeat(0.001))
        samples = measure_on_cpu(lambda lengths_s=lengths_s: busy(next(lengths_s)))
        timing = samples.timing()
        assert timing["first_call_s"] >= 0.29
        assert 0.001 <= timing["median_s"] <= 0.0012
        assert 0.001 <= timing["mean_s"] <= 0.0012


def test_a_call_of_ten_microseconds_is_timed_right():
    def ten_microseconds():
        end = time.perf_counter() + 10e-6
        while time.perf_counter() < end:
            pass

    samples = measure_on_cpu(ten_microseconds)
    assert samples.calls_per_sample >= 50
    # The loop's last look at the clock may come late, never early.
    assert 9.5e-6 <= samples.timing()["q1_s"] <= 12e-6
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

    assert measure_on_cpu(two_threads).timing()["min_s"] >= 0.010


def test_few_samples_of_a_slow_call_are_flagged_and_bounded():
    began = time.perf_counter()
    samples = measure_on_cpu(lambda: busy(0.1), settings=replace(QUICK, budget_s=0.2, overrun=1.0))
    assert len(samples.samples_s) == 3
    assert "low_n" in samples.flags
    assert samples.stop == "budget"
    assert time.perf_counter() - began < 5


def test_an_empty_call_is_near_the_floor():
    samples = measure_on_cpu(lambda: None)
    assert "near_floor" in samples.flags
    assert samples.floor_s is not None
    assert samples.floor_s > samples.timing()["median_s"]


def test_overhead_dominated_attention_is_near_the_floor():
    """Triton PR#1893: T = 1, d_h = 8 is dispatch, not attention."""
    q = torch.randn(1, 1, 1, 8)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert "near_floor" in measure_on_cpu(lambda: attention(q, q, q)).flags


def test_gradients_are_dropped_before_every_single_call():
    order = []
    samples = measure_on_cpu(lambda: order.append("call"), before_each=lambda: order.append("drop"))
    assert order == ["drop", "call"] * (len(order) // 2)
    assert samples.calls_per_sample == 1


def test_a_first_call_made_by_the_caller_is_not_made_again():
    calls = []
    samples = measure_on_cpu(lambda: calls.append(busy(0.001)), first_call_s=7.5)
    assert samples.first_call_s == 7.5
    assert len(calls) == samples.warmup_n + len(samples.samples_s) * samples.calls_per_sample


def test_a_cold_cell_flushes_before_each_call_outside_the_clock(monkeypatch):
    order = []
    monkeypatch.setattr(cpu_clock, "cpu_flusher", lambda: lambda: order.append("flush"))
    samples = measure_on_cpu(lambda: (order.append("call"), busy(0.001)), cache="cold")
    n = len(samples.samples_s)
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


def test_harness_time_is_small_beside_a_call_of_one_millisecond(capsys):
    """Printed, not asserted: the machine may be shared."""
    began = time.perf_counter()
    settings = Settings(budget_s=0.5, min_span_s=0.5)
    samples = measure_on_cpu(lambda: busy(0.001), settings=settings, first_call_s=0.001)
    elapsed_s = time.perf_counter() - began
    sampled_s = sum(samples.wall_samples_s) * samples.calls_per_sample
    warm_s = samples.warmup_n * samples.timing()["wall_median_s"]
    with capsys.disabled():
        harness = max(0.0, elapsed_s - sampled_s - warm_s) / elapsed_s
        print(f"\nharness: {harness:.1%} of the cell's time")
    assert sampled_s < elapsed_s


def test_a_budget_may_be_overrun_for_ten_samples_but_not_without_end():
    settings = replace(QUICK, budget_s=1.0, min_samples=10, least_samples=3, overrun=4.0)
    some, enough = [1.0] * 4, [1.0, 2.0] * 5
    assert settings.reason_to_stop(some, 1.5) is None
    assert settings.reason_to_stop(some, 4.0) == "budget"
    assert settings.reason_to_stop(some[:2], 9.0) is None
    assert settings.reason_to_stop(enough, 1.0) == "budget"


def test_a_fast_steady_call_is_sampled_over_a_span_of_time():
    settings = Settings(min_span_s=0.25, budget_s=2.0)
    assert settings.reason_to_stop([1e-5] * 10, 0.249) is None
    assert settings.reason_to_stop([1e-5] * 10, 0.25) == "precise"
    began = time.perf_counter()
    measure_on_cpu(lambda: busy(0.002), settings=replace(settings, warmup_s=0.01))
    assert time.perf_counter() - began >= 0.25


def test_the_garbage_collector_is_off_inside_every_call_and_on_again_after():
    seen = set()
    measure_on_cpu(lambda: seen.add(gc.isenabled()) or busy(0.001), first_call_s=0.001)
    assert seen == {False}
    assert gc.isenabled()
