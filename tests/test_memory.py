"""Peak memory of one call: its own, in any order; null where unknown."""

import pytest
import torch

from suites.measure.executed import executed
from suites.measure.memory import UNKNOWN, Peak, cuda_peak, peak_of_events
from suites.session.memory_needed import size_text

MB = 1_000_000


def allocates(n_bytes):
    return lambda: torch.empty(n_bytes, dtype=torch.uint8)


@pytest.mark.parametrize("order", [(600, 10), (10, 600)])
def test_the_peak_is_each_calls_own_in_either_order(order):
    """Case R03, pytorch#15968: every case after the largest shows the same peak."""
    peaks = [executed(allocates(n * MB)).memory.peak_bytes for n in order]
    assert peaks == [pytest.approx(n * MB, rel=0.01) for n in order]


def test_the_formula_holds_scores_and_probabilities_at_once():
    T = 256
    q = torch.randn(1, 1, T, 8)
    peak = executed(lambda: (q @ q.transpose(-1, -2)).softmax(-1) @ q).memory.peak_bytes
    # S (T, T) and P (T, T) in float32; S lives until the softmax has returned.
    assert peak == pytest.approx(2 * T * T * 4, rel=0.05)


def test_what_is_released_does_not_count_any_more():
    def one_after_the_other():
        for _ in range(3):
            torch.empty(5 * MB, dtype=torch.uint8)

    assert executed(one_after_the_other).memory.peak_bytes == 5 * MB


def test_peak_of_events_is_the_highest_running_sum():
    # +5 +7 −5 +2: 5, 12, 7, 9. Given out of order on purpose.
    assert peak_of_events([(30, -5), (10, 5), (20, 7), (40, 2)]).peak_bytes == 12


def test_inputs_released_before_do_not_hide_the_peak():
    # 100 bytes of before are released and make room: −100, then +60 over what was held.
    assert peak_of_events([(1, -100), (2, 160)]).peak_bytes == 60


def test_no_events_are_unknown_not_zero():
    assert peak_of_events([]) is UNKNOWN
    assert set(UNKNOWN.to_json().values()) == {None}


def test_on_a_cpu_reserved_memory_is_null():
    """Case R05, VoiceStudio PR#1555: without CUDA torch says 0, which is no measurement."""
    assert executed(allocates(MB)).memory == Peak(MB, None, "profiler", 1, MB)


class FakeCudaMemory:
    """torch.cuda's memory statistics, with a peak that stays until it is reset."""

    def __init__(self):
        self.allocated, self.peak, self.reserved, self.log = 100, 999, 2048, []

    def synchronize(self):
        self.log.append("synchronize")

    def empty_cache(self):
        self.log.append("empty_cache")

    def reset_peak_memory_stats(self):
        self.log.append("reset")
        self.peak = self.allocated

    def memory_stats(self):
        asked = self.log.count("call")
        return {"allocation.all.allocated": 7 + asked, "allocated_bytes.all.allocated": 30 * asked}

    def memory_allocated(self):
        return self.allocated

    def max_memory_allocated(self):
        return self.peak

    def max_memory_reserved(self):
        return self.reserved


def test_on_cuda_the_peak_is_reset_and_both_figures_are_kept(monkeypatch):
    cuda = FakeCudaMemory()
    for name in (
        "synchronize",
        "empty_cache",
        "reset_peak_memory_stats",
        "memory_allocated",
        "max_memory_allocated",
        "max_memory_reserved",
        "memory_stats",
    ):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))

    def call():
        cuda.log.append("call")
        cuda.peak = max(cuda.peak, cuda.allocated + 30)

    assert cuda_peak(call) == Peak(30, 2048, "torch allocator", 1, 30)
    assert cuda.log == ["synchronize", "empty_cache", "reset", "call", "synchronize"]


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(17.18e9, "17.2 GB"), (1_638.4e9, "1.64 TB"), (640_001.6e12, "640 PB"), (7e19, "70,000 PB")],
)
def test_sizes_are_told_in_units_that_people_read(n_bytes, text):
    assert size_text(int(n_bytes)) == text
