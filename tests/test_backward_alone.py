"""The backward alone as a cell: known by the forward that it belongs to."""

from __future__ import annotations

import pytest

from impls.interface.registry import implementations
from suites.session.cell import measure_cell
from suites.session.subject import SubjectMemory
from tests.test_cell import CONDITIONS, PROBLEM, cell_of


@pytest.mark.parametrize("name", ["sdpa_math", "sdpa_flash"])
def test_a_backward_alone_is_known_by_its_forward(name):
    """The backward of sdpa_math runs none of the operators that its forward is pinned to."""
    problem = PROBLEM.with_(T_q=33, T_kv=33, window=None)
    cell = cell_of(implementations()[name], problem, "backward")
    found = measure_cell(cell, CONDITIONS, SubjectMemory())
    assert (found["status"], found["reasons"]) == ("ok", [])
