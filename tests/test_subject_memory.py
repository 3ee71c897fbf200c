"""What is kept between cells and looks: each problem's inputs and answers are made once."""

from __future__ import annotations

from impls.interface.problem import Problem
from suites.session import subject
from suites.session.subject import SubjectMemory, held_bytes

SMALL = Problem(B=1, T_q=8, T_kv=8, H=2, d_h=4)
OTHER = SMALL.with_(T_q=9, T_kv=9)
LARGE = SMALL.with_(T_q=64, T_kv=64)


def test_small_problems_are_made_once_whatever_comes_between():
    memory = SubjectMemory()
    first = memory.of(SMALL, "cpu", False)
    other = memory.of(OTHER, "cpu", False)
    assert memory.of(SMALL, "cpu", False) is first and memory.of(OTHER, "cpu", False) is other
    assert memory.of(SMALL, "cpu", True) is not first, "gradients need other answers"


def test_what_does_not_fit_beside_the_kept_ones_is_let_go_by_the_next(monkeypatch):
    # q, k, v and out of two heads, 8 rows of 4 float32, and a copy of each.
    assert held_bytes(SMALL, "forward") == 2 * 4 * 2 * 8 * 4 * 4
    monkeypatch.setattr(subject, "KEPT_BYTES", held_bytes(SMALL, "forward"))
    memory = SubjectMemory()
    small, large = memory.of(SMALL, "cpu", False), memory.of(LARGE, "cpu", False)
    assert memory.of(LARGE, "cpu", False) is large, "all implementations of a problem share it"
    other = memory.of(OTHER, "cpu", False)
    assert memory.of(LARGE, "cpu", False) is not large
    assert memory.of(SMALL, "cpu", False) is small and memory.of(OTHER, "cpu", False) is not other
