"""The adapters of FlashInfer, through a stand-in with its conventions: plans, pages, base 2.

The stand-in (`tests.foreign_flashinfer`) computes in float64 what the library documents. On a GPU
`python -m impls check` proves the library itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from impls import flashinfer_attention
from impls.interface.conformance_cases import Case
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from tests.foreign_cases import (
    APPENDED,
    APPENDED_WINDOW,
    BLIND,
    CAPPED,
    DECODE,
    HALF,
    LENGTHS,
    MATRIX,
    PACKED,
    SCALED,
    STRIDED,
    outcomes,
    passes_all_but,
    wrong,
)
from tests.foreign_flashinfer import flashinfer
from tests.foreign_libraries import on_a_cpu


@pytest.fixture(autouse=True)
def small_workspace(monkeypatch):
    monkeypatch.setattr(flashinfer_attention, "_WORKSPACE_BYTES", 4096)


IN_ROWS = Case("packed, whole pages", Problem.parse("B=2,T=32,H=2,d_h=64,packed,causal", **HALF))
PAGES = [APPENDED, BLIND, APPENDED_WINDOW, DECODE, SCALED, CAPPED, IN_ROWS]
ONE_QUERY = [
    DECODE,
    Case("one, bthd", Problem.parse("B=3,T_q=1,T_kv=32,H=3,H_kv=1,d_h=64,bthd,causal", **HALF)),
    Case("one, window", Problem.parse("T_q=1,T_kv=64,H=2,d_h=64,causal,window=20", **HALF)),
    Case("one, capped", Problem.parse("B=2,T_q=1,T_kv=16,H=2,d_h=64", **HALF), softcap=2.0),
]


def gradients(matrix: Sequence[Case]) -> set[tuple[str, str]]:
    return {(case.subject, "gradients") for case in matrix}


ROWS = [*(case for case in MATRIX if case not in (PACKED, STRIDED)), IN_ROWS]


@pytest.mark.parametrize(
    ("kernel", "matrix"),
    [
        (flashinfer_attention.PREFILL, ROWS),
        (flashinfer_attention.PAGED, PAGES),
        (flashinfer_attention.DECODE, ONE_QUERY),
    ],
    ids=["prefill", "paged", "decode"],
)
def test_flashinfer_is_handed_what_gives_the_float64_result(kernel, matrix, monkeypatch):
    flashinfer(monkeypatch)
    passes_all_but(on_a_cpu(kernel), *gradients(matrix), matrix=matrix)
    refused = outcomes(on_a_cpu(kernel), [STRIDED])
    assert {outcome.status for outcome in refused.values()} == {"unsupported"}


def test_sequences_of_any_lengths_are_rows_of_tokens(monkeypatch):
    flashinfer(monkeypatch)
    prefill = on_a_cpu(flashinfer_attention.PREFILL)
    passes_all_but(prefill, *gradients(LENGTHS), matrix=LENGTHS)
    paged = outcomes(on_a_cpu(flashinfer_attention.PAGED), LENGTHS)
    assert {outcome.status for outcome in paged.values()} == {"unsupported"}


def test_another_convention_of_flashinfer_is_told_wrong(monkeypatch):
    habits = flashinfer(monkeypatch)
    for kernel, case in (
        (flashinfer_attention.PREFILL, APPENDED),
        (flashinfer_attention.PAGED, APPENDED),
        (flashinfer_attention.DECODE, DECODE),
    ):
        mine = on_a_cpu(kernel)
        # A library whose LSE were natural would be told wrong: it is made so.
        habits.lse_factor = math.log(2)
        assert wrong(mine, case) == {(case.subject, "lse")}
        habits.lse_factor = 1.0
        assert not wrong(mine, case)
        habits.more_window = -1
        window = ONE_QUERY[2] if kernel is flashinfer_attention.DECODE else APPENDED_WINDOW
        assert (window.subject, "output") in wrong(mine, window)
        habits.more_window = 0
    habits.bottom_right = False
    for kernel in (flashinfer_attention.PREFILL, flashinfer_attention.PAGED):
        told = outcomes(on_a_cpu(kernel), [APPENDED])["causal, T_q < T_kv", "output"]
        assert "aligned to the top left" in told.reasons[0]


@pytest.mark.parametrize("layout", ["bhtd", "bthd", "packed"])
def test_pages_are_the_memory_of_the_keys(layout):
    problem = Problem.parse("B=2,T=48,H=2,d_h=64", layout=layout, **HALF)
    k = make_inputs(problem, "cpu").k
    apart = flashinfer_attention._pages_apart(k)
    assert apart is not None
    assert apart == {"bhtd": 6, "bthd": 3, "packed": 3}[layout]
    pages = flashinfer_attention._pages(k, problem, apart)
    assert pages.untyped_storage().data_ptr() == k.untyped_storage().data_ptr()
    _, numbers, _ = flashinfer_attention._page_table(problem, apart, "cpu")
    seen = pages[numbers.long()].reshape(2, 48, 2, 64).transpose(1, 2)
    assert torch.equal(seen, k)


def test_plans_share_a_workspace_that_ends_with_them(monkeypatch):
    flashinfer(monkeypatch)
    problem = Problem.parse("T=32,H=2,d_h=64", **HALF)
    prepare = on_a_cpu(flashinfer_attention.PREFILL).prepare
    assert prepare is not None
    alive = [prepare(problem, "cpu") for _ in range(3)]
    assert len(alive) == 3 and len(flashinfer_attention._workspaces) == 1
    del alive
    assert not flashinfer_attention._workspaces


def test_a_plan_is_made_once_and_anew_where_pages_lie_otherwise(monkeypatch):
    habits = flashinfer(monkeypatch)
    problem = Problem.parse("B=2,T_q=1,T_kv=32,H=2,d_h=64,causal", **HALF)
    forward = on_a_cpu(flashinfer_attention.DECODE).prepare
    assert forward is not None
    prepared = forward(problem, "cpu")
    for layout, plans in (("bhtd", 1), ("bhtd", 1), ("bthd", 2)):
        inputs = make_inputs(problem.with_(layout=layout), "cpu")
        prepared(inputs.q, inputs.k, inputs.v)
        assert len(habits.told) == plans
