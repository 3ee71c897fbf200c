"""Merging of splits, answers known from elsewhere, offsets and refusals of triton_decode.

Run in Triton's interpreter like `interpreted_triton_decode.py`, by `test_triton_decode.py`.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.check import poisoned_empty
from impls.interface.problem import Problem
from impls.triton_flash import triton_decode
from impls.triton_flash.blocks_decode import INTERPRETED, Splits
from impls.triton_flash.launch_decode import attend_to_splits, decode, merge
from tests.interpreted_proof import drawn, far_and_near
from tests.known_answers import (
    LSE_OF_NINE_KEYS,
    assert_causal_is_bottom_right,
    assert_kv_heads_are_interleaved,
    sine,
)


@pytest.fixture(autouse=True)
def uninitialised_memory_is_nan():
    with poisoned_empty():
        yield


def partials(rows, n_splits, d_v=8, seed=0):
    """Outputs (n_splits, 1, rows, 1, d_v) and lse of splits, normally distributed."""
    generator = torch.Generator().manual_seed(seed)
    outs = torch.randn(n_splits, 1, rows, 1, d_v, generator=generator)
    return outs, 3 * torch.randn(n_splits, 1, rows, 1, generator=generator)


def merged(outs, lses):
    out, lse = torch.empty(outs.shape[1:]), torch.empty(lses.shape[1:])
    merge(outs.contiguous(), lses.contiguous(), out, lse)
    return out, lse


def test_two_parts_merge_to_the_whole():
    """Nine keys attended to in two parts, 5 and 4, and whole: known from elsewhere."""
    outs = [[0.090416, 0.049378, -0.029805, -0.085963], [-0.410378, 0.053952, 0.476604, 0.531075]]
    out, lse = merged(
        torch.tensor(outs).reshape(2, 1, 1, 1, 4),
        torch.tensor([2.092331, 1.689325]).reshape(2, 1, 1, 1),
    )
    assert out.flatten().tolist() == pytest.approx(
        [-0.110198, 0.05121, 0.173058, 0.161217], abs=2e-6
    )
    assert lse.item() == pytest.approx(2.604141, abs=2e-6)


@pytest.mark.parametrize("n_splits", (1, 2, 16, 17, 33))
def test_empty_parts_merge_to_an_empty_whole(n_splits):
    """Case E03, flashinfer#4051: −inf minus −inf is NaN, and spoils the rest."""
    out, lse = merged(torch.zeros(n_splits, 1, 3, 1, 8), torch.full((n_splits, 1, 3, 1), -math.inf))
    assert (out == 0).all()
    assert lse.isneginf().all()


@pytest.mark.parametrize(("n_splits", "full"), [(2, 0), (2, 1), (17, 0), (17, 16), (40, 20)])
def test_a_part_merged_with_empty_ones_is_unchanged(n_splits, full):
    outs, lses = partials(rows=3, n_splits=n_splits)
    is_empty = torch.arange(n_splits) != full
    outs[is_empty], lses[is_empty] = 0.0, -math.inf
    out, lse = merged(outs, lses)
    assert torch.equal(out, outs[full])
    assert torch.equal(lse, lses[full])


@settings(max_examples=25, deadline=None)
@given(
    n_splits=st.integers(1, 40),
    empty=st.sets(st.integers(0, 39)),
    seed=st.integers(0, 999),
    largest=st.sampled_from((1.0, 50.0, 1e4)),
)
def test_merging_is_the_weighted_mean_in_any_order(n_splits, empty, seed, largest):
    outs, lses = partials(rows=1, n_splits=n_splits, seed=seed)
    lses *= largest
    for i in (i for i in empty if i < n_splits):
        outs[i], lses[i] = 0.0, -math.inf
    exact_lse = lses.double().logsumexp(0)
    weights = torch.exp(lses.double() - exact_lse).nan_to_num(nan=0.0)
    exact = (weights[..., None] * outs.double()).sum(0)
    for order in (torch.arange(n_splits), torch.arange(n_splits).flip(0)):
        out, lse = merged(outs[order], lses[order])
        assert torch.allclose(out.double(), exact, rtol=0, atol=2e-6 * float(outs.abs().max()))
        assert torch.allclose(lse.double(), exact_lse, rtol=2e-7, atol=1e-6)


def test_causal_with_more_keys_than_queries_is_bottom_right():
    assert_causal_is_bottom_right(triton_decode)


def test_kv_heads_are_interleaved_not_tiled():
    assert_kv_heads_are_interleaved(triton_decode)


@pytest.mark.parametrize("n_splits", (1, 2))
def test_lse_is_natural(n_splits):
    q = sine(1, 1, 1, 4, frequency=0.7)
    k, v = (sine(1, 1, 9, 4, frequency=f) for f in (0.37, 0.91))
    _, lse = decode(q, k, v, n_splits=n_splits)
    assert lse.item() == pytest.approx(LSE_OF_NINE_KEYS, abs=2e-6)


