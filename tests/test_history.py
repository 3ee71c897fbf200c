"""Series of nights: when a level changed, how often that is imagined, and what is made of it."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import ruptures

from results import changepoints
from results.changepoints import change_points
from results.history import Series, alerts, all_series, events
from results.store import load_run
from tests.fake_launches import NAMES, noisy, write_side
from tests.nights import NIGHTS, flat_share, found_share, nightly

# A few: of 400 series docs/gate.md has the rates, and test_gate_page.py what they must be.
SERIES = 60


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_a_flat_series_is_left_alone(noise):
    assert flat_share(SERIES, noise) <= 0.01


def test_a_step_is_found_within_five_nights_on_a_quiet_machine():
    assert found_share(SERIES, 0.01, 5) >= 0.95


def test_a_step_is_found_within_ten_nights_on_a_noisy_machine():
    assert found_share(SERIES, 0.02, 10) >= 0.8


@pytest.mark.slow
def test_a_flat_series_is_left_alone_night_after_night():
    """Looked at anew every night from the tenth on, as a schedule does."""
    rng = np.random.default_rng(60)
    alerted = 0
    for _ in range(40):
        times = nightly(rng, 0.01)
        alerted += any(
            any(p.ratio > 1 for p in change_points(times[:n])) for n in range(10, NIGHTS + 1)
        )
    assert alerted <= 2


def test_the_search_is_ruptures_own():
    """The table of levels gives the segments that ruptures' PELT does, before any is dropped."""
    rng = np.random.default_rng(1)
    times = nightly(rng, 0.01, 1.10, 30)
    logs = np.log(times)
    scale = np.median(np.abs(np.diff(logs))) / (0.6745 * math.sqrt(2))
    assert [point.index for point in change_points(times)] == by_ruptures(logs / scale) == [30]
    for _ in range(20):
        values = rng.standard_normal(int(rng.integers(6, 60)))
        values[rng.integers(len(values)) :] += rng.uniform(0, 8)
        penalty = changepoints._PENALTY * math.log(len(values))
        found = changepoints._segments(values, changepoints.CONFIRMING_NIGHTS + 1, penalty)
        assert found[1:-1] == by_ruptures(values)


def by_ruptures(values) -> list[int]:
    """The indices at which segments begin, by the published algorithm of another's hand."""
    search = ruptures.Pelt(model="l1", min_size=3, jump=1).fit(values)
    return search.predict(pen=changepoints._PENALTY * math.log(len(values)))[:-1]


def test_thousands_of_nights_take_less_than_seconds():
    """Segments' own costs, n² of them, would take 200 MB and minutes here."""
    rng = np.random.default_rng(5)
    times = np.exp(0.01 * rng.standard_normal(4000))
    times[2500:] *= 1.04
    begin = time.process_time()
    (point,) = change_points(times)
    assert point.index == pytest.approx(2500, abs=3)
    assert time.process_time() - begin < 2


def test_a_new_level_needs_two_more_nights():
    rng = np.random.default_rng(2)
    times = nightly(rng, 0.002, 1.2, 30)
    assert change_points(times[:31]) == [] == change_points(times[:32])
    (point,) = change_points(times[:33])
    assert (point.index, point.nights) == (30, 3)
    assert point.ratio == pytest.approx(1.2, rel=0.02)


def test_two_outliers_side_by_side_are_no_level():
    times = np.exp(0.005 * np.random.default_rng(3).standard_normal(40))
    times[20:22] *= 1.3
    times[38:] *= 1.3
    assert change_points(times) == []


def test_up_and_down_again_are_two_changes_and_a_step_below_three_per_cent_none():
    level = np.r_[np.full(20, 1.0), np.full(10, 1.2), np.full(15, 1.01)]
    times = level * np.exp(0.003 * np.random.default_rng(4).standard_normal(45))
    up, down = change_points(times)
    assert (up.index, down.index) == (20, 30) and up.ratio > 1 > down.ratio
    small = np.r_[np.full(20, 1.0), np.full(20, 1.02)]
    assert change_points(small * np.exp(0.001 * np.random.default_rng(5).standard_normal(40))) == []


def test_a_clock_of_coarse_steps_and_a_short_series_are_no_trouble():
    assert change_points([1e-3] * 30) == []
    (point,) = change_points([1e-3] * 10 + [2e-3] * 5)
    assert (point.index, point.ratio) == (10, 2.0)
    assert change_points([1e-3, 2e-3, 3e-3]) == []
    with pytest.raises(ValueError, match="not positive"):
        change_points([1e-3] * 10 + [math.nan])


@pytest.fixture
def nights(tmp_path):
    """`nights(levels, …)` are runs, one a night, of three cells times the night's levels."""

    def make(levels, **keywords):
        runs = []
        for night, level in enumerate(levels, start=1):
            times = noisy(1, seed=night, noise=0.003) * level
            path = write_side(tmp_path, times, day=night, commit=f"{night:07d}", **keywords)
            runs.append(load_run(path))
        return runs

    return make


def test_cells_that_change_together_are_one_event_between_two_commits(nights):
    levels = [np.array([1, 1, 1])] * 8 + [np.array([1.3, 1, 1.1])] * 4
    runs = nights(levels)
    series = all_series(reversed(runs))
    assert {len(one.nights) for one in series} == {12} and len(series) == 3
    (event,) = events(series)
    assert (event.after_commit, event.until_commit) == ("0000008", "0000009")
    assert [step.series.name.split(" ")[0] for step in event.steps] == ["naive", "sdpa_flash"]
    assert event.is_slower and [step.age for step in event.steps] == [4, 4]
    assert alerts([event], within=10) == [event] and alerts([event], within=3) == []


def test_what_is_over_again_calls_nobody(nights):
    levels = [np.ones(3)] * 8 + [np.array([1.3, 1, 1])] * 5 + [np.ones(3)] * 5
    newest, older = events(all_series(nights(levels)))
    assert not newest.is_slower and older.is_slower
    assert alerts([newest, older], within=100) == []


def test_another_method_begins_another_part(nights, tmp_path):
    runs = nights([np.ones(3)] * 6)
    for night in range(7, 13):
        path = write_side(
            tmp_path,
            2 * noisy(1, seed=night),
            day=night,
            change=lambda header: header["settings"].update(warmup_s=9.0),
        )
        runs.append(load_run(path))
    series = all_series(runs)
    assert sorted(one.part for one in series) == [1, 1, 1, 2, 2, 2]
    assert events(series) == []


def test_machines_do_not_mix_and_flagged_rows_are_left_out(nights, tmp_path):
    runs = nights([np.ones(3)] * 3)
    path = write_side(tmp_path, 2 * noisy(1), day=9, machine_key="other")

    def contend(lines):
        return [line | {"flags": ["contended"]} for line in lines]

    flagged = write_side(tmp_path, 2 * noisy(1), day=10, alter=contend)
    series = all_series([*runs, load_run(path), load_run(flagged)])
    lengths = {(one.machine_key, len(one.nights)) for one in series}
    assert lengths == {("cpu-0123456789ab", 3), ("other", 1)}
    assert all(isinstance(one, Series) for one in series) and len(series) == 2 * len(NAMES)
