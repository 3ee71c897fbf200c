"""Cases of triton_flash that run in Triton's interpreter; `test_triton_flash.py` starts them.

Not collected by name: Triton decides when it is imported whether a process interprets, so these
run in one of their own, `TRITON_INTERPRET=1 pytest tests/interpreted_triton_flash.py`.
"""

import math
from itertools import product

import pytest
import torch

from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.problem import Problem
from impls.triton_flash import triton_flash
from impls.triton_flash.blocks import INTERPRETED, Blocks
from impls.triton_flash.interpreter import (
    bf16_is_mended_upstream,
    guarded,
    is_interpreting,
    mend_bf16,
)
from impls.triton_flash.launch import attend as launch
from tests.interpreted_proof import FAR_APART, TORCH_DTYPES, assert_right, drawn, far_and_near
from tests.known_answers import (
    LSE_OF_NINE_KEYS,
    assert_causal_is_bottom_right,
    assert_kv_heads_are_interleaved,
    known,
)

LENGTHS = (1, 2, 15, 16, 17, 31, 33, 63, 65, 127, 128, 129, 255, 257)
RECTANGLES = ((1, 5), (5, 1), (1, 257), (31, 65), (65, 31), (129, 64), (64, 129), (100, 230))
HEAD_SIZES = (16, 40, 64, 80, 96, 128, 160, 192, 256)
# 95: a block of 64 queries sees all of one tile of 32 keys, but for its last query's oldest.
WINDOWS = (1, 2, 15, 31, 32, 33, 64, 95, 1000)


def problem(T_q, T_kv=None, *, H=1, d_h=64, **fields):
    return Problem(B=1, T_q=T_q, T_kv=T_kv or T_q, H=H, d_h=d_h, **fields)


def rotated(problems):
    """Each problem in one dtype, the next dtype for the next."""
    return [p.with_(dtype=list(TORCH_DTYPES)[i % 3]) for i, p in enumerate(problems)]


def cases(problems):
    return pytest.mark.parametrize("problem", problems, ids=str)


@pytest.fixture(autouse=True)
def uninitialised_memory_is_nan():
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@cases(rotated(problem(T, causal=c) for c in (False, True) for T in LENGTHS))
def test_every_length_is_right(problem):
    assert_right(problem)


@cases(rotated(problem(70, d_h=d, causal=True) for d in (1, 2, 7, 8, 31, 72, *HEAD_SIZES)))
def test_every_head_size_is_right_split_and_padded(problem):
    assert_right(problem, splits=True)
    assert_right(problem, splits=False)


@cases([problem(17, d_h=d) for d in (72, 80, 96, 128, 192, 256)])
def test_columns_beyond_64_count(problem):
    """A kernel that reads the first 64 columns alone: the others are made to dominate."""
    q, k, v = drawn(problem)
    k[..., 64:] *= 10
    assert_right(problem, (q, k, v))


@cases(rotated(problem(*T, causal=c) for T in RECTANGLES for c in (False, True)))
def test_unequal_lengths_align_bottom_right(problem):
    assert_right(problem)


@cases(
    rotated(problem(*T, causal=True, window=w) for T, w in product(((129,), (70, 130)), WINDOWS))
)
def test_a_window_keeps_the_last_keys(problem):
    assert_right(problem)


@cases([problem(70, 40, H=2, causal=True, window=10), problem(130, 3, H=2, causal=True)])
def test_rows_without_keys_are_zero_in_any_order(problem):
    assert_right(problem, seeds=(1, 2))


