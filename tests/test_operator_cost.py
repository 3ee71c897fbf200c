"""What another operator costs, counted one scalar at a time."""

from __future__ import annotations

import itertools

import pytest

from impls.interface.problem import Problem
from impls.layer.lineage import operators
from suites.session.subject import cost_of

SIZES = list(itertools.product((1, 2, 5), (1, 3, 7), (False, True)))


class Tally:
    """Counts as the formula is walked: FLOP, exponentials and tanh together, bytes."""

    def __init__(self, problem: Problem) -> None:
        self.flop = self.exp = self.pairs = 0
        p = problem
        q, out, kv = p.B * p.H * p.T_q, p.B * p.H * p.T_q, p.B * p.H * p.T_kv
        self.elements = q * p.d_h + out * p.d_v + kv * (p.d_h + p.d_v)

    def dot(self, length: int) -> None:
        for _ in range(length):
            self.flop += 2


def seen(p: Problem, i: int) -> list[int]:
    return [j for j in range(p.T_kv) if not p.causal or j <= i + p.T_kv - p.T_q]


def walked(p: Problem) -> Tally:
    """One head after another, one query after another, one key after another."""
    tally = Tally(p)
    for _ in range(p.B * p.H):
        queries = [i for i in range(p.T_q) if seen(p, i)]
        walk = {"additive": additive, "multiplicative": multiplicative, "linear": linear}
        walk[p.operator](tally, p, queries)
    tally.pairs = sum(len(seen(p, i)) for i in range(p.T_q))
    tally.elements += {"additive": 2 * p.d_h**2 + p.d_h, "multiplicative": p.d_h**2, "linear": 0}[
        p.operator
    ]
    return tally


def additive(tally: Tally, p: Problem, queries: list[int]) -> None:
    for _ in (*queries, *range(p.T_kv)):
        for _ in range(p.d_h):
            tally.dot(p.d_h)  # a row of W_q or W_k
    for i in queries:
        for _ in seen(p, i):
            for _ in range(p.d_h):
                tally.flop += 1  # the two hidden vectors are added
                tally.exp += 1  # tanh
            tally.dot(p.d_h)  # w
            tally.exp += 1  # of the softmax
            tally.dot(p.d_v)  # weight · v


def multiplicative(tally: Tally, p: Problem, queries: list[int]) -> None:
    for i in queries:
        for _ in range(p.d_h):
            tally.dot(p.d_h)  # a column of W
        for _ in seen(p, i):
            tally.dot(p.d_h)
            tally.exp += 1
            tally.dot(p.d_v)


def linear(tally: Tally, p: Problem, queries: list[int]) -> None:
    for _ in range(p.T_kv):
        tally.exp += p.d_h
        for _ in range(p.d_h):
            tally.dot(p.d_v)  # φ(k) vᵀ added to the state
    for _ in queries:
        tally.exp += p.d_h
        for _ in range(p.d_v):
            tally.dot(p.d_h)  # φ(q) times the state


@pytest.mark.parametrize("operator", ["additive", "multiplicative", "linear"])
@pytest.mark.parametrize(("T_q", "T_kv", "causal"), SIZES)
def test_every_operation_is_counted(operator, T_q, T_kv, causal):
    p = Problem(2, T_q, T_kv, 3, 4, d_v=5, dtype="bfloat16", causal=causal, operator=operator)
    found, by_hand = cost_of(p, "forward"), walked(p)
    assert (found.flop, found.exp, found.pairs) == (by_hand.flop, by_hand.exp, by_hand.pairs)
    assert found.compulsory_bytes == 2 * by_hand.elements


def test_the_kind_of_a_cell_counts_by_its_own_operator_under_any_convention():
    p = Problem(1, 64, 64, 2, 8, causal=True, operator="linear")
    assert cost_of(p, "forward").flop == 2 * 2 * 128 * 64
    assert cost_of(p, "forward", "fa") == cost_of(p, "forward")
    assert cost_of(p, "forward").flop_convention == "exact"
    assert cost_of(p.with_(operator="softmax"), "forward").flop != cost_of(p, "forward").flop


def test_twice_as_long_costs_four_times_as_much_but_for_linear():
    """Where T outgrows d_h only: a projection is linear in T."""
    for name in operators():
        p = Problem(1, 1 << 16, 1 << 16, 1, 8, operator=name)
        ratio = (
            cost_of(p.with_(T_q=1 << 17, T_kv=1 << 17), "forward").flop / cost_of(p, "forward").flop
        )
        assert ratio == pytest.approx(2.0 if name == "linear" else 4.0, rel=1e-3)
