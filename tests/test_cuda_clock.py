"""The order of what the CUDA clock asks of the device, on a recording stand-in for it."""

import pytest

from suites.measure import cuda_ceilings
from suites.measure.cuda_clock import measure_cuda
from suites.measure.samples import Settings

SETTINGS = Settings(budget_s=5.0, min_span_s=0.0, warmup_s=0.05, max_samples=40)
L2_BYTES = 50 << 20
CYCLES_PER_S = 1e9


class FakeEvent:
    def __init__(self, cuda):
        self.cuda = cuda
        cuda.log.append("new event")
        self.at_s = None

    def record(self):
        assert self.at_s is None, "an event that was recorded already"
        self.cuda.log.append("event")
        self.at_s = self.cuda.now_s

    def seconds_to(self, later):
        assert not self.cuda.log or self.cuda.is_idle, "read before the device was waited for"
        return later.at_s - self.at_s


class FakeCuda:
    """A device whose clock moves only by what is enqueued; it writes down every request."""

    def __init__(self):
        self.log = []
        self.now_s = 0.0
        self.is_idle = True
        self.l2_bytes = L2_BYTES
        self.buffers = []

    def event(self):
        return FakeEvent(self)

    def synchronize(self):
        self.log.append("synchronize")
        self.is_idle = True

    def flush_buffer(self, n_bytes):
        self.buffers.append(n_bytes)
        return lambda: self.work("write", 1e-4), lambda: self.work("read", 1e-4)

    def spin(self, cycles):
        self.work("spin" if cycles else "empty kernel", cycles / CYCLES_PER_S + 2e-6)

    def capture(self, calls):
        self.log.append(f"capture {len(calls)}")

        def replay():
            self.log.append("replay")
            for call in calls:
                call()

        return replay

    def work(self, name, seconds):
        self.log.append(name)
        self.now_s += seconds
        self.is_idle = False

    def call(self):
        self.work("call", 1e-3)

    def forget(self):
        self.log.append("gradients None")


def sampled(log):
    """What was asked for from the first flush on, up to the floor's empty kernels."""
    return log[log.index("write") : log.index("empty kernel")]


def batches(log):
    """The samples between two synchronisations, each as a list of requests."""
    text = " | ".join(entry for entry in log if entry != "new event")
    return [part.strip(" |").split(" | ") for part in text.split("synchronize") if "write" in part]


