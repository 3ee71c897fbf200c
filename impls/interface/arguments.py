"""The arguments of an attention call, checked before an implementation sees them."""

from __future__ import annotations

import math

import torch


def check_arguments(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> None:
    """Refuse, with the numbers, what the interface gives no meaning to.

    Raises:
        ValueError: see `attend`.
    """
    given = {"q": q, "k": k, "v": v} | ({} if mask is None else {"mask": mask})
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name} is a {type(tensor).__name__}: it must be a tensor")
        if name != "mask" and tensor.ndim != 4:
            raise ValueError(f"{name} has {tensor.ndim} dimensions: it must be (B, H, T, d)")
        if tensor.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {tensor.device}")
    if not (q.dtype == k.dtype == v.dtype):
        raise ValueError(f"q, k, v have dtypes {q.dtype}, {k.dtype}, {v.dtype}: give them one")
    if not q.dtype.is_floating_point:
        raise ValueError(f"q, k, v are {q.dtype}: attention is of floating numbers")
    if not (q.shape[0] == k.shape[0] == v.shape[0]):
        raise ValueError(f"B differs: q {q.shape[0]}, k {k.shape[0]}, v {v.shape[0]}")
    if k.shape[1] != v.shape[1]:
        raise ValueError(
            f"k has {k.shape[1]} heads and v has {v.shape[1]}: H_kv must be one number"
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"H={q.shape[1]} is not a multiple of H_kv={k.shape[1]}")
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"k has T_kv={k.shape[2]} and v has T_kv={v.shape[2]}")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"q has d_h={q.shape[3]} and k has d_h={k.shape[3]}")
    _check_numbers(causal, window, scale, softcap)
    if mask is not None:
        _check_mask(mask, (*q.shape[:3], k.shape[2]), causal)


def _check_numbers(
    causal: bool, window: int | None, scale: float | None, softcap: float | None
) -> None:
    if window is not None:
        is_count = isinstance(window, int) and not isinstance(window, bool)
        if not is_count or window < 1 or not causal:
            raise ValueError(f"window={window}: give 1 or more keys, together with causal")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale={scale} is not finite")
    if softcap is not None and not 0.0 < softcap < math.inf:
        # Some libraries write "no cap" as 0; here 0 would make all scores equal.
        raise ValueError(f"softcap={softcap}: give a finite cap above 0, or None for no cap")


def _check_mask(mask: torch.Tensor, scores_shape: tuple[int, ...], causal: bool) -> None:
    if causal:
        raise ValueError("mask together with causal: put the causal part into the mask")
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        raise ValueError(
            f"a mask of {mask.dtype} has no meaning: give bool (True = may attend) "
            "or a floating bias"
        )
    try:
        fits = torch.broadcast_shapes(mask.shape, scores_shape) == torch.Size(scores_shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"mask {tuple(mask.shape)} does not broadcast to (B, H, T_q, T_kv) = {scores_shape}"
        )
