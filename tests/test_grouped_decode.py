"""Grouped decoding against brute force, slab by slab, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls import grouped_decode as module
from impls.grouped_decode import grouped_decode
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.conformance import conformance
from impls.interface.cost import compulsory_bytes
from impls.interface.problem import Problem
from tests.brute_force import brute_force
from tests.eager import random_qkv


def is_right(q, k, v, **arguments):
    """Output and lse against brute force on the same rounded numbers."""
    expected, expected_lse = brute_force(q, k, v, **arguments)
    out, lse = attend(grouped_decode, q, k, v, with_lse=True, **arguments)
    assert lse is not None
    limit = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[q.dtype]
    torch.testing.assert_close(out.double(), expected, atol=limit, rtol=limit)
    torch.testing.assert_close(lse.double(), expected_lse, atol=1e-5, rtol=1e-5)
    assert torch.equal(attend(grouped_decode, q, k, v, **arguments)[0], out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("H_kv", [1, 2, 4, 8])
@pytest.mark.parametrize(("T_q", "T_kv", "window"), [(1, 65, None), (5, 33, None), (3, 40, 7)])
def test_a_step_over_grouped_heads_is_right(T_q, T_kv, window, H_kv, dtype):
    q, k, v = random_qkv(2, 8, T_q, T_kv, 16, H_kv=H_kv, dtype=dtype)
    is_right(q, k, v, causal=True, window=window)


@settings(deadline=None, max_examples=50)
@given(
    B=st.integers(1, 3),
    H_kv=st.integers(1, 4),
    group=st.integers(1, 3),
    T_q=st.integers(1, 6),
    T_kv=st.integers(1, 30),
    d_v=st.integers(1, 6),
    causal=st.booleans(),
    window=st.none() | st.integers(1, 33),
    slab=st.integers(1, 40),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_any_cut_into_slabs_is_right(B, H_kv, group, T_q, T_kv, d_v, causal, window, slab, dtype):
    """Slabs of part of a head, of one head and of several, and windows that cut them."""
    q, k, v = random_qkv(B, H_kv * group, T_q, T_kv, 5, H_kv=H_kv, d_v=d_v, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLAB_KEYS", slab)
        is_right(q, k, v, causal=causal, window=window if causal else None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_are_not_rounded_to_16_bits(dtype):
    """Scores of 256 and 257 are one number in bfloat16, which would share the values equally."""
    q = torch.tensor([16.0, 1.0]).to(dtype).view(1, 1, 1, 2)
    k = torch.tensor([[16.0, 0.0], [16.0, 1.0]]).to(dtype).view(1, 1, 2, 2)
    v = torch.tensor([[0.0], [1.0]]).to(dtype).view(1, 1, 2, 1)
    out, lse = attend(grouped_decode, q, k, v, scale=1.0, with_lse=True)
    assert lse is not None
    assert float(out) == pytest.approx(math.e / (1 + math.e), abs=2e-3)
    assert float(lse) == pytest.approx(256 + math.log(1 + math.e), abs=1e-4)


def test_a_window_reads_nothing_before_it():
    q, k, v = random_qkv(1, 4, 2, 40, 8, H_kv=2)
    expected, _ = brute_force(q, k, v, causal=True, window=5)
    k[:, :, : 40 - 2 - 5 + 1], v[:, :, : 40 - 2 - 5 + 1] = torch.nan, torch.nan
    out, _ = attend(grouped_decode, q, k, v, causal=True, window=5)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


def test_a_view_of_a_longer_cache_is_read_to_its_end_only():
    q, k, v = random_qkv(2, 4, 1, 50, 8, H_kv=2, dtype=torch.bfloat16)
    k[:, :, 33:], v[:, :, 33:] = torch.nan, torch.nan
    is_right(q, k[:, :, :33], v[:, :, :33], causal=True)


def test_more_queries_than_decoding_has_are_refused():
    q, k, v = random_qkv(1, 2, 65, 65, 4)
    with pytest.raises(Unsupported, match="T_q=65 is above 64"):
        attend(grouped_decode, q, k, v, causal=True)
    problem = Problem(B=1, T_q=65, T_kv=65, H=2, d_h=4)
    assert "T_q=65 is above 64: for decoding only" in reasons_against(
        grouped_decode, problem, "cpu"
    )
    assert not reasons_against(grouped_decode, problem.with_(T_q=64), "cpu")


def test_a_gradient_is_refused_and_not_cut():
    q, k, v = random_qkv(1, 2, 1, 5, 4)
    for tensor in (q, k, v):
        tensor.requires_grad_()
        with pytest.raises(Unsupported, match="backward"):
            attend(grouped_decode, q, k, v)
        with torch.no_grad():
            attend(grouped_decode, q, k, v)
        tensor.requires_grad_(False)
    problem = Problem(B=1, T_q=1, T_kv=5, H=2, d_h=4)
    assert "backward is not supported" in reasons_against(
        grouped_decode, problem, "cpu", ["backward"]
    )


def test_the_bytes_it_declares_are_those_within_the_window():
    problem = Problem(B=2, T_q=3, T_kv=100, H=4, H_kv=2, d_h=8, causal=True, window=10)
    assert grouped_decode.algorithmic_bytes is not None
    assert grouped_decode.scratch_bytes is not None
    scores = 2 * 4 * 3 * 12 * 4
    moved = grouped_decode.algorithmic_bytes(problem, "forward")
    assert moved == compulsory_bytes(problem) + 4 * scores
    assert grouped_decode.scratch_bytes(problem, "forward") == 2 * scores


@pytest.mark.slow
def test_it_conforms():
    found = conformance(grouped_decode, "cpu")
    assert found.ok and len(found.of("passed")) >= 60
