"""Cases of the backward of triton_flash that run in Triton's interpreter.

`test_triton_flash_backward.py` starts them; not collected by name, as those of the forward.
"""

import math

import pytest
import torch

from impls.interface.attention import Unsupported, attend
from impls.interface.problem import Problem
from impls.triton_flash import triton_flash
from impls.triton_flash.blocks_backward import BackwardBlocks, Tile
from impls.triton_flash.interpreter import guarded
from impls.triton_flash.launch import attend as launch
from impls.triton_flash.launch_backward import gradients
from tests.gradient_proof import assert_gradients_right, drawn_d_out, exact, leaves
from tests.interpreted_proof import FAR_APART, TORCH_DTYPES, drawn, far_and_near, visible

# One dtype for each case, the next for the next.
DTYPES = list(TORCH_DTYPES)
# Blocks so small that short sequences have diagonal, interior and tail blocks in both kernels.
SMALL = BackwardBlocks(Tile(16, 32, 4, 2), Tile(32, 16, 4, 2))

# 34 and 47: a tile begins with the last query that sees a key, and ends with the first that sees a
# whole tile of keys no more.
WINDOWS = (1, 34, 47, 1000)


def problem(T_q, T_kv=None, *, H=1, d_h=32, **fields):
    return Problem(B=1, T_q=T_q, T_kv=T_kv or T_q, H=H, d_h=d_h, **fields)


def rotated(problems):
    return [p.with_(dtype=DTYPES[i % 3]) for i, p in enumerate(problems)]


def cases(problems):
    return pytest.mark.parametrize("problem", problems, ids=str)


@pytest.fixture(autouse=True)
def uninitialised_memory_is_nan():
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@cases(rotated(problem(T, causal=c) for c in (False, True) for T in (1, 2, 17, 32, 65, 97)))
def test_every_length_is_right(problem):
    assert_gradients_right(problem, blocks=SMALL)


@cases(rotated(problem(20, d_h=d, causal=True) for d in (1, 7, 40, 80, 96, 256)))
def test_every_head_size_is_right_split_and_padded(problem):
    assert_gradients_right(problem, splits=True)
    assert_gradients_right(problem, splits=False)


@cases([problem(17, d_h=80), problem(17, d_h=192, d_v=96, dtype="bfloat16")])
def test_columns_beyond_the_first_chunk_count(problem):
    q, k, v = drawn(problem)
    for tensor in (q, k, v):
        tensor[..., 64:] *= 3
    assert_gradients_right(problem, (q, k, v))


@cases(
    rotated(
        problem(*T, causal=c) for T in ((1, 40), (40, 1), (33, 70), (70, 33)) for c in (False, True)
    )
)
def test_unequal_lengths_align_bottom_right(problem):
    assert_gradients_right(problem, blocks=SMALL)


@cases(rotated(problem(*T, causal=True, window=w) for T in ((90,), (40, 100)) for w in WINDOWS))
def test_a_window_keeps_the_last_keys(problem):
    assert_gradients_right(problem, blocks=SMALL)


@cases([problem(70, 40, causal=True, window=10), problem(70, 3, causal=True, H=2, H_kv=1)])
def test_rows_without_keys_give_and_get_nothing(problem):
    dq, _, _ = assert_gradients_right(problem, blocks=SMALL, seeds=(1,))
    dead = ~visible(problem).any(-1)
    assert dead.any()
    assert (dq[:, :, dead] == 0).all()


