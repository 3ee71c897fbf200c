"""Cases of triton_decode that run in Triton's interpreter; `test_triton_decode.py` starts them.

Not collected by name: Triton decides when it is imported whether a process interprets, so these
run in one of their own, `TRITON_INTERPRET=1 pytest tests/interpreted_triton_decode.py`.
"""

import math
from functools import partial
from itertools import product

import pytest
import torch

from impls.interface.check import poisoned_empty
from impls.interface.problem import Problem
from impls.triton_flash import launch_decode, triton_decode
from impls.triton_flash.blocks_decode import DecodeBlocks
from impls.triton_flash.interpreter import guarded
from impls.triton_flash.launch_decode import decode
from tests.interpreted_proof import TORCH_DTYPES, assert_right, drawn

assert_decoded = partial(assert_right, launch=decode)

# Around a tile of 32 keys, a few tiles, and the 7 programs that the interpreter is given at once.
CACHES = (1, 2, 31, 32, 33, 63, 64, 65, 97, 129, 225, 300)
HEAD_SIZES = (16, 40, 64, 80, 96, 128, 160, 192, 256)
FEW_QUERIES = ((2, 7), (3, 32), (5, 33), (8, 8), (16, 65), (17, 40), (7, 3), (35, 33), (9, 1))
WINDOWS = (1, 2, 31, 32, 33, 100, 1000)


def problem(T_kv, T_q=1, *, H=2, d_h=64, **fields):
    return Problem(B=1, T_q=T_q, T_kv=T_kv, H=H, d_h=d_h, **fields)


def rotated(problems):
    """Each problem in one dtype, the next dtype for the next."""
    return [p.with_(dtype=list(TORCH_DTYPES)[i % 3]) for i, p in enumerate(problems)]


def cases(problems):
    return pytest.mark.parametrize("problem", problems, ids=str)


@pytest.fixture(autouse=True)
def uninitialised_memory_is_nan():
    with poisoned_empty():
        assert torch.empty(3).isnan().all()
        yield


@cases(rotated(problem(T, d_h=32, causal=i % 2 == 0) for i, T in enumerate(CACHES)))
def test_every_length_of_the_cache_is_right(problem):
    assert_decoded(problem)


@cases(rotated(problem(70, 3, H=1, d_h=d, causal=True) for d in (1, 7, 72, *HEAD_SIZES)))
def test_every_head_size_is_right(problem):
    assert_decoded(problem)


@cases([problem(40, d_h=d) for d in (72, 96, 192)])
def test_columns_beyond_64_count(problem):
    """A kernel that reads the first 64 columns alone: the others are made to dominate."""
    q, k, v = drawn(problem)
    k[..., 64:] *= 10
    assert_decoded(problem, (q, k, v))


@cases([problem(70, d_h=64, d_v=32), problem(33, 2, d_h=192, d_v=128), problem(40, d_h=64, d_v=96)])
def test_values_may_be_narrower_or_wider_than_keys(problem):
    assert_decoded(problem)


@cases(
    rotated(
        problem(T_kv, T_q, d_h=32, causal=c)
        for i, (T_q, T_kv) in enumerate(FEW_QUERIES)
        for c in ((True, False) if i % 3 == 0 else (True,))
    )
)
def test_a_few_queries_align_bottom_right(problem):
    assert_decoded(problem)


@cases(
    rotated(
        problem(65, T_q, H=H, H_kv=H_kv, d_h=16, causal=True)
        for T_q in (1, 3)
        for H, H_kv in ((4, 4), (4, 2), (8, 2), (8, 1), (6, 2), (5, 1))
    )
)
def test_grouped_heads_read_their_kv_head(problem):
    assert_decoded(problem)


@cases(
    rotated(
        problem(T_kv, T_q, H=2, H_kv=1, d_h=16, causal=True, window=w)
        # 65 of 130: eight queries see all of one tile of 32 keys, but for the last one's oldest.
        for (T_q, T_kv), w in (*product(((1, 130), (4, 100)), WINDOWS), ((8, 130), 65))
    )
)
def test_a_window_keeps_the_last_keys(problem):
    assert_decoded(problem)


def test_keys_before_the_window_are_in_no_split():
    """Nor are they read: a long cache costs no more than its window."""
    long = problem(300, 4, d_h=16, causal=True, window=40)
    q, k, v = drawn(long)
    k[:, :, : 300 - 4 - 40 - 31] = math.nan
    out, lse = decode(q, k, v, causal=True, window=40)
    assert out.isfinite().all()
    assert lse.isfinite().all()


@cases(
    [
        problem(40, 42, H=1, d_h=16, causal=True, window=10),
        problem(3, 9, H=2, H_kv=1, d_h=16, causal=True),
    ]
)
def test_rows_without_keys_are_zero_in_any_order(problem):
    assert_decoded(problem, seeds=(1,), n_splits=2)


@pytest.mark.parametrize("n_splits", (1, 2, 5, 17, 33))
def test_any_number_of_splits_is_right_even_of_empty_ones(n_splits):
    """100 keys are 4 tiles: from the fifth on, splits are empty. 16 are merged at a time."""
    assert_decoded(problem(100, 3, H=1, d_h=16, causal=True), n_splits=n_splits)
    assert_decoded(problem(100, 2, H=1, d_h=16, causal=True, window=2), n_splits=n_splits)


@cases(
    rotated(
        [
            Problem(B=2, T_q=2, T_kv=70, H=3, d_h=40, causal=True),
            Problem(B=2, T_q=2, T_kv=70, H=3, d_h=40, causal=True, layout="bthd"),
            Problem(B=2, T_q=20, T_kv=20, H=2, d_h=16, causal=True, layout="packed"),
        ]
    )
)
def test_every_layout_is_right_and_kept(problem):
    out, _ = assert_decoded(problem)
    assert out.is_contiguous() == (problem.layout == "bhtd")
    assert problem.layout == "bhtd" or out.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("n_splits", (1, 3))
