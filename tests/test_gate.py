"""The gate on arrays: exact p, intervals, families, feasibility, and each verdict's reason."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from results.gate import judge, smallest_seen, suite_wide
from results.inference import (
    PooledRounds,
    estimate,
    holm,
    interval_depth,
    launches_needed,
    ratio_error,
    smallest_p,
    survival_of_u,
    welch_p,
)
from results.plan import Plan, PlanRefused, check_plan, fitted
from tests.fake_launches import noisy

PLAN = Plan()


def test_survival_counts_every_order_of_three_and_four():
    """By brute force: of the 35 ways to place three values among seven."""
    values = []
    for placed in itertools.combinations(range(7), 3):
        rest = [rank for rank in range(7) if rank not in placed]
        values.append(sum(a > b for a in placed for b in rest))
    expected = [np.mean(np.array(values) >= u) for u in range(13)]
    np.testing.assert_allclose(survival_of_u(4, 3), expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (5, 5), (20, 20), (7, 20), (33, 3)])
def test_p_is_scipys_exact_one_where_nothing_is_tied(n, m):
    rng = np.random.default_rng(n)
    base, head = np.exp(rng.normal(size=(n, 7))), np.exp(rng.normal(0.3, 1, size=(m, 7)))
    found = estimate(base, head)
    for side, alternative in ((found.p_slower, "greater"), (found.p_faster, "less")):
        expected = scipy.stats.mannwhitneyu(
            head, base, alternative=alternative, method="exact", axis=0
        ).pvalue
        np.testing.assert_allclose(side, expected, rtol=1e-9)
    if min(n, m) > 1:
        welch = scipy.stats.ttest_ind(
            np.log(head), np.log(base), alternative="greater", equal_var=False, axis=0
        )
        expected = np.asarray(welch)[1]
        np.testing.assert_allclose(welch_p(base, head), expected, rtol=1e-9)


def test_a_tie_is_evidence_for_nothing():
    same = np.full((20, 1), 2e-3)
    found = estimate(same, same)
    assert [found.ratio, found.p_slower, found.p_faster] == pytest.approx([1, 1, 1])
    # Half the pairs tied: as if those were all the other way.
    base = np.r_[np.full(10, 1.0), np.full(10, 2.0)][:, None]
    head = np.full((20, 1), 2.0)
    assert estimate(base, head).p_slower == survival_of_u(20, 20)[200]


@given(st.integers(2, 12), st.integers(2, 12), st.floats(0.5, 2.0), st.integers(0, 1000))
def test_a_ratio_and_its_interval_follow_a_change_of_unit_and_of_sides(n, m, factor, seed):
    rng = np.random.default_rng(seed)
    base, head = np.exp(rng.normal(size=(n, 1))), np.exp(rng.normal(size=(m, 1)))
    found, scaled, back = estimate(base, head), estimate(base, factor * head), estimate(head, base)
    assert scaled.ratio[0] == pytest.approx(factor * found.ratio[0])
    assert back.ratio[0] == pytest.approx(1 / found.ratio[0])
    assert found.low[0] <= found.ratio[0] <= found.high[0]
    assert back.p_faster[0] == pytest.approx(found.p_slower[0])


@pytest.mark.parametrize("n", [5, 20])
def test_the_interval_holds_the_truth_in_95_of_100(n):
    rng = np.random.default_rng(n)
    base, head = np.exp(rng.standard_t(3, (2, n, 4000)))
    found = estimate(base, 1.05 * head)
    held = np.mean((found.low <= 1.05) & (found.high >= 1.05))
    assert 0.945 <= held <= 0.99  # exact, so at least 95 % but for chance


def test_three_launches_a_side_have_no_interval():
    """Of 20 orders the most extreme two are 10 % already."""
    assert interval_depth(3, 3) == -1
    found = estimate(noisy(3), noisy(3, seed=1))
    assert (found.low == 0).all() and np.isinf(found.high).all()


def test_cells_with_gaps_are_judged_by_the_launches_they_have():
    base, head = noisy(6, seed=1), noisy(5, seed=2)
    base[2, 1] = base[4, 1] = head[0, 1] = np.nan
    found = estimate(base, head)
    alone = estimate(base[[0, 1, 3, 5], 1:2], head[1:, 1:2])
    assert (found.base_n[1], found.head_n[1], found.base_n[0]) == (4, 4, 6)
    assert found.ratio[1] == alone.ratio[0] and found.p_slower[1] == alone.p_slower[0]


def test_holm_steps_down_and_never_back_up():
    np.testing.assert_allclose(holm(np.array([0.03, 0.001, 0.02])), [0.04, 0.003, 0.04])
    np.testing.assert_allclose(holm(np.array([0.6, 0.9])), [1.0, 1.0])
    assert len(holm(np.array([]))) == 0


def test_what_cannot_be_shown_is_refused_with_the_launches_that_would_do():
    # C(16, 8) = 12870 and C(18, 9) = 48620: 200 cells at 0.01 need 20000 orders.
    assert launches_needed(200, 0.01) == 9
    check_plan(Plan(confirm=9), 200)
    with pytest.raises(PlanRefused, match=r"8 launches a side .* 7\.8e-05.* 200 cells.* 9 launch"):
        check_plan(Plan(confirm=8), 200)
    with pytest.raises(PlanRefused, match="9 launches a side would do"):
        judge(noisy(8, 200), noisy(8, 200), Plan(confirm=3))
    with pytest.raises(PlanRefused, match="1 launch a side cannot screen"):
        check_plan(Plan(screen=1), 3)


def test_the_plan_fits_the_launches_there_are():
    assert fitted(PLAN, 25, 25, 200) == PLAN
    assert fitted(PLAN, 40, 30, 200) == Plan(confirm=25)
    # Ten a side are too few for two stages and 200 cells, and enough for one.
    assert fitted(PLAN, 10, 10, 200) == Plan(screen=0, confirm=10)
    # A large baseline helps: C(25, 5) = 53130.
    assert fitted(PLAN, 20, 5, 200) == Plan(screen=0, confirm=5)
    assert smallest_p(20, 5) == 1 / 53130
    with pytest.raises(PlanRefused, match=r"1 launch a side .* p is 0\.5.* 6 launches"):
        fitted(PLAN, 1, 1, 3)
    with pytest.raises(PlanRefused, match="25 and 0 launches"):
        fitted(PLAN, 25, 0, 3)


def test_pooled_rounds_are_refused():
    rounds = np.ones((5, 24, 3))
    with pytest.raises(PooledRounds, match="one number per launch"):
        judge(rounds, rounds)
    with pytest.raises(PooledRounds, match="25 rows of 5 launches"):
        judge(noisy(25), noisy(25), launches=([n // 5 for n in range(25)], list(range(25))))
    with pytest.raises(ValueError, match="not a positive number"):
        judge(np.zeros((25, 3)), noisy(25))
    with pytest.raises(ValueError, match="base has 3 cells and head 2"):
        judge(noisy(25), noisy(25, 2))


def test_each_cell_has_its_verdict():
    base, head = noisy(25, 5, seed=1), noisy(25, 5, seed=2)
    head[:, 1] *= 1.5
    head[:, 2] /= 1.5
    base[:, 3] *= np.exp(0.5 * np.random.default_rng(0).standard_normal(25))
    judged = judge(base, head)
    assert list(judged.verdict) == [
        *("unchanged", "regressed", "improved", "inconclusive", "unchanged")
    ]
    assert judged.found.ratio[1] == pytest.approx(1.5, rel=0.01)
    assert judged.p[1] < 1e-9 and judged.is_confirmed[1] and judged.found.base_n[1] == 20
    assert judged.found.base_n[0] in (5, 20)
    assert judged.smallest_seen[3] > 1.2 > judged.smallest_seen[0]


def test_a_suspect_is_judged_by_fresh_launches_alone():
    """Slow in the screen and not after it: it is let go, however slow it had been."""
    base, head = noisy(25, seed=3), noisy(25, seed=4)
    head[:5, 0] *= 1.3
    judged = judge(base, head)
    assert judged.is_slower[0] and judged.verdict[0] == "unchanged"
    assert judged.found.ratio[0] < 1.02


def test_suspects_that_were_not_measured_again_are_inconclusive():
    base, head = noisy(25, seed=5), noisy(25, seed=6)
    head[:, :2] *= 1.2
    base[5:, 1:] = head[5:, 1:] = np.nan  # only the first cell was confirmed
    judged = judge(base, head)
    assert list(judged.verdict) == ["regressed", "inconclusive", "unchanged"]
    assert list(judged.is_confirmed) == [True, False, False]


def test_a_suspect_with_too_few_fresh_launches_is_inconclusive():
    """With three a side the smallest p is 1 in 20, however clear the difference."""
    base, head = noisy(25, seed=5), noisy(25, seed=6)
    head[:, 0] *= 1.5
    base[8:, 0] = head[8:, 0] = np.nan
    assert judge(base, head).verdict[0] == "inconclusive"


def test_certainly_slower_but_not_by_the_floor_is_not_a_regression():
    base, head = noisy(45, noise=0.002), 1.02 * noisy(45, seed=1, noise=0.002)
    plan = Plan(confirm=40)
    assert list(judge(base, head, plan).verdict) == ["unchanged"] * 3
    assert list(judge(base, head, plan, floor=1.01).verdict) == ["regressed"] * 3
    # The interval reaches the floor: it cannot be told.
    found = judge(base, head, plan).found
    between = (found.ratio + found.high) / 2
    assert list(judge(base, head, plan, floor=between).verdict) == ["inconclusive"] * 3


@pytest.mark.parametrize("ratio", [1.03, 1.1, 1.3, 2.0, 2.6])
def test_what_takes_just_as_much_longer_as_the_floor_reaches_it(ratio):
    base = np.full((6, 1), 1e-3)
    plan = Plan(screen=0, confirm=6)
    assert list(judge(base, base * ratio, plan, floor=ratio).verdict) == ["regressed"]
    assert list(judge(base * ratio, base, plan, floor=ratio).verdict) == ["improved"]
    assert list(judge(base, base * ratio, plan, floor=ratio + 1e-6).verdict) == ["unchanged"]


def test_a_stray_launch_hides_no_regression():
    """One launch of five at half again as long drowns a shift of 5 % in Welch's t."""
    base, head = noisy(25, 1, seed=7, noise=0.005), 1.05 * noisy(25, 1, seed=8, noise=0.005)
    base[2] *= 1.5
    base[12:15] *= 1.5
    assert welch_p(base[:5], head[:5])[0] > 0.2
    assert judge(base, head).verdict[0] == "regressed"


