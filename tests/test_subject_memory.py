"""What is kept between cells: the last problem's inputs and answers, for all implementations."""

from __future__ import annotations

from impls.interface.problem import Problem
from suites.session.subject import SubjectMemory

SMALL = Problem(B=1, T_q=8, T_kv=8, H=2, d_h=4)
OTHER = SMALL.with_(T_q=9, T_kv=9)


def test_a_problem_is_made_once_for_all_implementations_and_let_go_by_the_next():
    memory = SubjectMemory()
    first = memory.of(SMALL, "cpu", False)
    assert memory.of(SMALL, "cpu", False) is first
    assert memory.of(SMALL, "cpu", True) is not first, "gradients need other answers"
    other = memory.of(OTHER, "cpu", False)
    assert other.problem == OTHER and memory.of(SMALL, "cpu", False) is not first