def test_a_cold_sample_is_flush_spin_event_call_event():
    cuda = FakeCuda()
    samples = measure_cuda(cuda.call, cuda=cuda, cache="cold", settings=SETTINGS)
    one = ["write", "read", "spin", "event", "call", "event"]
    for batch in batches(sampled(cuda.log)):
        assert batch == one * (len(batch) // len(one))
    assert samples.timing()["median_s"] == pytest.approx(1e-3)
    assert samples.clock == "cuda_event"


def test_gradients_are_none_before_the_flush_of_each_sample():
    cuda = FakeCuda()
    measure_cuda(cuda.call, cuda=cuda, cache="cold", settings=SETTINGS, before_each=cuda.forget)
    for batch in batches(cuda.log):
        for i, entry in enumerate(batch):
            if entry == "write":
                assert batch[i - 1] == "gradients None"


def test_one_synchronise_per_batch_not_per_sample():
    cuda = FakeCuda()
    samples = measure_cuda(cuda.call, cuda=cuda, cache="cold", settings=SETTINGS)
    found = batches(sampled(cuda.log))
    assert sum(batch.count("call") for batch in found) == len(samples.samples_s)
    assert all(1 <= batch.count("call") <= 16 for batch in found)
    assert max(batch.count("call") for batch in found) > 1


def test_flush_buffers_are_twice_the_real_l2():
    """Case T04, tritonbench PR#519: from the cache a call ran up to 1.6 times too fast."""
    cuda = FakeCuda()
    measure_cuda(cuda.call, cuda=cuda, cache="cold", settings=SETTINGS)
    assert cuda.buffers == [2 * L2_BYTES]


def test_nothing_is_made_between_the_events_of_a_sample():
    cuda = FakeCuda()
    measure_cuda(cuda.call, cuda=cuda, cache="cold", settings=SETTINGS)
    log = cuda.log
    for i, entry in enumerate(log):
        if entry == "call" and log[i - 1] == "event":
            assert log[i + 1] == "event"
    # Events are made for a whole batch, before its first flush.
    for batch in " ".join(log).split("synchronize"):
        if "write" in batch:
            assert "new event" not in batch[batch.index("write") :]


def test_a_hot_sample_is_not_flushed():
    cuda = FakeCuda()
    measure_cuda(cuda.call, cuda=cuda, cache="hot", settings=SETTINGS)
    assert "write" not in cuda.log
    assert cuda.buffers == []


def test_a_graph_replays_all_rotated_calls_and_divides():
    cuda = FakeCuda()
    samples = measure_cuda(
        cuda.call,
        cuda=cuda,
        cache="graph",
        settings=SETTINGS,
        rotated=[cuda.call] * 5,
        rotated_bytes=2 * L2_BYTES,
    )
    assert "capture 5" in cuda.log
    assert samples.calls_per_sample == 5
    assert samples.timing()["median_s"] == pytest.approx(1e-3)
    assert "warm" not in samples.flags


@pytest.mark.parametrize("rotated_bytes", [None, 2 * L2_BYTES - 1])
def test_a_graph_that_fits_into_the_l2_is_warm(rotated_bytes):
    cuda = FakeCuda()
    samples = measure_cuda(
        cuda.call,
        cuda=cuda,
        cache="graph",
        settings=SETTINGS,
        rotated=[cuda.call],
        rotated_bytes=rotated_bytes,
    )
    assert "warm" in samples.flags


def test_the_spin_outlasts_the_measured_host_time(fake_time):
    cuda = FakeCuda()
    spun = []
    real_spin = cuda.spin
    cuda.spin = lambda cycles: spun.append(cycles) or real_spin(cycles)

    def slow_to_enqueue():
        fake_time.compute(0.001)
        cuda.call()

    samples = measure_cuda(slow_to_enqueue, cuda=cuda, cache="cold", settings=SETTINGS)
    assert samples.host_s == pytest.approx(0.001, rel=1e-3)
    assert max(spun[2:]) / CYCLES_PER_S > 0.001
    assert "host_bound" not in samples.flags


def test_a_host_slower_than_the_longest_spin_is_host_bound(fake_time):
    cuda = FakeCuda()

    def very_slow_to_enqueue():
        fake_time.compute(0.012)
        cuda.call()

    samples = measure_cuda(
        very_slow_to_enqueue,
        cuda=cuda,
        cache="cold",
        settings=Settings(budget_s=0.2, max_samples=10, warmup_s=0.05),
    )
    assert "host_bound" in samples.flags


def test_the_floor_is_an_empty_kernel_behind_the_same_spin():
    cuda = FakeCuda()
    samples = measure_cuda(
        lambda: cuda.work("call", 5e-6), cuda=cuda, cache="cold", settings=SETTINGS
    )
    assert samples.floor_s == pytest.approx(2e-6)
    assert "near_floor" in samples.flags
    i = cuda.log.index("empty kernel")
    assert cuda.log[i - 2 : i + 2] == ["spin", "event", "empty kernel", "event"]


def test_the_first_call_is_timed_alone_and_waited_for():
    cuda = FakeCuda()
    samples = measure_cuda(cuda.call, cuda=cuda, cache="hot", settings=SETTINGS)
    assert cuda.log[:3] == ["synchronize", "call", "synchronize"]
    assert samples.first_call_s is not None


def test_a_slow_first_call_and_calls_that_warm_up_are_in_no_sample(fake_time):
    """The first compiles for half a second on the host; eight more find a device still slow."""
    cuda = FakeCuda()
    calls = []

    def warming_up():
        calls.append(1)
        if len(calls) == 1:
            fake_time.compute(0.5)
        cuda.work("call", 1e-3 if len(calls) > 9 else 1e-2 / len(calls))

    samples = measure_cuda(warming_up, cuda=cuda, cache="hot", settings=SETTINGS)
    assert samples.first_call_s == pytest.approx(0.5, rel=1e-3)
    assert samples.samples_s == pytest.approx([1e-3] * len(samples.samples_s))


def test_first_ten_and_steady_medians_are_both_kept():
    cuda = FakeCuda()
    calls = []

    def slows_down():
        calls.append(1)
        cuda.work("call", 1e-3 if len(calls) <= 40 else 2e-3)

    timing = measure_cuda(
        slows_down,
        cuda=cuda,
        cache="hot",
        settings=Settings(min_samples=200, max_samples=200, budget_s=60),
    ).timing()
    assert timing["first_ten_median_s"] == pytest.approx(1e-3)
    assert timing["median_s"] == pytest.approx(2e-3)


def test_a_ceiling_is_measured_sustained_and_spaced(monkeypatch):
    monkeypatch.setattr(cuda_ceilings, "_RAMP_S", 0.0)
    cuda = FakeCuda()
    rate = cuda_ceilings._rate(cuda, cuda.call, amount=2e9, cache="cold", size=4096)
    # 2e9 in 1 ms, whether alone or back to back: this device has no clock to boost.
    spaced, sustained = (rate.spaced, rate.median_spaced), (rate.sustained, rate.median_sustained)
    assert [*spaced, *sustained] == pytest.approx([2e12] * 4)
    # Back to back: 80 ms of calls of 1 ms between one pair of events, nothing between them.
    assert cuda.log[-82:] == ["event", *["call"] * 80, "event", "synchronize"][-82:]
