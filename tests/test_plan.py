"""The plan: how far up the ladders a budget reaches, from speeds that are given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from impls.interface import cost
from impls.interface.attention import Capabilities, Implementation
from impls.interface.problem import Problem
from suites.session.plan import COMPILE_S, Budget, decide, probe_speeds
from suites.session.sweep import Series, cells

BUDGET = Budget.of("quick", 40.0)


def implementation(name: str, **declared) -> Implementation:
    return Implementation(name=name, forward=lambda q, k, v: q, summary=name, **declared)


FAST, SLOW = implementation("fast"), implementation("slow")
COMPILED = implementation("compiled", needs_compiler=True)
LADDER = tuple(Problem(B=1, T_q=T, T_kv=T, H=8, d_h=64) for T in (128, 256, 512, 1024, 2048, 4096))
SPEEDS = {"fast": 100e9, "slow": 20e9, "compiled": 20e9}


def swept(*series: Series, implementations=(FAST, SLOW)):
    return [
        cell
        for n, line in enumerate(series)
        for cell in cells(
            f"suite{n}", [line], implementations, passes=["forward"], cache="hot", device="cpu",
            threads=1,
        )
    ]  # fmt: skip


def plan(found, *, budget=BUDGET, unavailable=None, free_bytes=None):
    return decide(
        found, SPEEDS, budget, device="cpu", unavailable=unavailable or {}, free_bytes=free_bytes
    )


def reach(planned, name: str) -> int:
    ran = [p.cell.problem.T_q for p in planned if p.decision == "run"]
    return max(
        T
        for T, p in zip(ran, [p for p in planned if p.decision == "run"], strict=True)
        if p.cell.implementation.name == name
    )


def test_a_faster_implementation_goes_further_up_the_ladder():
    planned = plan(swept(Series("T", LADDER)))
    assert reach(planned, "fast") > reach(planned, "slow")


def test_what_is_planned_fits_the_budget_and_the_rest_says_how_to_go_on():
    planned = plan(swept(Series("T", LADDER)))
    assert sum(p.estimate_s for p in planned if p.decision == "run") <= BUDGET.total_s
    skipped = [p for p in planned if p.decision == "skip"]
    assert skipped and all(
        p.reason == "beyond the quick budget: --budget default goes further" for p in skipped
    )


def test_every_series_gets_its_first_rungs_before_any_gets_its_last():
    other = tuple(p.with_(B=2) for p in LADDER)
    planned = plan(swept(Series("a", LADDER), Series("b", other)), budget=Budget.of("quick", 8.0))
    firsts = [p for p in planned if p.cell.problem.T_q == 128]
    assert len(firsts) == 4 and all(p.decision == "run" for p in firsts)


def test_a_larger_budget_never_measures_less():
    found = swept(Series("T", LADDER), implementations=(FAST, SLOW, COMPILED))
    kept: set[str] = set()
    for seconds in (5.0, 20.0, 80.0, 320.0):
        planned = plan(found, budget=Budget.of("default", seconds))
        now = {
            p.cell.key
            for p in planned
            if p.decision == "run" and not p.cell.implementation.needs_compiler
        }
        assert kept <= now
        kept = now


def test_what_compiles_gets_the_largest_of_the_chosen_problems():
    planned = plan(swept(Series("T", LADDER), implementations=(FAST, COMPILED)))
    largest = max(
        p.cell.problem.T_q for p in planned if p.decision == "run" and p.cell.implementation is FAST
    )
    compiled = [p for p in planned if p.cell.implementation is COMPILED and p.decision == "run"]
    assert compiled and max(p.cell.problem.T_q for p in compiled) in (largest, largest // 2)
    assert all(p.estimate_s >= COMPILE_S for p in compiled)


def test_what_cannot_run_here_costs_nothing_and_stays_in_the_plan():
    picky = implementation("picky", capabilities=Capabilities(dtypes=("float16",)))
    found = swept(Series("T", LADDER), implementations=(FAST, SLOW, picky))
    planned = plan(found, unavailable={"slow": ["not here"]})
    for p in planned:
        if p.cell.implementation.name in ("slow", "picky"):
            assert (p.decision, p.estimate_s) == ("run", 0.0)


@pytest.mark.parametrize(("free_bytes", "decision"), [(1_000_000, "skip"), (None, "run")])
def test_a_cell_that_wants_more_memory_than_is_free_is_skipped_with_both_numbers(
    free_bytes, decision
):
    hungry = replace(FAST, scratch_bytes=lambda problem, pass_: 3_000_000_000)
    (planned,) = plan(
        swept(Series("T", LADDER[:1]), implementations=(hungry,)), free_bytes=free_bytes
    )
    assert planned.decision == decision
    if decision == "skip":
        assert planned.reason == "needs about 3.0 GB, more than 70% of the 0.0 GB that are free"


def test_the_plan_keeps_the_order_of_the_cells():
    found = swept(Series("T", LADDER), Series("other", LADDER[::-1]))
    assert [p.cell for p in plan(found)] == found


def test_a_cell_is_known_by_its_content_and_not_by_its_suite():
    first, second = swept(Series("a", LADDER[:1]), Series("b", LADDER[:1]), implementations=(FAST,))
    assert first.key == second.key and first.suite != second.suite
    (wider,) = swept(Series("a", (LADDER[0].with_(d_h=40, d_v=40),)), implementations=(FAST,))
    assert wider.key != first.key


@pytest.mark.parametrize(("share", "decision"), [(0.8, "skip"), (0.6, "run")])
def test_a_cell_leaves_a_good_part_of_the_free_memory_free(share, decision):
    """q, k, v and out, each 8·128·64 float32, and 3 MB beside them."""
    hungry = replace(FAST, scratch_bytes=lambda problem, pass_: 3_000_000)
    needed = 4 * 4 * 8 * 128 * 64 + 3_000_000
    found = swept(Series("T", LADDER[:1]), implementations=(hungry,))
    (planned,) = plan(found, free_bytes=round(needed / share))
    assert planned.decision == decision


def test_the_speed_of_a_probe_is_that_of_its_fastest_call(fake_time):
    """In CPU time: each call also waits for a second, as on a machine that others use."""
    lengths_s = iter([0.09, 0.03, 0.06])

    def forward(q, k, v, **arguments):
        fake_time.compute(next(lengths_s))
        fake_time.wait(1.0)
        return v

    uneven = replace(FAST, forward=forward)
    speed = probe_speeds([uneven], "cpu", "float32", lambda: None)["fast"]
    work = cost.flop(Problem(B=1, T_q=512, T_kv=512, H=8, d_h=64), "forward")
    assert work / speed == pytest.approx(0.03, rel=1e-3)


def test_a_second_dtype_gets_its_turns():
    """It stood behind every rung of the first and got no cell of the default budget."""
    both = LADDER + tuple(p.with_(dtype="bfloat16") for p in LADDER)
    planned = plan(swept(Series("T", both)), budget=Budget.of("quick", 8.0))
    ran = {p.cell.problem.dtype for p in planned if p.decision == "run"}
    assert ran == {"float32", "bfloat16"}