@pytest.mark.parametrize("causal", (False, True))
def test_offsets_pass_two_to_the_31(causal):
    """Rows 2³⁰ elements apart: the third begins at 2³¹, where 32 bits wrap. Lazy pages, 4 GiB."""
    torch.use_deterministic_algorithms(False)
    storage = torch.empty(2 * 2**30 + 64, dtype=torch.float16)
    far = torch.as_strided(storage, (1, 1, 3, 64), (1, 1, 2**30, 1))
    near = torch.randn(1, 1, 3, 64, generator=torch.Generator().manual_seed(0)).half()
    far.copy_(near)
    for found, expected in zip(
        decode(far, far, far, causal=causal), decode(near, near, near, causal=causal), strict=True
    ):
        assert torch.equal(found, expected)


def test_offsets_of_heads_and_batches_pass_two_to_the_31():
    torch.use_deterministic_algorithms(False)
    storage = torch.empty(2 * 2**30 + 64, dtype=torch.float16)
    near = torch.randn(3, 3, 1, 16, generator=torch.Generator().manual_seed(0)).half()
    for strides in ((2**30, 16, 16, 1), (16, 2**30, 16, 1)):
        shape = (3, 1, 1, 16) if strides[0] > 16 else (1, 3, 1, 16)
        few = near.reshape(-1, 16)[:3].reshape(shape)
        far = torch.as_strided(storage, shape, strides)
        far.copy_(few)
        for found, expected in zip(decode(far, far, far), decode(few, few, few), strict=True):
            assert torch.equal(found, expected)


def test_offsets_of_merged_heads_pass_two_to_the_31():
    far, near = far_and_near("heads")
    generator = torch.Generator().manual_seed(1)
    partial = torch.randn(2, *near.shape, generator=generator)
    lses = torch.randn(2, *near.shape[:3], generator=generator)
    for out in (far, near):
        merge(partial, lses, out.fill_(-1.0), torch.empty(near.shape[:3]))
    assert torch.equal(far, near)
    assert (near != -1.0).all()


def test_offsets_of_splits_pass_two_to_the_31():
    """Partial outputs 2³⁰ elements apart, in float16 to be only 4 GiB of lazy pages."""
    torch.use_deterministic_algorithms(False)
    storage = torch.empty(2 * 2**30 + 64, dtype=torch.float16)
    far = torch.as_strided(storage, (3, 1, 1, 1, 16), (2**30, 16, 16, 16, 1))
    near = torch.empty(3, 1, 1, 1, 16, dtype=torch.float16)
    q, k, v = drawn(Problem(B=1, T_q=1, T_kv=96, H=1, d_h=16))
    results = []
    for between in (far, near):
        lses = torch.empty(3, 1, 1, 1)
        attend_to_splits(
            *(q, k, v, between, lses), causal=False, window=None, scale=0.25,
            blocks=INTERPRETED, splits=Splits(3, 0, 32),
        )  # fmt: skip
        out, lse = torch.empty(1, 1, 1, 16), torch.empty(1, 1, 1)
        merge(between, lses, out, lse)
        results.append((out, lse))
    assert torch.equal(far, near)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("shape", [(0, 2, 5, 8), (2, 2, 0, 8), (1, 2, 5, 0)], ids=str)
def test_empty_tensors_compute(shape):
    q = torch.randn(shape)
    out, lse = decode(q, q, q)
    assert out.shape == shape
    assert torch.allclose(lse, torch.full(shape[:3], math.log(shape[2] or 1)))


@pytest.mark.parametrize("n_splits", (None, 3))
def test_no_keys_at_all_leaves_dead_rows(n_splits):
    out, lse = decode(torch.randn(1, 2, 5, 16), *torch.randn(2, 1, 2, 0, 16), n_splits=n_splits)
    assert (out == 0).all()
    assert lse.isneginf().all()


def test_what_it_cannot_do_is_refused_by_name():
    q = torch.randn(1, 2, 16, 32)
    stepped = torch.randn(1, 2, 16, 64)[..., ::2]
    with pytest.raises(Unsupported, match="last-dim stride of k is 2"):
        triton_decode.forward(q, stepped, q)
    with pytest.raises(Unsupported, match="T_q=129 is above 128"):
        triton_decode.forward(torch.randn(1, 2, 129, 32), q, q)
    with pytest.raises(Unsupported, match="backward is not supported"):
        triton_decode.forward(q.requires_grad_(), q, q)


def test_the_interpreter_takes_cpu_tensors():
    assert triton_decode.unavailable is not None
    assert triton_decode.unavailable("cpu") == []
    step = Problem(B=1, T_q=1, T_kv=5, H=2, d_h=64, causal=True)
    assert reasons_against(triton_decode, step, "cpu", {"lse", "scale"}) == []
