"""Statistics of samples, and of the host, on series with known answers."""

from dataclasses import replace

import pytest

from suites.measure.evidence import is_precise, is_steady, lower_rank, summarize, thin
from suites.measure.host_load import Reading, between
from suites.measure.samples import Settings


def test_summary_of_a_known_series():
    # 1…11: quartiles by linear interpolation (Hyndman & Fan type 7). Rank 2 of 11:
    # 2·P(Bin(11, ½) < 2) = 2·12/2048 = 0.012 ≤ 0.05, and rank 3 would miss 2·67/2048 = 0.065.
    summary = summarize([float(i) for i in (11, 3, 1, 2, 5, 4, 6, 8, 7, 10, 9)])
    assert (summary.min, summary.q1, summary.median, summary.q3) == (1, 3.5, 6, 8.5)
    assert (summary.ci_low, summary.ci_high) == (2, 10)
    assert summary.mean == 6
    assert summary.half_width == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    # Tables of the sign test at 5 %, two-sided (Conover, table A3), rank = critical value + 1.
    ("n", "rank"),
    [(5, None), (6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (50, 18), (100, 40)],
)
def test_ranks_of_the_interval_are_those_of_the_sign_test(n, rank):
    assert lower_rank(n) == rank


def test_the_approximate_ranks_join_the_exact_ones():
    assert [lower_rank(n) for n in (200, 201)] == [86, 87]


def test_three_samples_have_no_interval():
    summary = summarize([1.0, 1.0, 1.0])
    assert summary.ci_low is None
    assert not is_precise([1.0, 1.0, 1.0], 0.5)


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_steady_needs_two_windows_that_agree():
    assert not is_steady([1.0] * 5, 3, 0.05)
    assert is_steady([9.0, 1.0, 1.0, 1.0, 1.01, 1.0, 1.02], 3, 0.05)
    assert not is_steady([2.0, 2.0, 2.0, 1.0, 1.0, 1.0], 3, 0.05)


def test_thinning_keeps_the_ends_and_is_even():
    assert thin(range(11), 3) == [0, 5, 10]
    assert thin([1, 2], 3) == [1, 2]


def test_settings_stop_for_three_reasons():
    settings = Settings(min_samples=10, max_samples=30, budget_s=1.0, min_span_s=0.1)
    steady, noisy = [1.0] * 10, [1.0, 2.0] * 15
    assert settings.reason_to_stop(steady, 0.2) == "precise"
    assert settings.reason_to_stop(steady, 0.05) is None, "not spread over min_span_s yet"
    assert settings.reason_to_stop(steady[:9], 0.2) is None
    assert settings.reason_to_stop(noisy[:12], 0.5) is None
    assert settings.reason_to_stop(noisy[:12], 1.0) == "budget"
    assert settings.reason_to_stop(noisy[:2], 9.0) is None, "three samples come first"
    assert settings.reason_to_stop(noisy, 0.5) == "max_samples"


@pytest.mark.parametrize("wrong", [{"target": 0}, {"min_samples": 2}, {"budget_s": 0}])
def test_settings_without_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)


def test_foreign_load_is_what_others_used(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    before = Reading(0.0, 0.0, 0.0, 100, 5, busy_s=10.0)
    # In one second of two CPUs all used 1.5 s, we 1 s (a fifth of it in the kernel).
    after = Reading(1.0, 0.8, 0.2, 300, 9, busy_s=11.5)
    load = between(before, after, calls=100)
    assert load.foreign_load == pytest.approx(0.25)
    assert load.system_share == pytest.approx(0.2)
    assert (load.minor_faults_per_call, load.involuntary_switches) == (2.0, 4)


def test_foreign_load_of_a_moment_is_unknown():
    before = Reading(0.0, 0.0, 0.0, 0, 0, busy_s=10.0)
    assert between(before, replace(before, wall_s=0.001)).foreign_load is None
    assert between(before, replace(before, wall_s=9.0, busy_s=None)).foreign_load is None
