"""Whose CPU time it was, from readings and a /proc/stat that are given."""

import os

import pytest

from suites.measure import host_load
from suites.measure.host_load import Reading, between

BEFORE = Reading(
    wall_s=100.0,
    user_s=7.0,
    system_s=2.0,
    minor_faults=50,
    involuntary_switches=3,
    busy_s=1000.0,
)
AFTER = Reading(
    wall_s=110.0,
    user_s=13.0,
    system_s=4.0,
    minor_faults=90,
    involuntary_switches=8,
    busy_s=1013.0,
)


@pytest.fixture
def stat(monkeypatch, tmp_path):
    """`stat(text)` is what /proc/stat says from now on."""

    def say(text):
        (tmp_path / "stat").write_text(text)

    monkeypatch.setattr(host_load, "Path", lambda name: tmp_path / name.removeprefix("/proc/"))
    monkeypatch.setattr(os, "sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    return say


def test_foreign_load_is_what_others_used_of_all_processors(monkeypatch):
    """13 s were busy, 8 of them ours: 5 of the 40 that four processors had in 10 s."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    found = between(BEFORE, AFTER, calls=20)
    assert found.foreign_load == pytest.approx(5 / 40)
    assert found.system_share == pytest.approx(2 / 8)
    assert (found.minor_faults_per_call, found.involuntary_switches) == (2.0, 5)


def test_waiting_for_the_disk_is_idle_and_stolen_time_is_busy(stat):
    # user nice system idle iowait irq softirq steal guest guest_nice; guests are in user already.
    stat("cpu  1000 200 300 40000 5000 60 70 80 900 90\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    assert host_load.read().busy_s == pytest.approx(17.1)


def test_a_machine_that_tells_nothing_has_no_foreign_load(stat):
    stat("cpu  what\n")
    assert between(BEFORE, host_load.read()).foreign_load is None
