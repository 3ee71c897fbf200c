"""The formula, softmax(scale · q kᵀ + mask) v, with the whole score matrix in memory."""

from __future__ import annotations

import torch

from impls.interface.attention import Capabilities, Implementation
from impls.interface.masking import causal_mask, dead_rows, scale_or_default
from impls.interface.sequences import (
    bytes_of_each,
    bytes_when_padded,
    each_alone,
    padded,
    scratch_when_padded,
)
from impls.interface.unfused import algorithmic_bytes, scratch_bytes


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
    """Attention as it is written down; see `attend` for the arguments."""
    scores, dead = _scores(q, k, causal, window, mask, scale, softcap)
    return _weighted(torch.softmax(scores, -1), dead, v)


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
    scores, dead = _scores(q, k, causal, window, mask, scale, softcap)
    lse = torch.logsumexp(scores, -1)
    if dead is not None:
        lse = lse.masked_fill(dead.squeeze(-1), -torch.inf)
    return _weighted(torch.softmax(scores, -1), dead, v), lse.float()


def _scores(
    q: torch.Tensor,
    k: torch.Tensor,
    causal: bool,
    window: int | None,
    mask: torch.Tensor | None,
    scale: float | None,
    softcap: float | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scores (B, H, T_q, T_kv), and the rows without a key when there may be any.

    Scores are float32 for 16-bit inputs: float16 overflows at 65504. A dead row's scores are set
    to 0, so that its softmax and its gradient are numbers; `_weighted` then drops the row.
    """
    (B, H, T_q, d_h), (_, H_kv, T_kv, _) = q.shape, k.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    # The queries of one kv head stand in one matrix, so that k is never expanded.
    grouped = (q.to(wide) * scale_or_default(scale, d_h)).reshape(B, H_kv, H // H_kv * T_q, d_h)
    scores = (grouped @ k.to(wide).mT).reshape(B, H, T_q, T_kv)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        mask = causal_mask(T_q, T_kv, window, q.device)
    if mask is None:
        return scores, None
    # In place: a copy of the score matrix would be counted against the formula.
    scores = scores.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal and T_q <= T_kv:
        return scores, None
    dead = dead_rows(mask)
    return scores.masked_fill_(dead, 0.0), dead


def _weighted(p: torch.Tensor, dead: torch.Tensor | None, v: torch.Tensor) -> torch.Tensor:
    """The values weighted by the probabilities p, which are rounded to the dtype of v first."""
    (B, H, T_q, T_kv), (_, H_kv, _, d_v) = p.shape, v.shape
    grouped = p.to(v.dtype).reshape(B, H_kv, H // H_kv * T_q, T_kv)
    out = (grouped @ v).reshape(B, H, T_q, d_v)
    return out if dead is None else out.masked_fill(dead, 0.0)


naive = Implementation(
    name="naive",
    forward=forward,
    forward_with_lse=forward_with_lse,
    summary="the formula in PyTorch: the whole score matrix in memory",
    capabilities=Capabilities(),
    prepare_lengths=each_alone(forward),
    algorithmic_bytes=bytes_of_each(algorithmic_bytes),
    scratch_bytes=bytes_of_each(scratch_bytes),
)
naive_padded = Implementation(
    name="naive_padded",
    forward=forward,
    summary="the formula on sequences padded to the longest, the padding masked",
    capabilities=Capabilities(dense=False),
    prepare_lengths=padded(forward),
    algorithmic_bytes=bytes_when_padded(algorithmic_bytes),
    scratch_bytes=scratch_when_padded(scratch_bytes),
)
