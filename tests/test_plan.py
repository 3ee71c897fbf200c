"""The plan: how far up the ladders a budget reaches, from speeds that are given."""

from __future__ import annotations

import itertools
from dataclasses import astuple, replace
from typing import Any

import pytest

from impls.interface import cost
from impls.interface.attention import Capabilities, Implementation
from impls.interface.problem import Problem
from results.comparable import IGNORED_SETTINGS
from suites.measure.samples import Settings
from suites.session import options
from suites.session.header import header
from suites.session.plan import CALLS_PER_CELL, COMPILE_S, Budget, decide
from suites.session.speeds import Speed, probe_speeds
from suites.session.sweep import Series, cells

BUDGET = Budget.of("quick", 60.0)


def implementation(name: str, **declared) -> Implementation:
    return Implementation(name=name, forward=lambda q, k, v: q, summary=name, **declared)


FAST, SLOW = implementation("fast"), implementation("slow")
COMPILED = implementation("compiled", needs_compiler=True)
LADDER = tuple(Problem(B=1, T_q=T, T_kv=T, H=8, d_h=64) for T in (128, 256, 512, 1024, 2048, 4096))
DTYPES = ("float32", "bfloat16")
SPEEDS = {
    (name, dtype): Speed(flop_per_s, flop_per_s, 20e9)
    for name, flop_per_s in (("fast", 100e9), ("slow", 20e9), ("compiled", 20e9))
    for dtype in DTYPES
}
STEP = Problem(B=1, T_q=1, T_kv=8192, H=32, d_h=128)


def swept(*series: Series, implementations=(FAST, SLOW)):
    return [
        cell
        for n, line in enumerate(series)
        for cell in cells(
            f"suite{n}", [line], implementations, passes=["forward"], cache="hot", device="cpu",
            threads=1,
        )
    ]  # fmt: skip


