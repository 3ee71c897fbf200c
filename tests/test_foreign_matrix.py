"""The matrix of `python -m impls check`, its float32 in float16, on every adapter's stand-in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from impls import (
    flash_attention_2,
    flash_attention_3,
    flash_attention_4,
    flashinfer_attention,
    sage_attention,
    transformer_engine_attention,
)
from impls.interface.conformance_cases import cases
from tests import foreign_libraries as libraries
from tests.foreign_cases import outcomes
from tests.foreign_flashinfer import flashinfer
from tests.foreign_libraries import on_a_cpu
from tests.foreign_sageattention import sageattention
from tests.foreign_transformer_engine import transformer_engine

PAIRS = 2 * 66 * 66
MATRIX = [
    replace(case, subject=case.id, problem=case.problem.with_(dtype="float16"))
    for case in cases()
    if case.problem.B * case.problem.H * case.problem.T_q * case.problem.T_kv <= PAIRS
]
# Too coarse in int8, as its docstring says; each is an honest "wrong".
BEYOND_INT8 = ("large logits", "dominating columns")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "library", "at_least"),
    [
        (flash_attention_2.KERNEL, libraries.flash_attn_2, 400),
        (flash_attention_3.KERNEL, libraries.flash_attn_3, 400),
        (flash_attention_4.KERNEL, libraries.flash_attn_4, 400),
        (flashinfer_attention.PREFILL, flashinfer, 200),
        (flashinfer_attention.PAGED, flashinfer, 10),
        (flashinfer_attention.DECODE, flashinfer, 4),
        (transformer_engine_attention.KERNEL, transformer_engine, 250),
        (sage_attention.KERNEL, sageattention, 150),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_small_case_of_the_matrix_is_right_in_16_bits(kernel, library, at_least, monkeypatch):
    monkeypatch.setattr(flashinfer_attention, "_WORKSPACE_BYTES", 4096)
    for variable in transformer_engine_attention.PINNED:
        monkeypatch.setenv(variable, "1")
    library(monkeypatch)
    found = outcomes(on_a_cpu(kernel), MATRIX)
    wrong = {of: o.reasons for of, o in found.items() if o.status == "wrong"}
    if kernel is sage_attention.KERNEL:
        wrong = {of: why for of, why in wrong.items() if not of[0].endswith(BEYOND_INT8)}
    assert wrong == {}
    assert sum(outcome.status == "passed" for outcome in found.values()) >= at_least
