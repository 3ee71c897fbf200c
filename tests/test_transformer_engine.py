"""Transformer Engine through a stand-in: which mask, which window, and no backend but cuDNN."""

from __future__ import annotations

import os

import pytest
import torch

from impls import transformer_engine_attention
from impls.interface.attention import Unsupported, attend
from impls.interface.conformance_cases import Case
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from tests.foreign_cases import (
    APPENDED,
    APPENDED_WINDOW,
    CAPPED,
    HALF,
    MATRIX,
    STRIDED_ASKS,
    outcomes,
    passes_all_but,
    wrong,
)
from tests.foreign_libraries import on_a_cpu
from tests.foreign_transformer_engine import transformer_engine

WIDE = Case("d_v ≠ d_h", Problem.parse("B=2,T_q=1,T_kv=32,H=2,d_h=192,d_v=128,causal", **HALF))
ONE_IN_A_WINDOW = Case(
    "one, window", Problem.parse("T_q=1,T_kv=64,H=2,d_h=64,causal,window=9", **HALF)
)


@pytest.fixture
def mine(monkeypatch):
    for variable in transformer_engine_attention.PINNED:
        monkeypatch.setenv(variable, "1")
    habits = transformer_engine(monkeypatch)
    return on_a_cpu(transformer_engine_attention.KERNEL), habits


def test_transformer_engine_is_handed_what_gives_the_float64_result(mine):
    matrix = [*MATRIX, WIDE, ONE_IN_A_WINDOW]
    unsupported = {(case.subject, "lse") for case in matrix}
    unsupported |= {(CAPPED.subject, "output"), (CAPPED.subject, "gradients"), *STRIDED_ASKS}
    passes_all_but(mine[0], *unsupported, matrix=matrix)
    assert all(told["NVTE_FLASH_ATTN"] == told["NVTE_UNFUSED_ATTN"] == "0" for told in mine[1].told)


def test_another_convention_of_transformer_engine_is_told_wrong(mine):
    implementation, habits = mine
    habits.bottom_right = False
    told = outcomes(implementation, [APPENDED])["causal, T_q < T_kv", "output"]
    assert "aligned to the top left" in told.reasons[0]
    habits.bottom_right, habits.more_window = True, 1
    assert ("window, T_q < T_kv", "output") in wrong(implementation, APPENDED_WINDOW)


def test_it_trains_only_where_gradients_are_wanted(mine):
    implementation, habits = mine
    problem = Problem.parse("T=16,H=2,d_h=64", **HALF)
    inputs = make_inputs(problem, "cpu")
    forward = implementation.prepare(problem, "cpu")
    for enabled in (False, True, False):
        with torch.set_grad_enabled(enabled):
            forward(inputs.q, inputs.k, inputs.v)
    assert [told["training"] for told in habits.told] == [False, True, False]


def test_what_cudnn_refuses_is_refused_and_no_other_backend_steps_in(mine):
    q = torch.ones(1, 2, 16, 136, dtype=torch.float16)
    with pytest.raises(Unsupported, match="cuDNN refuses it; NVTE_DEBUG=1"):
        attend(mine[0], q, q, q)
    assert os.environ["NVTE_UNFUSED_ATTN"] == "0"
