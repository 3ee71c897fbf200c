"""Cases of triton_flash_tf32x3 in Triton's interpreter; `test_triton_flash.py` starts them.

The interpreter multiplies float32 in full, whatever precision is asked for. Here products are made
as the compiler makes them, so that what three products leave out is held against the tolerance.
"""

import numpy as np
import pytest
import torch
import triton.runtime.interpreter as interpreter
from triton._C.libtriton.ir import INPUT_PRECISION

from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.check import poisoned_empty
from impls.interface.problem import Problem
from impls.triton_flash import triton_flash, triton_flash_tf32x3
from impls.triton_flash.blocks_backward import BackwardBlocks, Tile
from impls.triton_flash.interpreter import mend_bf16
from impls.triton_flash.launch import attend as launch
from impls.triton_flash.precision import TF32X3
from tests.gradient_proof import assert_gradients_right, leaves
from tests.interpreted_proof import assert_right, drawn

SMALL = BackwardBlocks(Tile(16, 32, 4, 2), Tile(32, 16, 4, 2))


def problem(T_q, T_kv=None, *, H=2, d_h=64, **fields):
    return Problem(B=1, T_q=T_q, T_kv=T_kv or T_q, H=H, d_h=d_h, **fields)


def tf32(values):
    """Rounded to the 10 bits of TF32's mantissa, half away from zero (PTX ISA, cvt.rna.tf32)."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


def product(a, b, precision):
    """One product as matrix units make it: of TF32, or of three such, the small ones first."""
    big_a, big_b = tf32(a), tf32(b)
    if precision == INPUT_PRECISION.TF32:
        return big_a @ big_b
    return tf32(a - big_a) @ big_b + big_a @ tf32(b - big_b) + big_a @ big_b


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """Which precisions products were asked for; they are made as matrix units make them."""
    mend_bf16()  # once, now: its canary multiplies too
    asked = []
    as_it_is = interpreter.InterpreterBuilder.create_dot

    def dot(self, a, b, d, precision, *rest):
        asked.append(precision)
        if precision == INPUT_PRECISION.IEEE:
            return as_it_is(self, a, b, d, precision, *rest)
        values = product(a.data, b.data, precision) + d.data
        return interpreter.TensorHandle(values, d.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", dot)
    with poisoned_empty():
        yield asked


@pytest.mark.parametrize(
    "problem",
    [
        problem(129, causal=True), problem(70, 33, d_h=40), problem(33, 70, d_h=96, causal=True),
        problem(65, H=4, H_kv=1, d_h=128, causal=True, window=20),
    ],
    ids=str,
)  # fmt: skip
def test_three_products_are_as_good_as_float32(problem, made):
    assert_right(problem, precision=TF32X3)
    assert set(made) == {INPUT_PRECISION.TF32x3}


def test_one_product_would_not_be(made):
    """The teeth of the case before: TF32 alone, Triton's default, is told."""
    with pytest.raises(AssertionError, match="error of out"):
        assert_right(problem(129, causal=True), precision="tf32")
    assert set(made) == {INPUT_PRECISION.TF32}


@pytest.mark.parametrize(
    "problem",
    [
        problem(65, H=1, d_h=32, causal=True), problem(24, H=4, H_kv=2, d_h=16),
        problem(20, 40, H=1, d_h=40, causal=True, window=15),
    ],
    ids=str,
)  # fmt: skip
def test_gradients_of_three_products_are_as_good_as_float32(problem, made):
    assert_gradients_right(problem, blocks=SMALL, precision=TF32X3)
    # The forward's own two products of a tile, and the seven of both backward kernels.
    assert set(made) == {INPUT_PRECISION.TF32x3, INPUT_PRECISION.IEEE}


def test_gradients_of_one_product_would_not_be():
    with pytest.raises(AssertionError, match="dq: off by"):
        assert_gradients_right(
            problem(65, H=1, d_h=32, causal=True), blocks=SMALL, precision="tf32"
        )


@pytest.mark.parametrize(
    ("implementation", "precision"),
    [(triton_flash, INPUT_PRECISION.IEEE), (triton_flash_tf32x3, INPUT_PRECISION.TF32x3)],
    ids=["triton_flash", "triton_flash_tf32x3"],
)
def test_an_implementation_multiplies_as_its_name_says(implementation, precision, made):
    """Through autograd, so that no kernel is left out."""
    q, k, v = leaves(*drawn(problem(40, causal=True)))
    out, lse = attend(implementation, q, k, v, causal=True, with_lse=True)
    assert lse is not None
    (out.sum() + lse.sum()).backward()
    assert set(made) == {precision}


def test_it_is_for_float32_and_no_large_heads_alone():
    q = torch.randn(1, 2, 16, 32)
    with pytest.raises(Unsupported, match="dtype bfloat16 is not supported"):
        triton_flash_tf32x3.forward(*[q.bfloat16()] * 3)
    with pytest.raises(Unsupported, match="d_h=130 is above 128"):
        triton_flash_tf32x3.forward(*[torch.randn(1, 2, 16, 130)] * 3)
    with pytest.raises(Unsupported, match="d_h=65 is above 64 in a backward"):
        triton_flash_tf32x3.forward(*[torch.randn(1, 2, 16, 65, requires_grad=True)] * 3)
    half = problem(16, dtype="float16")
    assert "float16" in reasons_against(triton_flash_tf32x3, half, "cpu")[0]
    assert torch.equal(triton_flash_tf32x3.forward(q, q, q), launch(q, q, q, precision=TF32X3)[0])
