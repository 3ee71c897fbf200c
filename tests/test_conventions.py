"""What `attend` means, by literal and derived values, on every implementation that runs here.

Literal values were computed from `det`, in float64, by an independent program.
"""

from __future__ import annotations

import math

import pytest
import torch

from impls.interface.attention import attend
from tests.eager import det, every, every_lse, random_qkv


def det_qkv(B=1, H=1, T_q=4, T_kv=4, d_h=4, H_kv=None):
    H_kv = H_kv or H
    q, k, v = det(0.7, B, H, T_q, d_h), det(0.37, B, H_kv, T_kv, d_h), det(0.91, B, H_kv, T_kv, d_h)
    return q, k, v


def close(actual: torch.Tensor, expected) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected), atol=2e-6, rtol=0)


@every
def test_dead_row_is_zero_with_finite_gradients(implementation):
    """Case M01, pytorch#103963: where nothing is seen plain softmax gives NaN, fused kernels 0."""
    q, k, v = (t.requires_grad_() for t in det_qkv())
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    out, _ = attend(implementation, q, k, v, mask=mask)
    expected = [
        [-0.133778, 0.087238, 0.240861, 0.208417],
        [-0.001856, 0.159142, 0.197201, 0.082921],
        [0.0, 0.0, 0.0, 0.0],
        [0.044261, 0.121071, 0.104353, 0.007021],
    ]
    close(out[0, 0], expected)
    assert out[0, 0, 2].tolist() == [0, 0, 0, 0]
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    assert all(gradient.isfinite().all() for gradient in gradients)


@every_lse
def test_lse_of_a_dead_row_is_minus_infinity(implementation):
    q, k, v = det_qkv()
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    for bias in (mask, torch.zeros(4, 4).masked_fill(~mask, -math.inf)):
        out, lse = attend(implementation, q, k, v, mask=bias, with_lse=True)
        assert lse is not None
        assert lse.shape == (1, 1, 4)
        assert lse[0, 0, 2] == -math.inf
        assert lse[0, 0, [0, 1, 3]].isfinite().all()
        assert (out[0, 0, 2] == 0).all()


@every
def test_bool_mask_true_means_may_attend(implementation):
    """Case M04, pytorch PR#39321: True means "dropped" in torch's MultiheadAttention."""
    out, _ = attend(implementation, *det_qkv(), mask=torch.ones(4, 4, dtype=torch.bool).tril())
    close(out[0, 0, 0], [0.29552, 0.935616, 0.85294, 0.111361])
    close(out[0, 0, 3], [0.044261, 0.121071, 0.104353, 0.007021])


@every
def test_causal_is_aligned_bottom_right(implementation):
    """Case C01, flash-attention#402: torch's own is_causal is aligned to the top left."""
    q, k, v = det_qkv(T_q=2, T_kv=5)
    out, _ = attend(implementation, q, k, v, causal=True)
    rows = [
        [-0.133778, 0.087238, 0.240861, 0.208417],
        [0.054585, 0.142539, 0.12038, 0.005227],
    ]
    close(out[0, 0], rows)


@every_lse
def test_lse_is_natural_and_bottom_right(implementation):
    """Case E01, pytorch#181645: one backend gave base 2, which would be 3.756982 here."""
    _, lse = attend(implementation, *det_qkv(T_q=2, T_kv=5), causal=True, with_lse=True)
    assert lse is not None
    close(lse[0, 0], [1.799711, 1.806955])
    _, lse = attend(implementation, *det_qkv(T_q=1, T_kv=9), with_lse=True)
    assert lse is not None
    close(lse[0, 0], [2.604141])


@every
def test_query_heads_share_a_kv_head_in_neighbouring_groups(implementation):
    """Case G01, onnx PR#7274: kv heads that are tiled have the same shapes and other values."""
    out, _ = attend(implementation, *det_qkv(H=4, H_kv=2, T_q=3, T_kv=3))
    rows = [
        [0.364395, 0.291859, -0.00614, -0.299396],
        [0.20651, 0.421558, 0.310948, -0.039871],
        [-0.01322, -0.025185, -0.017695, 0.003465],
    ]
    close(out[0, 1], rows)


@every
def test_views_of_bthd_tensors_are_read_as_they_stand(implementation):
    """Case L01, xformers#932: a swapped layout has the same shape where T = H."""
    q, k, v = (det(f, 1, 4, 4, 4).transpose(1, 2) for f in (0.7, 0.37, 0.91))
    out, _ = attend(implementation, q, k, v)
    close(out[0, 0, 0], [0.167537, 0.290609, 0.189183, -0.058389])


@every
def test_scale_zero_is_zero_and_not_the_default(implementation):
    """Case O04, SKaiNET PR#880: a scale of 0 was taken for none."""
    q, k, v = det_qkv(T_q=3, T_kv=5)
    out, _ = attend(implementation, q, k, v, scale=0.0)
    close(out[0, 0], [[0.063398, 0.052977, 0.001632, -0.050975]] * 3)
    out, _ = attend(implementation, q, k, v)
    close(out[0, 0, 0], [0.090416, 0.049378, -0.029805, -0.085963])


@every_lse
def test_lse_with_scale_zero_is_the_logarithm_of_the_keys(implementation):
    _, lse = attend(implementation, *det_qkv(T_q=3, T_kv=5), scale=0.0, with_lse=True)
    assert lse is not None
    close(lse[0, 0], [math.log(5)] * 3)


@every
def test_large_float16_logits_do_not_overflow(implementation):
    """Case O03, pytorch#119131: in float16 these scores are infinite (741455 > 65504)."""
    q = torch.full((1, 1, 2, 128), 256.0, dtype=torch.float16)
    k = torch.tensor([256.0, 256.0, -256.0], dtype=torch.float16)[:, None].repeat(1, 128)[
        None, None
    ]
    v = torch.tensor([[1.0, 2], [3, 4], [100, 100]], dtype=torch.float16)
    if not implementation.capabilities.d_v_may_differ:
        v = torch.cat([v, torch.zeros(3, 126, dtype=torch.float16)], 1)
    out, _ = attend(implementation, q, k, v[None, None])
    assert out[0, 0, :, :2].tolist() == [[2, 3], [2, 3]]


@every
@pytest.mark.parametrize("shape", [(0, 4, 4), (1, 0, 4), (1, 4, 0), (1, 0, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_empty_tensors_compute_zeros(implementation, shape, causal):
    """Case S06, flash-attention#1159: sizes of 0 crashed, hung or divided by zero."""
    B, T_q, T_kv = shape
    q, k, v = random_qkv(B, 2, T_q, T_kv, 8)
    out, _ = attend(implementation, q, k, v, causal=causal)
    assert out.shape == (B, 2, T_q, 8)
    assert (out == 0).all()
    if implementation.forward_with_lse is not None:
        _, lse = attend(implementation, q, k, v, causal=causal, with_lse=True)
        assert lse is not None
        assert lse.shape == (B, 2, T_q)
        assert (lse == -math.inf).all()
