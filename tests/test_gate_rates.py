"""How often the gate is wrong, on real launches (tests/data/launches.md) and on synthetic ones.

Deterministic: nothing is timed here. Of as many runs as the promise needs the page has the rates,
and `test_gate_page.py` holds the page to them and them to the promise; here are a few.
"""

import numpy as np
import pytest

from results.gate import judge
from tests.launch_data import PLAN, drawn, launches, rates, suite_found, synthetic

SETS = ("quiet_malloc_q25", "quiet_malloc_min", "contended_malloc_q25", "contended_malloc_min")
# Least share of cells slowed by 5 % that is found.
FOUND = {
    "quiet_malloc_q25": 0.99,
    "quiet_malloc_min": 0.99,
    "contended_malloc_q25": 0.94,
    "contended_malloc_min": 0.96,
}


RUNS = 150


@pytest.mark.parametrize("name", SETS)
def test_unchanged_cells_pass(name):
    seen = rates(drawn(launches()[name], RUNS, ratio=1.0, seed=20261129))
    assert seen.failed_share <= 0.005
    # Confirming is what it costs: a fifth of the cells at the most.
    assert seen.suspects < 40


@pytest.mark.parametrize(
    "runs", [pytest.param(RUNS, id="short"), pytest.param(500, id="full", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", SETS)
def test_five_per_cent_in_ten_cells_is_found(name, runs):
    seen = rates(drawn(launches()[name], runs, ratio=1.05, seed=5))
    assert seen.found >= FOUND[name]
    assert seen.runs_with_false <= 0.005 * runs


@pytest.mark.parametrize("name", SETS)
def test_ten_per_cent_in_ten_cells_is_found(name):
    assert rates(drawn(launches()[name], RUNS, ratio=1.10, seed=10)).found >= 0.97


@pytest.mark.parametrize("name", SETS)
def test_a_suite_that_is_slower_everywhere_is_found(name):
    """Taking away what cells share would hide it altogether."""
    assert suite_found(launches()[name], RUNS // 10, ratio=1.05, seed=200) >= 0.95


@pytest.mark.parametrize("summary", ["q25", "min", "median"])
def test_the_real_injection_is_found_and_nothing_else(summary):
    real = launches()
    judged = judge(real[f"inj_malloc_A_{summary}"], real[f"inj_malloc_B_{summary}"], PLAN)
    named = set(np.flatnonzero(judged.verdict == "regressed"))
    injected = set(real["injected_case_index"])
    assert len(named & injected) >= 19
    assert named <= injected
    # The other way round it is an improvement, and no failure.
    back = judge(real[f"inj_malloc_B_{summary}"], real[f"inj_malloc_A_{summary}"], PLAN)
    assert not (back.verdict == "regressed").any()
    assert len(set(np.flatnonzero(back.verdict == "improved")) & injected) >= 19


@pytest.mark.parametrize("noise", [0.01, 0.015, 0.03])
def test_synthetic_unchanged_runs_pass(noise):
    """Heavy tails, slow windows, drift, outliers, two-peaked and tied cells."""
    seen = rates(synthetic(100, noise=noise, seed=int(1e4 * noise)))
    assert seen.failed_share <= 0.01


def test_launches_counted_four_times_would_fail_here():
    """The proof bites: what pools dependent samples cries wolf on the same launches."""
    failed = 0
    for base, head, _ in drawn(launches()["contended_malloc_q25"], 100, ratio=1.0, seed=3):
        again = np.r_[0:5, np.tile(np.arange(5), 4)]
        judged = judge(base[again], head[again], PLAN)
        failed += bool((judged.verdict == "regressed").any())
    assert failed > 20
