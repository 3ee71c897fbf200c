"""The formula of attention and of its gradients on some query rows, at a stated precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from impls.interface.inputs import Inputs
from impls.interface.problem import Problem


@dataclass(frozen=True)
class Terms:
    """What the formula is applied to.

    `mask`, bool or floating, broadcasts to (B, H, T_q, T_kv). `seen`, of a variable-length batch,
    has for each query the first key that it sees and the one past the last: see `seen_keys`.
    """

    inputs: Inputs
    problem: Problem
    mask: torch.Tensor | None
    scale: float
    softcap: float | None
    seen: tuple[torch.Tensor, torch.Tensor] | None = None

    def masking_of(
        self, b: torch.Tensor, h: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor
    ) -> torch.Tensor | None:
        """(heads or 1, rows, keys): bool, True = not seen; or a bias to add to the scores."""
        p = self.problem
        if self.mask is not None:
            full = self.mask.expand(p.B, p.H, p.T_q, p.T_kv)
            part = full[b[:, None], h[:, None], rows[None, :]][:, :, keys]
            return ~part if part.dtype == torch.bool else part
        if self.seen is not None:
            first, stop = (each[rows][:, None] for each in self.seen)
            return ((keys < first) | (keys >= stop))[None]
        if not p.causal:
            return None
        last = (rows + p.T_kv - p.T_q)[:, None]
        hidden = keys > last
        if p.window is not None:
            hidden |= keys <= last - p.window
        return hidden[None]


@dataclass(frozen=True)
class Rows:
    """Some query rows of some heads, with all their keys.

    q (heads, rows, d_h), d_out (heads, rows, d_v), k and v (heads, T_kv, d). `b` and `h` (heads,)
    say which heads, `rows` (rows,) which queries.
    """

    b: torch.Tensor
    h: torch.Tensor
    rows: torch.Tensor
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    d_out: torch.Tensor

    @classmethod
    def of(cls, terms: Terms, b: torch.Tensor, h: torch.Tensor, rows: torch.Tensor) -> Rows:
        """The rows in float64; query head h reads kv head h // (H / H_kv)."""
        h_kv = h // (terms.problem.H // terms.problem.H_kv)
        q, d_out = (t[b, h][:, rows].double() for t in (terms.inputs.q, terms.inputs.d_out))
        k, v = (t[b, h_kv].double() for t in (terms.inputs.k, terms.inputs.v))
        return cls(b, h, rows, q, k, v, d_out)

    def at(self, work: torch.dtype) -> Rows:
        """The same rows in another precision."""
        q, k, v, d_out = (t.to(work) for t in (self.q, self.k, self.v, self.d_out))
        return Rows(self.b, self.h, self.rows, q, k, v, d_out)


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """What scores, softmax and accumulators are kept in: float32, or float64 for float64."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The values that `dtype` can hold, in the tensor's own dtype."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype).to(tensor.dtype)


def forward(
    terms: Terms, part: Rows, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The output (heads, rows, d_v), lse (heads, rows), and the largest absolute score.

    Weights and out are rounded to `dtype`; the rest is in the precision of `part`. A row that sees
    no key has out 0 and lse −inf.
    """
    keys = torch.arange(terms.problem.T_kv, device=part.q.device)
    if len(keys) == 0:
        out = part.q.new_zeros(*part.q.shape[:2], terms.problem.d_v)
        return out, part.q.new_full(part.q.shape[:2], -torch.inf), 0.0
    weights, _, largest = _scores(terms, part, keys)
    top = weights.amax(-1, keepdim=True)
    # exp(−inf − 0) is 0, where −inf − (−inf) would be NaN.
    top.masked_fill_(top == -torch.inf, 0.0)
    weights.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    lse = (top + total.log()).squeeze(-1)
    total.masked_fill_(total == 0.0, 1.0)
    if weights.dtype == dtype:
        return (weights @ part.v).div_(total), lse, largest
    return rounded(rounded(weights.div_(total), dtype) @ part.v, dtype), lse, largest


def backward(
    terms: Terms,
    part: Rows,
    keys: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and gradients of the scores at some keys, rounded to `dtype`.

    Both are (heads, rows, keys). With P the weights:
    dS = P ∘ (d_out·vᵀ − rowsum(d_out ∘ out)), times the slope of the softcap
    (Dao et al. 2022, appendix B.4). Then dv = Pᵀ·d_out, dq = scale·dS·k, dk = scale·dSᵀ·q.
    """
    scores, slope, _ = _scores(terms, part, keys)
    weights = scores.sub_(lse.masked_fill(lse == -torch.inf, 0.0)[..., None]).exp_()
    d_weights = rounded(part.d_out @ part.v[:, keys].transpose(1, 2), dtype)
    d_scores = d_weights.sub_((part.d_out * out).sum(-1, keepdim=True)).mul_(weights)
    if slope is not None:
        d_scores *= slope
    return rounded(weights, dtype), rounded(d_scores, dtype)


def _scores(
    terms: Terms, part: Rows, keys: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, float]:
    """Scores after scale, softcap and mask; the softcap's slope; the largest before the mask."""
    is_every = len(keys) == part.k.shape[1]
    k = part.k if is_every else part.k[:, keys]
    scores = (part.q * terms.scale) @ k.transpose(1, 2)
    slope = None
    if terms.softcap is not None:
        scores.div_(terms.softcap).tanh_()
        slope = 1.0 - scores**2
        scores.mul_(terms.softcap)
    largest = float(torch.linalg.vector_norm(scores, torch.inf)) if scores.numel() else 0.0
    masking = terms.masking_of(part.b, part.h, part.rows, keys)
    if masking is not None and masking.dtype == torch.bool:
        scores.masked_fill_(masking, -torch.inf)
    elif masking is not None:
        scores.add_(masking.to(scores.dtype))
    return scores, slope, largest
