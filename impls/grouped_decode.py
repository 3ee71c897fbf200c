"""Decoding on a CPU: the few queries that share a kv head are one matrix, and it reads K, V once.

torch's SDPA reads K and V anew for each query head: on a CPU it gains nothing from fewer kv heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from impls.interface import unfused
from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.interface.masking import causal_mask, dead_rows, scale_or_default
from impls.interface.problem import Problem

# A step of decoding or some guessed tokens to verify. Scores stay in memory, (T_q, T_kv) a head.
MAX_T_Q = 64
# 2048 keys of d_h = 128 are 1 MiB in float32: a slab is widened and used within the L2 cache.
SLAB_KEYS = 2048


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attention of few queries; see `attend` for the arguments.

    Raises:
        Unsupported: more than 64 queries, a gradient asked for, tensors that are not on a CPU.
    """
    k, v = _reachable(q, k, v, window)
    scores, dead = _scores(q, k, causal, window, mask, scale, softcap)
    return _weighted(scores, dead, v)


def forward_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with the logarithm of the softmax's denominator → (out, lse (B, H, T_q))."""
    k, v = _reachable(q, k, v, window)
    scores, dead = _scores(q, k, causal, window, mask, scale, softcap)
    lse = torch.logsumexp(scores, -1)
    if dead is not None:
        lse = lse.masked_fill(dead.squeeze(-1), -torch.inf)
    return _weighted(scores, dead, v), lse.float()


def _reachable(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and values that a query may reach: a window leaves the last T_q + window − 1."""
    reasons = [*_too_many_queries(q.shape[2])]
    if q.device.type != "cpu":
        reasons.append(f"does not run on {q.device.type} (only cpu)")
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        reasons.append("backward is not supported")
    if reasons:
        raise Unsupported(*reasons)
    if window is None:
        return k, v
    first = max(0, k.shape[2] - q.shape[2] - window + 1)
    return k[:, :, first:], v[:, :, first:]


def _scores(
    q: torch.Tensor,
    k: torch.Tensor,
    causal: bool,
    window: int | None,
    mask: torch.Tensor | None,
    scale: float | None,
    softcap: float | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scores (B, H, T_q, T_kv), float32 for 16-bit inputs, and the rows without a key, if any.

    A row without a key has scores 0, so that its softmax is numbers; `_weighted` drops it.
    """
    (B, H, T_q, d_h), (_, H_kv, T_kv, _) = q.shape, k.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    grouped = (q.to(wide) * scale_or_default(scale, d_h)).reshape(B, H_kv, H // H_kv * T_q, d_h)
    # Keys on the left: a product with few columns streams them twice as fast as one with few rows.
    scores = (k @ grouped.mT).mT if k.dtype == wide else _slab_by_slab(grouped, k)
    scores = scores.reshape(B, H, T_q, T_kv)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    # One query is the last one: what it may reach it may see.
    if causal and not (T_q == 1 and T_kv):
        mask = causal_mask(T_q, T_kv, window, q.device)
    if mask is None:
        return scores, None
    scores = scores.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal and T_q <= T_kv:
        return scores, None
    dead = dead_rows(mask)
    return scores.masked_fill_(dead, 0.0), dead


def _slab_by_slab(grouped: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The scores (B, H_kv, rows, T_kv), the 16-bit keys widened one slab at a time.

    A product of 16-bit matrices would round the scores to 16 bits; widening all of k at once would
    write and read it at twice its size.
    """
    B, H_kv, T_kv, d_h = k.shape
    scores = grouped.new_empty(B, H_kv, grouped.shape[2], T_kv)
    scratch = grouped.new_empty(SLAB_KEYS * d_h)
    for b, heads, keys in _slabs(B, H_kv, T_kv):
        slab = k[b, heads, keys]
        widened = scratch[: slab.numel()].view(slab.shape).copy_(slab)
        torch.bmm(grouped[b, heads], widened.mT, out=scores[b, heads, :, keys])
    return scores


def _slabs(B: int, H_kv: int, T_kv: int) -> Iterator[tuple[int, slice, slice]]:
    """(b, heads, keys) of each slab: part of one head's keys, or all of several heads'."""
    step = max(1, SLAB_KEYS // max(1, T_kv))
    for b in range(B):
        for head in range(0, H_kv, step):
            for key in range(0, T_kv, SLAB_KEYS):
                yield (
                    b,
                    slice(head, min(head + step, H_kv)),
                    slice(key, min(key + SLAB_KEYS, T_kv)),
                )


def _weighted(scores: torch.Tensor, dead: torch.Tensor | None, v: torch.Tensor) -> torch.Tensor:
    """The values weighted by the softmax, which is rounded to the dtype of v first."""
    (B, H, T_q, T_kv), (_, H_kv, _, d_v) = scores.shape, v.shape
    p = torch.softmax(scores, -1).to(v.dtype).reshape(B, H_kv, H // H_kv * T_q, T_kv)
    out = (p @ v).reshape(B, H, T_q, d_v)
    return out if dead is None else out.masked_fill(dead, 0.0)


def _too_many_queries(T_q: int) -> list[str]:
    return [f"T_q={T_q} is above {MAX_T_Q}: for decoding only"] if T_q > MAX_T_Q else []


def _within_reach(problem: Problem) -> Problem:
    """The problem without the keys that its window hides from every query."""
    if problem.window is None:
        return problem
    return replace(problem, T_kv=min(problem.T_kv, problem.T_q + problem.window - 1))


grouped_decode = Implementation(
    name="grouped_decode",
    forward=forward,
    forward_with_lse=forward_with_lse,
    summary="decoding on a CPU: the query heads of a kv head as one matrix, K and V read once",
    capabilities=Capabilities(
        devices=("cpu",),
        passes=("forward",),
        needs=("lse", "mask", "scale", "softcap"),
        further=lambda problem, device, needs: _too_many_queries(problem.T_q),
    ),
    algorithmic_bytes=lambda problem, pass_: unfused.algorithmic_bytes(
        _within_reach(problem), pass_
    ),
    scratch_bytes=lambda problem, pass_: unfused.scratch_bytes(_within_reach(problem), pass_),
)
