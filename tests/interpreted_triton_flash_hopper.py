"""Cases of the Hopper kernel in Triton's interpreter; `test_triton_flash_hopper.py` starts them.

Not collected by name: Triton decides when it is imported whether a process interprets, so these
run in one of their own, `TRITON_INTERPRET=1 pytest tests/interpreted_triton_flash_hopper.py`.
The interpreter proves masks, offsets and what descriptors pad; it knows no warps.
"""

import math
from functools import partial
from itertools import product

import pytest
import torch

from impls.interface.attention import attend
from impls.interface.check import poisoned_empty
from impls.interface.problem import Problem
from impls.triton_flash import triton_flash_hopper
from impls.triton_flash.blocks import Blocks
from impls.triton_flash.interpreter import guarded
from impls.triton_flash.launch_hopper import attend as launch
from tests.interpreted_proof import FAR_APART, assert_right, drawn, far_and_near

assert_right = partial(assert_right, launch=launch)

# Tiles are 64 queries by 32 keys.
LENGTHS = (1, 2, 31, 32, 33, 63, 64, 65, 129)
RECTANGLES = ((1, 5), (5, 1), (1, 97), (31, 65), (65, 31), (129, 64), (64, 129))
HEAD_SIZES = (8, 16, 40, 64, 72, 80, 96, 128, 160, 192, 256)
WINDOWS = (1, 2, 31, 32, 33, 100, 1000)
DTYPES = ("bfloat16", "float16")


def problem(T_q, T_kv=None, *, H=2, d_h=64, dtype="bfloat16", **fields):
    return Problem(B=1, T_q=T_q, T_kv=T_kv or T_q, H=H, d_h=d_h, dtype=dtype, **fields)


def rotated(problems):
    """Each problem in one dtype, the next dtype for the next."""
    return [p.with_(dtype=DTYPES[i % 2]) for i, p in enumerate(problems)]


def cases(problems):
    return pytest.mark.parametrize("problem", problems, ids=str)


@pytest.fixture(autouse=True)
def uninitialised_memory_is_nan():
    with poisoned_empty():
        assert torch.empty(3).isnan().all()
        yield


@cases(rotated(problem(T, causal=c, H=1) for T in LENGTHS for c in (False, True)))
def test_every_length_is_right(problem):
    assert_right(problem)


@cases(rotated(problem(34, 40, d_h=d, H=1, causal=d % 16 == 0) for d in HEAD_SIZES))
def test_every_head_size_is_right(problem):
    assert_right(problem)


@cases([problem(34, d_h=d, H=1) for d in (80, 96, 160)])
def test_a_head_size_is_right_padded_too(problem):
    assert_right(problem, splits=False)


@cases([problem(17, d_h=d, H=1) for d in (72, 96, 192)])
def test_columns_beyond_64_count(problem):
    """A kernel that reads the first 64 columns alone: the others are made to dominate."""
    q, k, v = drawn(problem)
    k[..., 64:] *= 10
    assert_right(problem, (q, k, v))


@cases(rotated(problem(*T, H=1, causal=c) for T in RECTANGLES for c in (True, False)))
def test_unequal_lengths_align_bottom_right(problem):
    assert_right(problem)


@cases(rotated(problem(*T, H=1, causal=True, window=w) for T in ((97,), (40, 90)) for w in WINDOWS))
def test_a_window_keeps_the_last_keys(problem):
    assert_right(problem)


@cases([problem(70, 40, causal=True, window=10), problem(70, 3, causal=True)])
def test_rows_without_keys_are_zero_in_any_order(problem):
    assert_right(problem, seeds=(1, 2))


