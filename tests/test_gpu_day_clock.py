"""The clock's self-test on a stand-in for a device: right on a right one, and each fault found."""

import json

import pytest

from suites.gpu_day import clock_test
from suites.gpu_day.conformance_sample import sampled
from suites.gpu_day.static_against_measured import beside, told
from suites.measure import cuda_clock
from suites.measure.samples import Settings
from tests.test_cuda_clock import CYCLES_PER_S, L2_BYTES, FakeCuda

SETTINGS = Settings(budget_s=5.0, min_span_s=0.0, warmup_s=0.05, max_samples=12)
READ_S, CACHED_READ_S = 1e-5, 6e-6


class CachingCuda(FakeCuda):
    """A device with an L2: what was read last is read faster, until a flush."""

    def __init__(self, fake_time):
        super().__init__()
        self.host = fake_time
        self.cached = None

    def flush_buffer(self, n_bytes):
        def read():
            self.work("read", CACHED_READ_S if self.cached == n_bytes else READ_S)
            self.cached = n_bytes if n_bytes <= self.l2_bytes else None

        return lambda: self.work("write", 1e-4), read

    def synchronize(self):
        self.host.now = max(self.host.now, self.now_s)
        super().synchronize()


class Host:
    """The host's clock, which waits for the device where it is told to."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def host(monkeypatch):
    found = Host()
    for module in (cuda_clock, clock_test):
        monkeypatch.setattr(module.time, "perf_counter", found.perf_counter)
    return found


def held_up_by(cuda):
    """Enqueueing takes the host so long; the device goes on meanwhile, and is then idle."""

    def sleep(seconds):
        cuda.host.now += seconds

    return sleep


def found_on(cuda):
    held = list(clock_test.on_cuda(cuda, SETTINGS, held_up_by(cuda)))
    assert tuple(one.name for one in held) == clock_test.ON_CUDA
    return {one.name: one for one in held}


def wrong_on(cuda):
    return [name for name, one in found_on(cuda).items() if not one.is_right]


def test_a_right_clock_on_a_right_device_is_held_right(host):
    found = found_on(CachingCuda(host))
    assert {name: one.told for name, one in found.items() if not one.is_right} == {}
    cold_to_hot = found["hot against cold"].times_s
    assert cold_to_hot == pytest.approx({"hot": CACHED_READ_S, "cold": READ_S})
    known = clock_test.KNOWN_CYCLES / CYCLES_PER_S
    assert found["known length"].times_s["four times"] == pytest.approx(4 * known + 2e-6)


def test_a_flush_that_leaves_the_cache_full_is_found(host):
    cuda = CachingCuda(host)
    cuda.l2_bytes = L2_BYTES
    real = cuda.flush_buffer
    cuda.flush_buffer = lambda n_bytes: (
        real(n_bytes) if n_bytes < L2_BYTES else (lambda: None, lambda: None)
    )
    assert wrong_on(cuda) == ["hot against cold"]


def test_events_that_run_slow_are_found(host):
    cuda = CachingCuda(host)
    real = cuda.event

    def slow():
        event = real()
        seconds_to = event.seconds_to
        event.seconds_to = lambda later: 0.9 * seconds_to(later)
        return event

    cuda.event = slow
    assert wrong_on(cuda) == ["host clock"]


def test_a_kernel_whose_length_does_not_follow_its_cycles_is_found(host):
    cuda = CachingCuda(host)
    real = cuda.spin
    # It is done after half a millisecond, whatever was asked: 800 000 cycles would take longer.
    cuda.spin = lambda cycles: real(min(cycles, 500_000) if cycles < 1e7 else cycles)
    assert "known length" in wrong_on(cuda)


def test_a_floor_that_is_no_floor_is_found(host):
    cuda = CachingCuda(host)
    real = cuda.work
    cuda.work = lambda name, seconds: real(name, seconds + (1e-4 if name == "empty kernel" else 0))
    assert "empty kernel" in wrong_on(cuda)


def test_a_host_that_is_never_told_to_be_slow_is_found(host, monkeypatch):
    monkeypatch.setattr(cuda_clock, "_LONGEST_SPIN_S", 10.0)
    assert wrong_on(CachingCuda(host)) == ["slow host"]


def test_on_a_cpu_what_needs_a_gpu_is_not_measured(monkeypatch, capsys):
    monkeypatch.setattr(
        clock_test,
        "on_cpu",
        lambda settings: [
            clock_test.Held("known length, CPU", True, "", {}),
            *(clock_test.Held(n, None, "not measured: no GPU", {}) for n in clock_test.ON_CUDA),
        ],
    )
    assert clock_test.main(["--device", "cpu"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["told"] == "1 of 6 right, 5 not measured: no GPU"
    assert [one["times_s"] for one in record["held"][1:]] == [{}] * 5


def test_a_beginning_of_the_sample_has_some_of_every_subject():
    from impls.interface.conformance_cases import cases

    every = cases()
    order = sampled(every)
    subjects = {case.subject for case in every}
    assert {case.subject for case in order[: len(subjects)]} == subjects
    assert sorted(case.id for case in order) == sorted(case.id for case in every)


def profile(**fields):
    bound = {"of": "mma", "overlap_percent": 80.0, "limited_by": "issue"}
    constants = {"IS_CAUSAL": True}
    return {"kernel": "k", "arch": "sm_90", "dtype": "bf16", "d_h": 64} | {
        "bound": bound,
        "constants": constants,
        **fields,
    }


def cell(time_s, **fields):
    problem = {"dtype": "bfloat16", "d_h": 64, "causal": True}
    return {
        "status": "ok",
        "pass": "forward",
        "ran": ["k"],
        "problem": problem,
        "counts": {"flop": 600},
        "timing": {"median_s": time_s},
    } | fields


def test_a_static_bound_stands_beside_the_best_row_that_ran_the_kernel():
    cells = [cell(2.0), cell(1.5), cell(0.1, ran=["k_hopper"]), cell(0.1, status="wrong")]
    (line,) = beside([profile()], cells, 1000.0)
    # 600 FLOP in 1.5 s are 400 a second: 40 % of 1000.
    assert (line["measured_percent"], line["bound_percent"]) == (pytest.approx(40.0), 80.0)
    assert line["is_within"] is True
    assert told([line], 3) == (
        "1 of 3 kernels measured, the best at 40 % of the peak where its code allows 80 %"
    )


def test_a_row_above_the_bound_of_its_code_is_told():
    (line,) = beside([profile()], [cell(0.7)], 1000.0)
    assert line["is_within"] is False
    assert told([line], 1).endswith("above its bound: k")


@pytest.mark.parametrize(
    ("cells", "peak", "reason"),
    [([], 1000.0, "no row ran it"), ([cell(1.0)], None, "the device's peak is not known")],
)
def test_what_is_not_measured_has_a_reason_and_no_number(cells, peak, reason):
    (line,) = beside([profile()], cells, peak)
    assert (line["measured_percent"], line["is_within"], line["reason"]) == (None, None, reason)
    assert told([line], 1) == f"1 kernels compiled; beside them: {reason}"
