"""Cells that one side did not measure: left out by its plan, or gone."""

from __future__ import annotations

import numpy as np
import pytest

from results.compare import compare
from results.side import side
from results.store import load_run
from results.verdict import exit_code
from tests.fake_launches import NAMES, noisy, write_side


@pytest.fixture
def a_side(tmp_path):
    """`a_side(times, …)` is the side of one run of these launches."""
    made = iter(range(1, 29))

    def make(times_s, *names, **keywords):
        path = write_side(tmp_path, np.asarray(times_s), *names, day=next(made), **keywords)
        return side(path.name, [load_run(path)])

    return make


def beyond(lines):
    """The same launches, of whose plan one cell was left out: its estimate was above the budget."""
    why = {"status": "skipped", "timing": None, "check": None}
    why["reasons"] = ["beyond the budget: 24 s estimated"]
    return [x | why if x["implementation"] == "chunked" else x for x in lines]


@pytest.mark.parametrize("where", ["base", "head"])
def test_a_cell_that_one_sides_budget_left_out_is_not_missing(a_side, where):
    """Near its budget a plan takes a cell today and not tomorrow: nothing has gone away."""
    base = a_side(noisy(25), alter=beyond if where == "base" else None)
    head = a_side(noisy(25, seed=1), alter=beyond if where == "head" else None)
    found = compare(base, head)
    assert found.counts == {"incomparable": 1, "unchanged": 2}
    assert found.verdicts[0].reasons == (f"{where}: 25 skipped: beyond the budget: 24 s estimated",)
    assert (exit_code(found), exit_code(found, strict=True)) == (0, 3)
    alone = a_side(noisy(25, 1, seed=2), NAMES[1:2], alter=beyond)
    assert exit_code(compare(a_side(noisy(25, 1), NAMES[1:2]), alone)) == 5


def test_a_cell_that_cannot_run_any_more_is_missing(a_side):
    def gone(lines):
        why = {"status": "unavailable", "timing": None, "check": None, "reasons": ["no library"]}
        return [x | why if x["implementation"] == "chunked" else x for x in lines]

    found = compare(a_side(noisy(25)), a_side(noisy(25, seed=1), alter=gone))
    assert found.counts == {"missing": 1, "unchanged": 2} and exit_code(found) == 4
