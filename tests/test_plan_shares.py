"""A long budget's plan: tables whole, and a share for every sweep, of whole problems."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suites.session.plan import Budget
from suites.session.sweep import Series
from tests.test_plan import FAST, LADDER, SLOW, plan, swept


@pytest.mark.parametrize(("word", "both"), [("quick", False), ("default", True)])
def test_of_a_long_budget_every_sweep_has_its_share(word, both):
    """The sweep that takes the most rungs a turn comes first: of ten, some had nothing."""
    greedy = Series("T", LADDER + tuple(p.with_(B=2) for p in LADDER), rungs_per_turn=12)
    modest = Series("H", tuple(p.with_(d_h=32, d_v=32) for p in LADDER[:2]))
    ran = {
        p.cell.suite for p in plan(swept(greedy, modest), budget=Budget.of(word, 5.0))
        if p.decision == "run"
    }  # fmt: skip
    assert ran == ({"suite0", "suite1"} if both else {"suite0"})


def test_what_is_due_is_planned_whole_before_the_shares():
    """A table's rows: last in the order of cells, and more of them than an equal share holds."""
    shorter = tuple(p.with_(B=2) for p in LADDER[:4])
    sizes = [p.with_(B=B) for p in LADDER[:2] for B in range(3, 9)]
    rows = [Series(f"row {p.T_q} {p.B}", (p,), is_due=True) for p in sizes]
    found = [replace(cell, suite="table") for cell in swept(*rows)]
    others = swept(Series("T", LADDER), Series("T", shorter))
    due_s = sum(p.estimate_s for p in plan(found, budget=Budget.of("default", 600.0)))
    planned = plan([*others, *found], budget=Budget.of("default", 1.5 * due_s))
    ran = [p.cell for p in planned if p.decision == "run"]
    assert [cell for cell in ran if cell.suite == "table"] == found
    assert {cell.suite for cell in ran} == {"suite0", "suite1", "table"}
    assert sum(p.estimate_s for p in planned if p.decision == "run") <= 1.5 * due_s


def test_within_its_share_a_sweep_has_a_problem_of_all_implementations_or_of_none():
    """A fused kernel without the formula beside it compares nothing."""
    others = Series("T", tuple(p.with_(B=2) for p in LADDER[:3]))
    for seconds in range(2, 40):
        planned = plan(
            swept(Series("T", LADDER[:3]), others), budget=Budget.of("default", seconds / 2)
        )
        ran = [p.cell for p in planned if p.decision == "run"]
        halves = [
            suite
            for suite, size in {(c.suite, c.problem) for c in ran}
            if {c.implementation for c in ran if c.problem == size} != {FAST, SLOW}
        ]
        # What the shares leave is for all, cell by cell: the last problem of each may be half.
        assert len(halves) == len(set(halves)), (seconds, halves)
