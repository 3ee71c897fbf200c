"""Every implementation that runs here, through `attend`, against derived and literal values.

`det(factor, shape)` is sin(factor·n + 0.3) over the flat index n. Literal values were computed
from that, in float64, by an independent program.
"""

from __future__ import annotations

import math

import pytest
import torch

from impls.chunked import chunked
from impls.interface.attention import Implementation, attend
from impls.naive import naive
from impls.sdpa import sdpa_flash, sdpa_math

EAGER = [naive, chunked, sdpa_math, sdpa_flash]
WITH_LSE = [naive, chunked, sdpa_flash]
SOFTCAP = [naive, chunked]


def name(implementation: Implementation) -> str:
    return implementation.name


every = pytest.mark.parametrize("implementation", EAGER, ids=name)
every_lse = pytest.mark.parametrize("implementation", WITH_LSE, ids=name)


def det(factor: float, *shape: int) -> torch.Tensor:
    index = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(factor * index + 0.3).float().reshape(shape)


def det_qkv(B=1, H=1, T_q=4, T_kv=4, d_h=4, H_kv=None):
    H_kv = H_kv or H
    q, k, v = det(0.7, B, H, T_q, d_h), det(0.37, B, H_kv, T_kv, d_h), det(0.91, B, H_kv, T_kv, d_h)
    return q, k, v


def close(actual: torch.Tensor, expected) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected), atol=2e-6, rtol=0)


