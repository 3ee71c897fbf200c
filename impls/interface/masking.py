"""Which keys a query may see, and which rows see none, as tensors: the meaning `attend` states."""

from __future__ import annotations

import torch


def scale_or_default(scale: float | None, d_h: int) -> float:
    """The factor of the scores: `scale` when given (0.0 is zero), else 1/sqrt(d_h)."""
    if scale is not None:
        return scale
    return d_h**-0.5 if d_h else 1.0


def causal_mask(
    T_q: int,
    T_kv: int,
    window: int | None,
    device: torch.device | str,
    offset: int | None = None,
) -> torch.Tensor:
    """The keys that each query of a causal problem may see → bool (T_q, T_kv).

    Query i sees key j ≤ i + offset, of those with a window only j > i + offset − window. The
    offset is T_kv − T_q (bottom-right) unless this is one block of a larger matrix.
    """
    last_key = torch.arange(T_q, device=device)[:, None] + (
        T_kv - T_q if offset is None else offset
    )
    key = torch.arange(T_kv, device=device)[None, :]
    visible = key <= last_key
    return visible if window is None else visible & (key > last_key - window)


def dead_rows(mask: torch.Tensor) -> torch.Tensor:
    """The rows in which a mask forbids every key → bool, as the mask but its last size 1."""
    if mask.dtype == torch.bool:
        return ~mask.any(-1, keepdim=True)
    return (mask == -torch.inf).all(-1, keepdim=True)


def additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A bool mask as a bias, 0 where a query may attend and −inf where not.

    A float mask stays as it is, in `dtype`.
    """
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -torch.inf)


def nothing_attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The output of empty tensors, zeros (B, H, T_q, d_v), as a function of q, k and v.

    Products over a size of 0 are zeros that autograd knows how to differentiate.
    """
    (B, H, T_q, d_h), H_kv, d_v = q.shape, v.shape[1], v.shape[3]
    grouped = q.reshape(B, H_kv, H // H_kv * T_q, d_h)
    return (grouped @ k.mT @ v).reshape(B, H, T_q, d_v)