def test_linear_drift_is_nobodys_fault_when_launches_alternate():
    """3 % over the comparison, base and head in the order base, head, head, base."""
    times = noisy(50, 40, seed=9) * np.linspace(1, 1.03, 50)[:, None]
    first = np.array([0, 1, 1, 0] * 13)[:50] == 0
    judged = judge(times[first], times[~first])
    assert not (judged.verdict == "regressed").any() and not judged.suite
    # One side after the other, and it is a regression of many.
    assert judge(times[:25], times[25:]).suite


def test_the_suite_is_slower_when_its_cells_are_and_not_for_one_of_them():
    base = noisy(25, 12, seed=10)
    everywhere = judge(base, 1.03 * noisy(25, 12, seed=11)).suite
    assert everywhere is not None and everywhere.is_slower
    assert everywhere.ratio == pytest.approx(1.03, abs=0.005)
    head = noisy(25, 12, seed=11)
    head[:, 0] *= 3
    alone = suite_wide(base, head, np.ones(12, dtype=bool), PLAN)
    assert alone is not None and alone.ratio > 1.05 and not alone.is_slower
    # Of three cells each is named for itself.
    assert judge(base[:, :3], 1.2 * base[:, :3]).suite is None


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.04])
def test_nine_in_ten_changes_of_the_smallest_size_are_found(noise):
    spread = np.array([noise])
    ratio = smallest_seen(spread, np.array([1.03]), PLAN, 10)[0]
    runs = 600
    base, head = noisy(25, runs, seed=12, noise=noise), noisy(25, runs, seed=13, noise=noise)
    # Each cell is a comparison of its own: nine other suspects stand beside it.
    found = sum(
        judge(base[:, i : i + 10], ratio * head[:, i : i + 10]).verdict[0] == "regressed"
        for i in range(0, runs - 10, 2)
    )
    assert found / len(range(0, runs - 10, 2)) >= 0.88
    assert ratio_error(spread, 20, 20)[0] == pytest.approx(noise * np.sqrt(np.pi / 30), rel=1e-6)