@cases(rotated(problem(33, H=8, H_kv=8 // g, d_h=16, causal=True) for g in (1, 2, 4, 8)))
def test_grouped_heads_read_their_kv_head(problem):
    assert_right(problem)


@cases(
    [
        Problem(B=2, T_q=40, T_kv=40, H=2, d_h=d, causal=True, layout=layout, dtype="float16")
        for layout in ("bhtd", "bthd", "packed")
        for d in (40, 96)
    ]
)
def test_every_layout_is_right_and_kept(problem):
    out, _ = assert_right(problem)
    assert out.is_contiguous() == (problem.layout == "bhtd")
    assert problem.layout == "bhtd" or out.transpose(1, 2).is_contiguous()


@cases(
    [
        *(problem(34, d_h=64, d_v=32, causal=True), problem(33, d_h=192, d_v=128)),
        *(problem(9, d_v=96), problem(33, d_h=40, d_v=64)),
    ]
)
def test_values_may_be_narrower_or_wider_than_keys(problem):
    assert_right(problem)


def test_no_stride_serves_for_another():
    """All twelve differ, so that none can be taken for another unseen."""
    mixed = problem(40, 70, H=4, H_kv=2, d_h=24, d_v=16, causal=True).with_(B=2)
    q = drawn(mixed.with_(layout="bthd"))[0]
    _, k, v = drawn(mixed)
    v = guarded(v, rows=10, columns=8)
    out, _ = assert_right(mixed, (q, k, v))
    assert len({stride for tensor in (q, k, v, out) for stride in tensor.stride()[:3]}) == 12


@pytest.mark.parametrize("scale", [0.0, -0.3, 1.0, 1e-4])
def test_any_scale_is_meant(scale):
    assert_right(problem(40, H=1, causal=True), scale=scale)


@cases(rotated([problem(97, H=1, causal=True), problem(40, 100, H=1)]))
def test_large_logits_and_late_maxima_are_right(problem):
    """Keys grow along T_kv, so the running maximum rises in every block, to some thousands."""
    q, k, v = drawn(problem)
    k *= torch.linspace(1, 60, problem.T_kv)[:, None].to(k.dtype)
    assert_right(problem, (q, k, v))


@cases([problem(T, H=1, causal=c) for T in (17, 65) for c in (False, True)])
def test_what_descriptors_pad_does_not_leak(problem):
    """Beyond the tail keys are read as zero: of all-negative scores theirs would be the largest."""
    q, k, v = drawn(problem)
    assert_right(problem, (q.abs_(), k.abs_().neg_(), v))


@cases([problem(70, 120, causal=True), problem(70, 33, causal=True, window=20)])
def test_order_of_programs_does_not_matter(problem):
    assert_right(problem, seeds=(1, 2))


def test_the_lse_is_natural():
    """Of scores 0 to 8 it is ln Σ eⁱ = 8.4586; in base 2 it would be 12.2031."""
    q, k = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 9, 8)
    q[..., 0], k[..., 0] = 1.0, torch.arange(9)
    _, lse = attend(triton_flash_hopper, q.half(), k.half(), k.half(), scale=1.0, with_lse=True)
    assert lse is not None
    assert lse.item() == pytest.approx(math.log(sum(math.e**s for s in range(9))), abs=2e-6)


@pytest.mark.parametrize("axis", FAR_APART)
def test_offsets_pass_two_to_the_31(axis):
    far, near = far_and_near(axis)
    for found, expected in zip(launch(far, far, far), launch(near, near, near), strict=True):
        assert torch.equal(found, expected)


# The shipped shapes among them.
@pytest.mark.slow
@pytest.mark.parametrize(
    "blocks",
    [Blocks(*b, 4, 2) for b in ((128, 128), (128, 64), (64, 128), (16, 64), (32, 16))],
    ids=str,
)
def test_any_block_shape_is_right(blocks):
    assert_right(problem(150, 190, d_h=80, causal=True, window=90), blocks=blocks)
    assert_right(problem(130), blocks=blocks)
    assert_right(problem(200, 256, d_h=40, dtype="float16"), blocks=blocks)


GRID = [
    *(problem(T, d_h=d, causal=c)
      for T in (1, 17, 63, 128, 255, 257) for d in (16, 80, 128) for c in (False, True)),
    *(problem(*T, H=8, H_kv=8 // g, d_h=d, causal=True)
      for T in RECTANGLES for g in (1, 4, 8) for d in (16, 96)),
    *(problem(*T, d_h=d, causal=True, window=w)
      for T, w, d in product(((127,), (64, 300), (300, 64)), WINDOWS, (40, 96))),
]  # fmt: skip


@pytest.mark.slow
@cases(rotated(GRID))
def test_the_full_grid_is_right(problem):
    assert_right(problem, seeds=(problem.T_q,))


@pytest.mark.slow
def test_a_longer_sequence_is_right():
    assert_right(problem(1025, H=2, H_kv=1, d_h=128, causal=True))