@cases(rotated(problem(24, H=4, H_kv=4 // g, d_h=16, causal=True) for g in (1, 2, 4)))
def test_a_kv_head_gathers_its_whole_group(problem):
    assert_gradients_right(problem, blocks=SMALL)


@cases(
    [
        problem(40, H=4, H_kv=1, d_h=16, causal=True),
        problem(20, 40, H=3, H_kv=1, d_h=16, dtype="bfloat16"),
    ]
)
def test_every_order_of_programs_gives_the_same_bits(problem):
    """Four and three query heads add to one row of dk: in another order, another last bit."""
    assert_gradients_right(problem, blocks=SMALL, seeds=(1, 2))


@cases([Problem(B=2, T_q=17, T_kv=17, H=2, d_h=d, causal=True, layout=layout)
        for layout, d in (("bhtd", 40), ("bthd", 96), ("packed", 40))])  # fmt: skip
def test_every_layout_is_right_and_kept(problem):
    for gradient in assert_gradients_right(problem, blocks=SMALL):
        flat = gradient if problem.layout == "bhtd" else gradient.transpose(1, 2)
        assert flat.is_contiguous()


@cases([problem(40, d_h=64, d_v=24, causal=True), problem(33, d_h=24, d_v=80)])
def test_values_may_be_narrower_or_wider_than_keys(problem):
    assert_gradients_right(problem, blocks=SMALL)


def test_no_stride_serves_for_another():
    """The strides of q, k, v and d_out all differ; so do those of dk and dv, and those of dq."""
    mixed = Problem(B=2, T_q=24, T_kv=40, H=4, H_kv=2, d_h=24, d_v=20, causal=True)
    q = drawn(mixed.with_(layout="bthd"))[0]
    _, k, v = drawn(mixed)
    v = guarded(v, rows=10, columns=8)
    d_out = guarded(drawn_d_out(mixed), rows=7, columns=3)
    read = (q, k, v, d_out)
    assert len({s for t in read for s in t.stride()[:3]}) == 12
    written = assert_gradients_right(mixed, (q, k, v), d_out=d_out, blocks=SMALL)
    assert len({s for t in written[1:] for s in t.stride()[:3]}) == 6
    assert len(set(written[0].stride()[:3])) == 3


@pytest.mark.parametrize("scale", [0.0, -0.3, 1.0, 1e-4])
def test_any_scale_is_meant(scale):
    assert_gradients_right(problem(40, causal=True), scale=scale, blocks=SMALL)


@cases(rotated([problem(70, causal=True), problem(40, 100), problem(70)]))
def test_large_logits_are_right(problem):
    """Keys grow along T_kv: scores reach some hundreds, and most weights are 0."""
    q, k, v = drawn(problem)
    k *= torch.linspace(1, 60, problem.T_kv)[:, None].to(k.dtype)
    assert_gradients_right(problem, (q, k, v), blocks=SMALL)


@cases([problem(T, causal=c, dtype=d) for T, d in ((17, "float32"), (65, "float16"))
        for c in (False, True)])  # fmt: skip
def test_rows_beyond_the_tail_do_not_leak(problem):
    """Scores near −500: of a leaked zero key or query the weight would be infinite."""
    q, k, v = drawn(problem)
    assert_gradients_right(problem, (q.abs_() * 9, k.abs_().neg_() * 9, v), blocks=SMALL)


LARGE = BackwardBlocks(Tile(64, 128, 8, 2), Tile(128, 64, 8, 2))


@cases([problem(150, 190, d_h=80, causal=True, window=90), problem(130, 140, dtype="bfloat16")])
def test_large_blocks_are_right(problem):
    assert_gradients_right(problem, blocks=LARGE)


@pytest.mark.parametrize("uses", ["out", "lse", "both"])
def test_both_results_are_differentiated(uses):
    """Through autograd, as merging two splits needs it; expected is what it gives in float64."""
    both = Problem(B=1, T_q=40, T_kv=33, H=4, H_kv=2, d_h=24, d_v=16, causal=True)
    generator = torch.Generator().manual_seed(3)
    d_out = torch.randn(1, 4, 40, 16, generator=generator) * (uses != "lse")
    d_lse = torch.randn(1, 4, 40, generator=generator) * (uses != "out")
    d_lse[:, :, :7] = 0.0  # of rows without a key lse is −inf, which is constant
    tensors = drawn(both)
    q, k, v = leaves(*tensors)
    out, lse = attend(triton_flash, q, k, v, causal=True, with_lse=True)
    assert lse is not None
    d_lse_given = d_lse.clone()
    d_lse_given[:, :, :7] = math.nan  # what logaddexp(−inf, −inf) passes on
    results, arrived = zip(
        *[pair for name, pair in (("out", (out, d_out)), ("lse", (lse, d_lse_given)))
          if uses in (name, "both")],
        strict=True,
    )  # fmt: skip
    found = torch.autograd.grad(results, (q, k, v), arrived)
    wide = leaves(*tensors, dtype=torch.float64)
    results = exact(wide, both)
    if uses == "lse":
        results, d_all = results[1:], (d_lse.double(),)
        wide_used = wide[:2]
        expected = [*torch.autograd.grad(results, wide_used, d_all), torch.zeros_like(wide[2])]
    else:
        expected = torch.autograd.grad(results, wide, (d_out.double(), d_lse.double()))
    for gradient, due in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient.double(), due, atol=4e-6, rtol=0)


def test_a_gradient_that_is_one_number_repeated_is_read_right():
    """out.sum() sends back a tensor whose strides are all 0; out.mT, one whose last is not 1."""
    tensors = drawn(problem(33, H=2, causal=True))
    wide = leaves(*tensors, dtype=torch.float64)
    for of_out in (torch.sum, lambda out: (out.mT.contiguous() ** 2).sum()):
        used = leaves(*tensors)
        found = torch.autograd.grad(of_out(attend(triton_flash, *used, causal=True)[0]), used)
        out, _ = exact(wide, problem(33, H=2, causal=True))
        for gradient, due in zip(found, torch.autograd.grad(of_out(out), wide), strict=True):
            torch.testing.assert_close(gradient.double(), due, atol=1e-5, rtol=0)


def test_it_is_differentiated_once_and_says_so():
    q, k, v = leaves(*drawn(problem(5)))
    out = triton_flash.forward(q, k, v)
    (dq,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


def test_no_graph_is_kept_where_no_gradient_is_asked_for():
    q, k, v = leaves(*drawn(problem(5)))
    with torch.no_grad():
        assert triton_flash.forward(q, k, v).grad_fn is None
    assert triton_flash.forward(*(t.detach() for t in (q, k, v))).grad_fn is None
    out = triton_flash.forward(q.detach(), k, v.detach())
    out.sum().backward()
    assert k.grad is not None
    assert q.grad is None


@pytest.mark.parametrize("axis", FAR_APART)
def test_offsets_pass_two_to_the_31(axis):
    far, near = far_and_near(axis)
    for causal in (False, True):
        out, lse = launch(near, near, near, causal=causal)
        found = gradients(far, far, far, out, lse, far, causal=causal)
        expected = gradients(near, near, near, out, lse, near, causal=causal)
        assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize(
    ("q_shape", "kv_shape"),
    [((0, 2, 5, 8), (0, 2, 5, 8)), ((2, 2, 0, 8), (2, 2, 4, 8)), ((1, 2, 5, 8), (1, 2, 0, 8)),
     ((1, 2, 5, 0), (1, 2, 4, 0))],
    ids=str,
)  # fmt: skip
def test_empty_tensors_have_gradients_of_zero(q_shape, kv_shape):
    q, k, v = leaves(torch.randn(q_shape), torch.randn(kv_shape), torch.randn(kv_shape))
    found = torch.autograd.grad(triton_flash.forward(q, k, v).sum(), (q, k, v))
    for tensor, gradient in zip((q, k, v), found, strict=True):
        assert gradient.shape == tensor.shape
        assert (gradient == 0).all()


def test_a_stepped_last_dimension_is_refused_by_name():
    q = torch.randn(1, 2, 16, 32)
    stepped = torch.randn(1, 2, 16, 64)[..., ::2].requires_grad_()
    with pytest.raises(Unsupported, match="last-dim stride of k is 2"):
        triton_flash.forward(q, stepped, q)


GRID = [
    *(problem(T, H=2, d_h=d, causal=c)
      for T in (1, 16, 31, 63, 65, 129, 257) for d in (16, 40, 64, 80, 128) for c in (False, True)),
    *(problem(*T, H=8, H_kv=8 // g, d_h=(16, 96)[i % 2], causal=True)
      for i, T in enumerate(((1, 65), (64, 129), (129, 64))) for g in (1, 2, 4, 8)),
    *(problem(*T, d_h=d, causal=True, window=w)
      for T in ((127,), (64, 200), (200, 64)) for w in (1, 31, 34, 64, 100) for d in (40, 160)),
    *(problem(100, H=2, H_kv=1, d_h=d, causal=True) for d in (192, 256)),
]  # fmt: skip


@pytest.mark.slow
@cases(rotated(GRID))
def test_the_full_grid_is_right(problem):
    seeds = (1,) if problem.H_kv < problem.H else ()
    assert_gradients_right(problem, splits=bool(problem.T_q % 2), seeds=seeds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys", [Tile(q, kv, 8, 2) for q, kv in ((32, 128), (128, 16), (16, 64), (64, 64))], ids=str
)
@pytest.mark.parametrize(
    "queries", [Tile(q, kv, 4, 3) for q, kv in ((128, 128), (128, 32), (16, 64))], ids=str
)
def test_any_block_shape_is_right(keys, queries):
    blocks = BackwardBlocks(keys, queries)
    assert_gradients_right(problem(150, 190, d_h=24, causal=True, window=90), blocks=blocks)


@pytest.mark.slow
def test_a_longer_sequence_is_right():
    assert_gradients_right(problem(1025, H=2, H_kv=1, d_h=64, causal=True, dtype="bfloat16"))
