"""Attention row by row, from its definition alone: slow, obvious, and what results are held to."""

from __future__ import annotations

import math

import torch

from impls.interface.attention import attend
from tests.eager import det


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