def random_qkv(B, H, T_q, T_kv, d_h, *, H_kv=None, d_v=None, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    H_kv, d_v = H_kv or H, d_v or d_h
    shapes = ((B, H, T_q, d_h), (B, H_kv, T_kv, d_h), (B, H_kv, T_kv, d_v))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def brute_force(q, k, v, *, causal=False, window=None, mask=None, scale=None, softcap=None):
    """Row by row in float64, from the definitions alone → (out, lse)."""
    q, k, v = q.double(), k.double(), v.double()
    (B, H, T_q, d_h), (_, H_kv, T_kv, d_v) = q.shape, v.shape
    outs, lses = [], []
    if mask is not None:
        mask = mask.expand(B, H, T_q, T_kv)
    for b in range(B):
        for h in range(H):
            for i in range(T_q):
                keys = list(range(T_kv))
                if causal:
                    keys = [j for j in keys if j <= i + T_kv - T_q]
                if window is not None:
                    keys = [j for j in keys if j > i + T_kv - T_q - window]
                bias = torch.zeros(T_kv, dtype=torch.float64)
                if mask is not None and mask.dtype == torch.bool:
                    keys = [j for j in keys if mask[b, h, i, j]]
                elif mask is not None:
                    bias = mask[b, h, i].double()
                    keys = [j for j in keys if bias[j] > -math.inf]
                if not keys:
                    outs.append(torch.zeros(d_v, dtype=torch.float64))
                    lses.append(torch.tensor(-math.inf, dtype=torch.float64))
                    continue
                s = k[b, h // (H // H_kv), keys] @ q[b, h, i]
                s = s * (1 / math.sqrt(d_h) if scale is None else scale)
                if softcap is not None:
                    s = softcap * torch.tanh(s / softcap)
                s = s + bias[keys]
                outs.append(torch.softmax(s, 0) @ v[b, h // (H // H_kv), keys])
                lses.append(torch.logsumexp(s, 0))
    return torch.stack(outs).reshape(B, H, T_q, d_v), torch.stack(lses).reshape(B, H, T_q)


def agrees(implementation, q, k, v, *, with_grad=True, **arguments) -> None:
    """Output and gradients within float32 rounding of the brute force."""
    q, k, v = (t.clone().requires_grad_(with_grad) for t in (q, k, v))
    expected, _ = brute_force(q, k, v, **arguments)
    out, _ = attend(implementation, q, k, v, **arguments)
    assert out.shape == expected.shape
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    if not with_grad:
        return
    dout = det(0.13, *out.shape)
    wanted = torch.autograd.grad((expected * dout).sum(), (q, k, v))
    gradients = torch.autograd.grad((out * dout).sum(), (q, k, v))
    for gradient, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, want, atol=3e-5, rtol=1e-4)


@every
def test_dead_row_is_zero_with_finite_gradients(implementation):
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
    out, _ = attend(implementation, *det_qkv(), mask=torch.ones(4, 4, dtype=torch.bool).tril())
    close(out[0, 0, 0], [0.29552, 0.935616, 0.85294, 0.111361])
    close(out[0, 0, 3], [0.044261, 0.121071, 0.104353, 0.007021])


@every
def test_causal_is_aligned_bottom_right(implementation):
    q, k, v = det_qkv(T_q=2, T_kv=5)
    out, _ = attend(implementation, q, k, v, causal=True)
    rows = [
        [-0.133778, 0.087238, 0.240861, 0.208417],
        [0.054585, 0.142539, 0.12038, 0.005227],
    ]
    close(out[0, 0], rows)


@every_lse
def test_lse_is_natural_and_bottom_right(implementation):
    _, lse = attend(implementation, *det_qkv(T_q=2, T_kv=5), causal=True, with_lse=True)
    assert lse is not None
    close(lse[0, 0], [1.799711, 1.806955])
    _, lse = attend(implementation, *det_qkv(T_q=1, T_kv=9), with_lse=True)
    assert lse is not None
    close(lse[0, 0], [2.604141])


@every_lse
def test_lse_has_one_number_a_row_and_no_padding(implementation):
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = random_qkv(2, 3, 5, 7, 8, dtype=dtype)
        out, lse = attend(implementation, q, k, v, with_lse=True)
        assert lse is not None
        assert (lse.shape, lse.dtype) == ((2, 3, 5), torch.float32)
        assert out.dtype == dtype
        torch.testing.assert_close(lse.double(), brute_force(q, k, v)[1], atol=2e-2, rtol=0)


@every
def test_query_heads_share_a_kv_head_in_neighbouring_groups(implementation):
    out, _ = attend(implementation, *det_qkv(H=4, H_kv=2, T_q=3, T_kv=3))
    rows = [
        [0.364395, 0.291859, -0.00614, -0.299396],
        [0.20651, 0.421558, 0.310948, -0.039871],
        [-0.01322, -0.025185, -0.017695, 0.003465],
    ]
    close(out[0, 1], rows)


@every
def test_views_of_bthd_tensors_are_read_as_they_stand(implementation):
    q, k, v = (det(f, 1, 4, 4, 4).transpose(1, 2) for f in (0.7, 0.37, 0.91))
    out, _ = attend(implementation, q, k, v)
    close(out[0, 0, 0], [0.167537, 0.290609, 0.189183, -0.058389])


@every
def test_scale_zero_is_zero_and_not_the_default(implementation):
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
    """Scores kept in float16 are infinite here (741455 > 65504) and the softmax NaN."""
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
def test_float16_bool_mask_needs_no_literal_fill(implementation):
    q, k, v = random_qkv(1, 2, 9, 9, 8, dtype=torch.float16)
    mask = torch.rand(9, 9, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[3] = False
    out, _ = attend(implementation, q, k, v, mask=mask)
    expected, _ = brute_force(q, k, v, mask=mask)
    torch.testing.assert_close(out.double(), expected, atol=3e-3, rtol=0)


@every
@pytest.mark.parametrize("shape", [(0, 4, 4), (1, 0, 4), (1, 4, 0), (1, 0, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_empty_tensors_compute_zeros(implementation, shape, causal):
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


@pytest.mark.parametrize("implementation", SOFTCAP, ids=name)
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
@pytest.mark.parametrize("d_h", [1, 2, 31, 40, 72, 96, 257])
def test_every_column_of_an_odd_head_counts(implementation, d_h):
    q, k, v = random_qkv(1, 2, 17, 17, d_h)
    k[..., d_h // 2 :] *= 3
    agrees(implementation, q, k, v)


@every
@pytest.mark.parametrize("T", [1, 2, 33, 129, 513])
def test_no_key_beyond_the_last_leaks_in(implementation, T):
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
    """An index times a stride computed in 32 bits wraps at 2³¹ elements."""
    storage = torch.empty(2 * 2**30 + 64, dtype=torch.float16)
    rows = torch.as_strided(storage, (1, 1, 3, 64), (0, 0, 2**30, 1))
    rows.copy_(det(0.7, 1, 1, 3, 64).half())
    out, _ = attend(implementation, rows, rows, rows)
    expected, _ = brute_force(rows, rows, rows)
    torch.testing.assert_close(out.double(), expected, atol=2e-3, rtol=0)