def plan(found, *, budget=BUDGET, unavailable=None, free_bytes=None, speeds=SPEEDS):
    return decide(
        found, speeds, budget, device="cpu", unavailable=unavailable or {}, free_bytes=free_bytes
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


def test_seconds_that_were_asked_for_are_what_a_cell_is_beyond():
    planned = plan(swept(Series("T", LADDER)), budget=Budget.of("default", 8.5, 8.5))
    reasons = {p.reason for p in planned if p.decision == "skip"}
    assert reasons == {"beyond the 8.5 s of --seconds: a larger number goes further"}


@pytest.mark.parametrize("seconds", [None, 8.5])
def test_the_header_says_the_seconds_and_they_are_no_method(seconds):
    given: dict[str, Any] = dict.fromkeys(options.Options.__dataclass_fields__)
    given |= {"brought": (), "budget": "default", "seconds": seconds}
    asked = options.Options(**given)
    written = header(
        "run",
        asked,
        Settings(),
        environment={"device": "cpu"},
        machine_key="key",
        ceilings={},
        plan=(),
        doubts={},
    )
    assert written["settings"]["seconds"] == seconds
    assert "seconds" in IGNORED_SETTINGS


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
        assert planned.reason == "needs about 3 GB, more than 70% of the 0.001 GB that are free"


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
    """q, k, v and out, each 8·128·64 float32, their copies, and 3 MB beside them."""
    hungry = replace(FAST, scratch_bytes=lambda problem, pass_: 3_000_000)
    needed = 2 * 4 * 4 * 8 * 128 * 64 + 3_000_000
    found = swept(Series("T", LADDER[:1]), implementations=(hungry,))
    (planned,) = plan(found, free_bytes=round(needed / share))
    assert planned.decision == decision


def answering(lengths_s, fake_time, **declared) -> Implementation:
    """An implementation whose calls take so long in CPU time, and each waits for a second too."""

    def forward(q, k, v, **arguments):
        fake_time.compute(lengths_s(q, k))
        fake_time.wait(1.0)
        return v

    return replace(implementation("probed", **declared), forward=forward)


def probed(*implementations: Implementation, dtypes=("float32",)):
    return probe_speeds(implementations, "cpu", dtypes, lambda: None)


def test_the_speed_of_a_probe_is_that_of_its_fastest_call(fake_time):
    """In CPU time: each call also waits for a second, as on a machine that others use."""
    lengths_s = itertools.cycle([0.09, 0.03, 0.06])
    found = probed(answering(lambda q, k: next(lengths_s), fake_time))["probed", "float32"]
    work = cost.flop(Problem(B=1, T_q=512, T_kv=512, H=8, d_h=64), "forward")
    assert work / found.flop_per_s == pytest.approx(0.03, rel=1e-3)


def test_one_query_is_tried_with_kv_heads_shared_and_with_one_for_each_head(fake_time):
    """0.5 s with shared heads and 0.25 s without, of one query; many queries take 0.125 s."""

    def length_s(q, k):
        return 0.125 if q.shape[2] > 1 else 0.5 if k.shape[1] < q.shape[1] else 0.25

    found = probed(answering(length_s, fake_time))["probed", "float32"]
    # 4·H·T_kv·d_h FLOP; K and V of 16 heads beside one row each of q and out.
    assert found.step_flop_per_s == pytest.approx(4 * 32 * 4096 * 128 / 0.5, rel=1e-3)
    moved = 4 * 16 * 128 * (2 * 4096 + 2)
    assert found.step_bytes_per_s == pytest.approx(moved / 0.25, rel=1e-3)


def test_each_dtype_is_tried_and_who_cannot_be_is_planned_as_the_slowest(fake_time):
    slow = answering(lambda q, k: 1.0, fake_time)
    short = Capabilities(further=lambda p, device, needs: ["too long"] if p.T_q > 64 else [])
    quick = replace(answering(lambda q, k: 0.5, fake_time, capabilities=short), name="short")
    compiled = replace(slow, name="compiled", needs_compiler=True)
    found = probed(slow, quick, compiled, dtypes=DTYPES)
    assert set(found) == {(n, d) for n in ("probed", "short", "compiled") for d in DTYPES}
    for dtype in DTYPES:
        assert found["compiled", dtype] == found["probed", dtype]
        assert found["short", dtype].flop_per_s == found["probed", dtype].flop_per_s
        times = found["short", dtype].step_flop_per_s / found["probed", dtype].step_flop_per_s
        assert times == pytest.approx(2.0, rel=1e-3)


def call_s(problem: Problem, speed: Speed) -> float:
    """Seconds that the plan gives the calls of a long cell: what twice the speed would take away.

    Sampling, set-up and the rest are the same whatever the speed.
    """
    found = swept(Series("T", (problem,)), implementations=(FAST,))
    twice = Speed(*(2 * rate for rate in astuple(speed)))
    (one,), (other,) = (
        plan(found, budget=Budget.of("full", 3600.0), speeds={("fast", problem.dtype): s})
        for s in (speed, twice)
    )
    return 2 * (one.estimate_s - other.estimate_s)


LARGE = STEP.with_(B=8)


def test_a_decode_step_is_planned_by_its_bytes():
    """2.1 GB a call at 2 GB/s: by FLOP alone it seemed to take a hundredth of that."""
    by_bytes = call_s(LARGE, Speed(100e9, 100e9, 2e9))
    assert by_bytes == pytest.approx(CALLS_PER_CELL * 8 * 2 * 32 * 8192 * 128 * 4 / 2e9, rel=0.01)


def test_sharing_kv_heads_makes_no_step_cheaper_that_reads_keys_for_every_head():
    reads_anew = Speed(100e9, 1e9, 4e9)
    times = [call_s(LARGE.with_(H_kv=H_kv), reads_anew) for H_kv in (32, 8, 1)]
    assert times == pytest.approx(times[:1] * 3, rel=0.01)
    reads_once = Speed(100e9, 1e12, 2e9)
    times = [call_s(LARGE.with_(H_kv=H_kv), reads_once) for H_kv in (32, 16)]
    assert times[0] / times[1] == pytest.approx(2, rel=0.01)


def test_many_queries_are_planned_by_their_flop():
    long = LADDER[-1]
    assert call_s(long, Speed(50e9, 1e9, 4e9)) == pytest.approx(
        2 * call_s(long, Speed(100e9, 1e9, 4e9))
    )


def test_inputs_and_answers_are_planned_once_a_problem():
    """Those of a large cache take longer than its cells: five implementations share them."""
    alone, *others = (
        p.estimate_s
        for p in plan(
            swept(Series("B", (LARGE,)), implementations=(FAST, replace(FAST, name="slow"))),
            budget=Budget.of("full", 3600.0),
        )
    )
    assert all(alone > 1.5 * other for other in others)


def test_a_second_dtype_gets_its_turns():
    """It stood behind every rung of the first and got no cell of the default budget."""
    both = LADDER + tuple(p.with_(dtype="bfloat16") for p in LADDER)
    planned = plan(swept(Series("T", both)), budget=Budget.of("quick", 8.0))
    ran = {p.cell.problem.dtype for p in planned if p.decision == "run"}
    assert ran == {"float32", "bfloat16"}