@cases(rotated(problem(65, H=8, H_kv=8 // g, d_h=16, causal=True) for g in (1, 2, 4, 8)))
def test_grouped_heads_read_their_kv_head(problem):
    assert_right(problem)


@cases(
    rotated(
        Problem(B=2, T_q=65, T_kv=65, H=3, d_h=d, causal=True, layout=layout)
        for layout in ("bhtd", "bthd", "packed")
        for d in (40, 96)
    )
)
def test_every_layout_is_right_and_kept(problem):
    out, _ = assert_right(problem)
    assert out.is_contiguous() == (problem.layout == "bhtd")
    assert problem.layout == "bhtd" or out.transpose(1, 2).is_contiguous()


@cases(
    [problem(70, d_h=64, d_v=32, causal=True), problem(33, d_h=192, d_v=128), problem(9, d_v=96)]
)
def test_values_may_be_narrower_or_wider_than_keys(problem):
    assert_right(problem)


def test_no_stride_serves_for_another():
    """All twelve differ, so that none can be taken for another unseen."""
    mixed = Problem(B=2, T_q=40, T_kv=70, H=4, H_kv=2, d_h=24, d_v=20, causal=True)
    q = drawn(mixed.with_(layout="bthd"))[0]
    _, k, v = drawn(mixed)
    v = guarded(v, rows=10, columns=8)
    out, _ = assert_right(mixed, (q, k, v))
    assert len({stride for tensor in (q, k, v, out) for stride in tensor.stride()[:3]}) == 12


@pytest.mark.parametrize("scale", [0.0, -0.3, 1.0, 1e-4])
def test_any_scale_is_meant(scale):
    assert_right(problem(67, causal=True), scale=scale)


@cases(rotated([problem(129, causal=True), problem(70, 200), problem(257)]))
def test_large_logits_and_late_maxima_are_right(problem):
    """Keys grow along T_kv, so the running maximum rises in every block, to some thousands."""
    q, k, v = drawn(problem)
    k *= torch.linspace(1, 60, problem.T_kv)[:, None].to(k.dtype)
    assert_right(problem, (q, k, v))


@cases([problem(T, causal=c) for T in (17, 65, 129) for c in (False, True)])
def test_keys_beyond_the_tail_do_not_leak(problem):
    """All-negative scores: a leaked zero key would have the largest of all."""
    q, k, v = drawn(problem)
    assert_right(problem, (q.abs_(), k.abs_().neg_(), v))


@cases(rotated([problem(150, H=2, causal=True), problem(100, 65, H=2, window=20, causal=True)]))
def test_order_of_programs_does_not_matter(problem):
    assert_right(problem, seeds=(1, 2))


SHIPPED = (
    Blocks(128, 128, 8, 3), Blocks(128, 64, 8, 2), Blocks(128, 32, 4, 3), Blocks(64, 16, 8, 2),
    Blocks(32, 32, 8, 2), Blocks(32, 16, 8, 2), Blocks(16, 64, 4, 2),
)  # fmt: skip


@pytest.mark.parametrize("blocks", SHIPPED, ids=str)
def test_any_block_shape_is_right(blocks):
    T_q = blocks.BLOCK_Q + 22
    assert_right(problem(T_q, T_q + 40, d_h=80, causal=True, window=T_q // 2), blocks=blocks)
    assert_right(problem(T_q, dtype="bfloat16"), blocks=blocks)


def test_causal_with_more_keys_than_queries_is_bottom_right():
    assert_causal_is_bottom_right(triton_flash)


def test_kv_heads_are_interleaved_not_tiled():
    assert_kv_heads_are_interleaved(triton_flash)


def test_lse_is_natural():
    _, lse = known(triton_flash, 1, 9)
    assert lse.item() == pytest.approx(LSE_OF_NINE_KEYS, abs=2e-6)


def test_lse_has_one_number_a_row():
    q = torch.randn(2, 3, 5, 16)
    _, lse = attend(triton_flash, q, q, q, with_lse=True)
    assert lse is not None
    assert lse.shape == (2, 3, 5)
    assert lse.dtype == torch.float32
    assert lse.is_contiguous()


@pytest.mark.parametrize("axis", FAR_APART)
def test_offsets_pass_two_to_the_31(axis):
    far, near = far_and_near(axis)
    for causal in (False, True):
        out, lse = launch(far, far, far, causal=causal)
        expected = launch(near, near, near, causal=causal)
        assert torch.equal(out, expected[0])
        assert torch.equal(lse, expected[1])


@pytest.mark.parametrize("shape", [(0, 2, 5, 8), (2, 2, 0, 8), (1, 2, 5, 0)], ids=str)
def test_empty_tensors_compute(shape):
    q = torch.randn(shape)
    out, lse = launch(q, q, q)
    assert out.shape == shape
    assert torch.allclose(lse, torch.full(shape[:3], math.log(shape[2] or 1)))


def test_no_keys_at_all_leaves_dead_rows():
    out, lse = launch(torch.randn(1, 2, 5, 16), *torch.randn(2, 1, 2, 0, 16))
    assert (out == 0).all()
    assert lse.isneginf().all()


def test_a_stepped_last_dimension_is_refused_by_name():
    q = torch.randn(1, 2, 16, 32)
    stepped = torch.randn(1, 2, 16, 64)[..., ::2]
    with pytest.raises(Unsupported, match="last-dim stride of k is 2"):
        triton_flash.forward(q, stepped, q)
    with pytest.raises(Unsupported, match="last-dim stride of q is 16"):
        triton_flash.forward(torch.randn(1, 2, 32, 16).mT, q, q)


def test_the_interpreter_takes_cpu_tensors():
    assert is_interpreting()
    assert triton_flash.unavailable is not None
    assert triton_flash.unavailable("cpu") == []
    assert reasons_against(triton_flash, problem(5, causal=True), "cpu", {"lse", "scale"}) == []
    assert attend(triton_flash, *drawn(problem(5)))[0].shape == (1, 1, 5, 64)


def test_the_mend_of_bf16_is_still_needed():
    """When this fails Triton has learnt bfloat16: remove `mend_bf16` and the canary."""
    assert not bf16_is_mended_upstream()


def test_mended_bf16_rounds_to_even_and_keeps_what_is_not_finite():
    import triton.language as tl
    import triton.runtime.interpreter as interpreter

    mend_bf16()
    values = torch.randn(4096, generator=torch.Generator().manual_seed(0)) * 10.0 ** torch.randint(
        -40, 38, (4096,), generator=torch.Generator().manual_seed(1)
    )
    values[:6] = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 3.4e38])
    values[6] = torch.tensor(0x7F800001, dtype=torch.int32).view(torch.float32)  # a signalling NaN
    rounded = interpreter._convert_float(values.numpy(), tl.float32, tl.bfloat16, None)
    expected = values.bfloat16()
    found = torch.from_numpy(rounded.view("int16")).view(torch.bfloat16)
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.nan_to_num(nan=0), expected.nan_to_num(nan=0))
    widened = interpreter._convert_float(rounded, tl.bfloat16, tl.float32, None)
    assert torch.equal(
        torch.from_numpy(widened.view("float32")).nan_to_num(nan=0),
        expected.float().nan_to_num(nan=0),
    )


GRID = [
    *(problem(T, d_h=d, causal=i % 2 == 0)
      for i, (T, d) in enumerate(product(LENGTHS, HEAD_SIZES))),
    *(problem(*T, H=8, H_kv=8 // g, d_h=(16, 96)[i % 2], causal=True)
      for i, (T, g) in enumerate(product(RECTANGLES, (1, 2, 4, 8)))),
    *(problem(*T, d_h=(40, 80)[i % 2], causal=True, window=w)
      for i, (T, w) in enumerate(product(((127,), (257,), (64, 300), (300, 64)), WINDOWS))),
]  # fmt: skip


@pytest.mark.slow
@cases(rotated(GRID))
def test_the_full_grid_is_right(problem):
    T = problem.T_q
    assert_right(problem, splits=bool(T % 2), blocks=INTERPRETED if T > 20 else None, seeds=(T,))


@pytest.mark.slow
def test_a_longer_sequence_is_right():
    assert_right(problem(1025, H=2, H_kv=1, d_h=128, causal=True, dtype="bfloat16"))
