"""Every implementation that runs here, through `attend`, against brute force on awkward sizes."""

from __future__ import annotations

import math

import pytest
import torch

from impls.chunked import chunked
from impls.interface.attention import attend
from impls.naive import naive
from impls.sdpa import sdpa_flash, sdpa_math
from tests.brute_force import agrees, brute_force
from tests.eager import det, every, every_lse, name, random_qkv


@every_lse
def test_lse_has_one_number_a_row_and_no_padding(implementation):
    """Case E05, flash-attention#876: another version padded it, or turned it."""
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = random_qkv(2, 3, 5, 7, 8, dtype=dtype)
        out, lse = attend(implementation, q, k, v, with_lse=True)
        assert lse is not None
        assert (lse.shape, lse.dtype) == ((2, 3, 5), torch.float32)
        assert out.dtype == dtype
        torch.testing.assert_close(lse.double(), brute_force(q, k, v)[1], atol=2e-2, rtol=0)


@every
def test_float16_bool_mask_needs_no_literal_fill(implementation):
    """Case M09, darts PR#3087: −1e9 is no float16."""
    q, k, v = random_qkv(1, 2, 9, 9, 8, dtype=torch.float16)
    mask = torch.rand(9, 9, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[3] = False
    out, _ = attend(implementation, q, k, v, mask=mask)
    expected, _ = brute_force(q, k, v, mask=mask)
    torch.testing.assert_close(out.double(), expected, atol=3e-3, rtol=0)


@every
@pytest.mark.parametrize(
    ("T_q", "T_kv"), [(1, 1), (1, 17), (7, 7), (5, 13), (13, 5), (63, 65), (33, 1)]
)
def test_causal_agrees_with_brute_force(implementation, T_q, T_kv):
    q, k, v = random_qkv(1, 4, T_q, T_kv, 7, H_kv=2)
    agrees(implementation, q, k, v, causal=True)


@pytest.mark.parametrize("implementation", [naive, chunked], ids=name)
@pytest.mark.parametrize(("T_q", "T_kv"), [(9, 9), (4, 11), (11, 4)])
@pytest.mark.parametrize("window", [1, 3, 50])
def test_window_agrees_with_brute_force(implementation, T_q, T_kv, window):
    agrees(implementation, *random_qkv(1, 2, T_q, T_kv, 5), causal=True, window=window)


@pytest.mark.parametrize("implementation", [naive, chunked], ids=name)
def test_softcap_caps_the_scaled_scores(implementation):
    q, k, v = random_qkv(1, 2, 6, 9, 5)
    agrees(implementation, q * 5, k, v, softcap=2.0)
    agrees(implementation, q * 5, k, v, softcap=2.0, causal=True, scale=0.7)


MASKS = [(5, 9), (2, 1, 5, 9), (1, 4, 1, 9), (5, 1), (9,), (4, 5, 9)]


@every
@pytest.mark.parametrize("shape", MASKS, ids=str)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_broadcast_from_the_right(implementation, shape, kind):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.4
    if kind == "float":
        mask = det(1.3, *shape).masked_fill(~mask, -math.inf)
    agrees(implementation, *random_qkv(2, 4, 5, 9, 6, H_kv=2), mask=mask)


@every
def test_float_mask_of_another_float_dtype_is_accepted(implementation):
    q, k, v = random_qkv(1, 1, 4, 4, 8)
    out, _ = attend(implementation, q, k, v, mask=torch.eye(4, dtype=torch.float64))
    expected, _ = brute_force(q, k, v, mask=torch.eye(4))
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=0)


@every
def test_a_row_of_lowest_numbers_is_a_mean_and_no_dead_one(implementation):
    """Automodel PR#2658: libraries mask by finfo.min, of which two make an infinity.

    sdpa_flash has no gradients here: of such a row its LSE has lost the logarithm of the keys, so
    that torch's backward (2.13, CPU) weighs each of 9 keys by 1 where 1/9 is right.
    """
    q, k, v = random_qkv(1, 2, 5, 9, 8)
    lowest = torch.finfo(torch.float32).min
    mask = det(1.3, 5, 9).masked_fill(det(1.7, 5, 9) > 0, lowest)
    mask[2] = lowest
    has_gradients = implementation is not sdpa_flash
    agrees(implementation, q, k, v, mask=mask, with_grad=has_gradients)


@every
@pytest.mark.parametrize("d_h", [1, 2, 31, 40, 72, 96, 257])
def test_every_column_of_an_odd_head_counts(implementation, d_h):
    """Case S01, triton#621: a kernel read the first 64 columns alone."""
    q, k, v = random_qkv(1, 2, 17, 17, d_h)
    k[..., d_h // 2 :] *= 3
    agrees(implementation, q, k, v)


@every
@pytest.mark.parametrize("T", [1, 2, 33, 129, 513])
def test_no_key_beyond_the_last_leaks_in(implementation, T):
    """Case S04, kernl#73: beyond the last key a block is filled with zeros."""
    q, k, v = random_qkv(1, 1, 3, T, 8)
    k = k.abs() + 1
    out, _ = attend(implementation, q, k, v)
    expected, _ = brute_force(q, k, v)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 100])
def test_chunked_agrees_with_naive_over_many_chunks(causal, window):
    if window is not None and not causal:
        return
    for T_q, T_kv in ((700, 1100), (1100, 700)):
        q, k, v = random_qkv(1, 2, T_q, T_kv, 16)
        arguments = {"causal": causal, "window": window, "with_lse": True}
        out, lse = attend(chunked, q, k, v, **arguments)
        expected, expected_lse = attend(naive, q, k, v, **arguments)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(lse, expected_lse, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("implementation", [naive, chunked, sdpa_math], ids=name)
def test_value_heads_may_be_wider(implementation):
    agrees(implementation, *random_qkv(1, 2, 6, 9, 5, d_v=11), causal=True)


@pytest.mark.parametrize("implementation", [naive, chunked, sdpa_math, sdpa_flash], ids=name)
def test_rows_far_apart_in_memory_are_read_right(implementation):
    """Case O01, SageAttention#386: index times stride in 32 bits wraps at 2³¹ elements."""
    storage = torch.empty(2 * 2**30 + 64, dtype=torch.float16)
    rows = torch.as_strided(storage, (1, 1, 3, 64), (0, 0, 2**30, 1))
    rows.copy_(det(0.7, 1, 1, 3, 64).half())
    out, _ = attend(implementation, rows, rows, rows)
    expected, _ = brute_force(rows, rows, rows)
    torch.testing.assert_close(out.double(), expected, atol=2e-3, rtol=0)
