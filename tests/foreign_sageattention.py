"""A stand-in for SageAttention: int8 scores of smoothed keys, float8 weights and values."""

from __future__ import annotations

import pytest
import torch

from tests.foreign_libraries import Habits, check_tensors, install, visible

Q_BLOCK, K_BLOCK = 32, 64


def as_int8(tensor: torch.Tensor, block: int) -> torch.Tensor:
    """Rounded to ±127 steps of each block of rows, in float64."""
    rounded = []
    for rows in tensor.double().split(block, 2):
        step = rows.abs().amax((2, 3), keepdim=True).clamp(min=1e-12) / 127
        rounded.append((rows / step).round() * step)
    return torch.cat(rounded, 2)


def as_float8(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Rounded to e4m3, whose largest number is the largest along `dim`."""
    step = tensor.double().abs().amax(dim, keepdim=True).clamp(min=1e-12) / 448
    return (tensor / step).to(torch.float32).to(torch.float8_e4m3fn).double() * step


def sageattention(monkeypatch: pytest.MonkeyPatch) -> Habits:
    """`sageattention` 2.2.0 on 9.0: its causal mask is aligned to the top left, always."""
    habits = Habits()

    def sageattn(
        q, k, v, tensor_layout="HND", is_causal=False, sm_scale=None, return_lse=False, **kwargs
    ):
        habits.told.append({"is_causal": is_causal, "ignored": sorted(kwargs)})
        assert q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
        if tensor_layout == "NHD" or habits.heads_first:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        check_tensors(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), 128)
        group = q.shape[1] // k.shape[1]
        scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
        mean = k.mean(2, keepdim=True)
        correction = torch.matmul(q, mean.mT).squeeze(-1).float() if return_lse else None
        keys = as_int8(k - mean, K_BLOCK).repeat_interleave(group, 1)
        values = as_float8(v, 2).repeat_interleave(group, 1)
        scores = as_int8(q, Q_BLOCK) @ keys.mT * scale
        right = 0 if is_causal else None
        seen = visible(q.shape[2], k.shape[2], None, right, bottom_right=False)
        scores = scores.masked_fill(~seen, -torch.inf)
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        rounded = (weights * 448).float().to(torch.float8_e4m3fn).double() / 448
        out = (rounded @ values / weights.sum(-1, keepdim=True)).to(q.dtype)
        if tensor_layout == "NHD" or habits.heads_first:
            out = out.transpose(1, 2)
        if correction is None:
            return out
        lse = torch.logsumexp(scores, -1).float() + correction * scale
        return out, lse * habits.lse_factor

    install(monkeypatch, "sageattention", "2.2.0", {"sageattention": {"sageattn": sageattn}})
    return habits