def test_no_stride_serves_for_another(n_splits):
    """All twelve differ, so that none can be taken for another unseen."""
    mixed = Problem(B=2, T_q=6, T_kv=70, H=4, H_kv=2, d_h=24, d_v=20, causal=True)
    q = drawn(mixed.with_(layout="bthd"))[0]
    _, k, v = drawn(mixed)
    v = guarded(v, rows=10, columns=8)
    out, _ = assert_decoded(mixed, (q, k, v), n_splits=n_splits)
    assert len({stride for tensor in (q, k, v, out) for stride in tensor.stride()[:3]}) == 12


@pytest.mark.parametrize("scale", [0.0, -0.3, 1.0, 1e-4])
def test_any_scale_is_meant(scale):
    assert_decoded(problem(67, 2, causal=True), scale=scale)


@cases(rotated([problem(129, causal=True), problem(200, 4, H=4, H_kv=1), problem(300)]))
@pytest.mark.parametrize("n_splits", (1, 3))
def test_large_logits_and_late_maxima_are_right(problem, n_splits):
    """Keys grow along T_kv: the maximum rises in every tile and every split, to some thousands."""
    q, k, v = drawn(problem)
    k *= torch.linspace(1, 60, problem.T_kv)[:, None].to(k.dtype)
    assert_decoded(problem, (q, k, v), n_splits=n_splits)


@pytest.mark.parametrize("rises", (True, False))
def test_late_maxima_are_right_beyond_what_one_iteration_merges(rises):
    """33 splits of a tile each, the reduce kernel takes 16 at a time: the maximum moves between."""
    long = problem(33 * 32, H=1, d_h=16)
    q, k, v = drawn(long)
    ramp = torch.linspace(1, 8, long.T_kv)
    k *= (ramp if rises else ramp.flip(0))[:, None]
    assert_decoded(long, (q, k, v), n_splits=33)


@cases([problem(T, T_q, causal=c) for T in (17, 65, 129) for T_q, c in ((1, False), (3, True))])
def test_keys_beyond_the_tail_do_not_leak(problem):
    """All-negative scores: a leaked zero key would have the largest of all."""
    q, k, v = drawn(problem)
    assert_decoded(problem, (q.abs_(), k.abs_().neg_(), v))


@cases(rotated([problem(99, 1, H=4, H_kv=2), problem(65, 9, H=2, H_kv=1, causal=True, window=9)]))
def test_order_of_programs_does_not_matter(problem):
    assert_decoded(problem, seeds=(1, 2), n_splits=4)


SHIPPED = (
    DecodeBlocks(16, 64, 4, 3, 128), DecodeBlocks(32, 64, 4, 3, 512),
    DecodeBlocks(64, 64, 4, 3, 64), DecodeBlocks(64, 32, 4, 2, 64), DecodeBlocks(16, 16, 4, 2, 16),
)  # fmt: skip


@pytest.mark.parametrize("blocks", SHIPPED, ids=str)
def test_any_block_shape_is_right(blocks):
    few = problem(130, 3, H=6, H_kv=1, d_h=80, causal=True, window=70)
    assert_decoded(few, blocks=blocks, n_splits=2)


@cases(
    [problem(300, 2), problem(300, H=8, H_kv=1), problem(30), problem(290, causal=True, window=70)]
)
def test_scratch_is_what_is_allocated(problem, monkeypatch):
    """Lse, which the caller did not ask for, and the partial outputs, where there are splits."""
    given = []
    monkeypatch.setattr(
        launch_decode,
        "merge",
        lambda partial, partial_lse, *rest: given.extend((partial, partial_lse)),
    )
    _, lse = decode(*drawn(problem), causal=problem.causal, window=problem.window)
    assert bool(given) == (problem.T_kv > 40)
    assert triton_decode.scratch_bytes is not None
    assert triton_decode.scratch_bytes(problem, "forward") == sum(t.nbytes for t in (*given, lse))


GRID = [
    *(problem(T, T_q, d_h=d, causal=c)
      for T in (*CACHES, 257) for d in (40, 96, 128) for T_q, c in ((1, False), (4, True))),
    *(problem(T, T_q, H=8, H_kv=8 // g, d_h=d, causal=True)
      for T, T_q in ((33, 1), (200, 3), (300, 16), (7, 20)) for g in (1, 2, 4, 8)
      for d in (64, 192)),
    *(problem(T, T_q, H=4, H_kv=2, d_h=d, causal=True, window=w)
      for T, T_q in ((129, 1), (300, 2), (270, 16), (20, 60)) for w in WINDOWS for d in (16, 80)),
    *(problem(100, T_q, H=2, H_kv=1, causal=c)
      for T_q in (1, 2, 3, 8, 16, 31, 33, 64, 127, 128) for c in (False, True)),
]  # fmt: skip


@pytest.mark.slow
@cases(rotated(GRID))
def test_the_full_grid_is_right(problem):
    n_splits = (None, 1, 2, 5, 17)[problem.T_kv % 5]
    assert_decoded(problem, seeds=(problem.T_kv,), n_splits=n_splits)


@pytest.mark.slow
@pytest.mark.parametrize("n_splits", (None, 1, 33))
def test_a_longer_cache_is_right(n_splits):
    long = problem(4097, H=4, H_kv=1, d_h=128, causal=True, dtype="bfloat16")
    assert_decoded(long, n_splits=n_splits)
