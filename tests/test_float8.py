"""Float8 products on a CPU, where torch converts: as near as it says, and told wrong if wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from impls import scaled_mm_float8
from impls.interface.attention import reasons_against
from impls.interface.check import check_output
from impls.interface.conformance_cases import ASKS, Case
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference
from tests.foreign_cases import (
    MATRIX,
    STRIDED_ASKS,
    on_a_device,
    outcomes,
    passes_all_but,
    wrong,
)
from tests.foreign_libraries import on_a_cpu

ODD = [
    Case("odd sizes", Problem.parse("B=2,T_q=5,T_kv=31,H=6,H_kv=2,d_h=7,d_v=9,causal")),
    Case("zeros", Problem.parse("T=17,H=2,d_h=64"), scale=1e-30),
    Case("16-bit scores", Problem.parse("T=129,H=2,d_h=128,causal,bfloat16"), "negative scores"),
    Case("small and large", Problem.parse("T=33,H=2,d_h=64"), "large values"),
]
LARGE = Case("large", Problem.parse("T=33,H=2,d_h=64"), "large logits")


def test_float8_is_as_near_as_it_says_and_no_nearer():
    mine = on_a_cpu(scaled_mm_float8.KERNEL)
    matrix = [*MATRIX, *ODD]
    lacking = {(case.subject, ask) for case in matrix for ask in ("lse", "gradients")}
    lacking |= {("softcap", ask) for ask in ASKS} | set(STRIDED_ASKS)
    passes_all_but(mine, *lacking, matrix=matrix)
    assert ("odd sizes", "output") in wrong(replace(mine, allowed_error=0.01), *ODD)


def test_scores_that_float8_is_too_coarse_for_are_refused_with_both_numbers():
    mine = on_a_cpu(scaled_mm_float8.KERNEL)
    found = outcomes(mine, [LARGE])["large", "output"]
    assert found.status == "unsupported"
    assert found.reasons[0].startswith("scores of ") and found.reasons[0].endswith("above 16")
    assert wrong(replace(mine, largest_score={}), LARGE) == {("large", "output")}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_its_error_at_a_thousand_keys_is_that_of_four_float8_factors(dtype):
    problem = Problem.parse(f"T_q=64,T_kv=1024,H=2,d_h=64,{dtype}")
    inputs = make_inputs(problem, "cpu")
    forward = on_a_cpu(scaled_mm_float8.KERNEL).prepared(problem, "cpu")
    assert forward is not None
    out = forward(inputs.q, inputs.k, inputs.v)
    found = check_output(out, None, None, reference(inputs, problem), allowed_error=0.16)
    error = found.outputs["out"].relative_error
    # Two or four roundings of 2.6 % each in the mean square, those of scores as of a weight.
    assert found.ok and error is not None and 0.026 < error < 2.5 * 0.026


def test_the_products_are_asked_for_as_a_gpu_takes_them(monkeypatch):
    """Sizes in 16s, the first by rows, the second by columns: cuBLASLt has no other, a CPU all."""
    scaled_mm, sizes = torch.nn.functional.scaled_mm, []

    def product(a, b, a_step, _, b_step, *rest, **options):
        assert a.dtype == b.dtype == torch.float8_e4m3fn
        assert a_step.dtype == b_step.dtype == torch.float32
        assert (a.stride(), b.stride()) == ((a.shape[1], 1), (1, b.shape[0]))
        sizes.extend([a.shape[1], *b.shape])
        return scaled_mm(a, b, a_step, _, b_step, *rest, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_mm", product)
    mine = on_a_cpu(scaled_mm_float8.KERNEL)
    assert outcomes(mine, ODD[:1])["odd sizes", "output"].status == "passed"
    assert len(sizes) == 3 * 2 * 2 * 2 and not any(size % 16 for size in sizes)


def test_float8_needs_a_device_that_has_it(monkeypatch):
    mine, problem = scaled_mm_float8.scaled_mm_float8, Problem.parse("T=64,H=2,d_h=64,bfloat16")
    assert "does not run on cpu" in reasons_against(mine, problem, "cpu")[0]
    on_a_device(monkeypatch, (8, 0))
    needed = "needs compute capability 8.9 or newer, this device has 8.0"
    assert reasons_against(mine, problem, "cuda") == [needed]
    on_a_device(monkeypatch, (9, 0))
    assert reasons_against(mine, problem, "cuda") == []


def test_a_head_of_zeros_gives_the_mean_of_its_values():
    problem = Problem.parse("T=16,H=1,d_h=16")
    forward = on_a_cpu(scaled_mm_float8.KERNEL).prepared(problem, "cpu")
    assert forward is not None
    out = forward(*(torch.zeros(1, 1, 16, 16) for _ in "qk"), torch.ones(1, 1, 16, 16))
    torch.testing.assert_close(out, torch.ones(1, 1, 16, 16))
