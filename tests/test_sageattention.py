"""SageAttention through a stand-in that rounds as it does: approximate, and told wrong if wrong."""

from __future__ import annotations

import math
from dataclasses import replace

from impls import sage_attention
from impls.interface.conformance_cases import Case
from impls.interface.problem import Problem
from tests.foreign_cases import (
    BLIND,
    DECODE,
    FULL,
    HALF,
    PACKED,
    SCALED,
    passes_all_but,
    wrong,
)
from tests.foreign_libraries import on_a_cpu
from tests.foreign_sageattention import sageattention

SQUARE = Case("causal", Problem.parse("B=2,T=129,H=2,d_h=128,causal,bthd", **HALF))
LONG = Case("long", Problem.parse("T=512,H=2,d_h=64,bfloat16"))
MATRIX = [FULL, SQUARE, BLIND, PACKED, DECODE, SCALED, LONG]


def refused() -> set[tuple[str, str]]:
    gradients = {(case.subject, "gradients") for case in MATRIX}
    return gradients | {(FULL.subject, "lse"), (DECODE.subject, "lse")}


def test_sageattention_is_as_near_as_it_says_and_no_nearer(monkeypatch):
    habits = sageattention(monkeypatch)
    mine = on_a_cpu(sage_attention.KERNEL)
    passes_all_but(mine, *refused(), matrix=MATRIX)
    assert all(told["ignored"] == [] for told in habits.told)
    exact = replace(mine, allowed_error=None)
    assert ("long", "output") in wrong(exact, LONG)


def test_another_convention_of_sageattention_is_told_wrong(monkeypatch):
    habits = sageattention(monkeypatch)
    mine = on_a_cpu(sage_attention.KERNEL)
    habits.lse_factor = 1 / math.log(2)
    assert wrong(mine, SQUARE, LONG) == {("causal", "lse"), ("long", "lse")}
    habits.lse_factor, habits.heads_first = 1.0, True
    assert ("scale", "output") in wrong(mine, SCALED)
