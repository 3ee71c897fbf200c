"""Launching the forward kernel: what it refuses, its grid, its strides and its constants."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch

from impls.interface.attention import Unsupported
from impls.triton_flash.blocks import Blocks, blocks_for, head_constants, splits_heads
from impls.triton_flash.interpreter import is_interpreting, mend_bf16
from impls.triton_flash.precision import IEEE

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MAX_D_H = 256


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    precision: str = IEEE,
    blocks: Blocks | None = None,
    splits: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, H, T_q, d_v), laid out as q, and lse (B, H, T_q), float32, of one launch.

    `precision` is of products of float32, see precision.py. `blocks` and `splits` (head sizes in
    two chunks, not padded) default to what suits the device.

    Raises:
        Unsupported: a dtype, head size, stride or number of programs the kernel is not made for.
    """
    if reasons := reasons_against_tensors(q, k, v):
        raise Unsupported(*reasons)
    B, H, T_q, d_h = q.shape
    T_kv, d_v = v.shape[2:]
    capability = capability_of(q.device)
    if splits is None:
        splits = splits_heads(capability)
    if blocks is None:
        blocks = blocks_for(capability, max(d_h, d_v), q.element_size(), precision)
    out = empty_like_q(q, d_v)
    lse = q.new_empty(B, H, T_q, dtype=torch.float32)
    if lse.numel() == 0:
        return out, lse
    q, scale = with_scale_above_zero(q, scale)
    if window is not None and window >= T_kv:
        window = None  # it hides no key, and small numbers cannot overflow

    # Triton looks up the device that is current, not the one the tensors are on.
    on_device = torch.cuda.device(q.device) if q.is_cuda else contextlib.nullcontext()
    with on_device:
        _kernel()[grid(B, H, T_q, blocks.BLOCK_Q)](
            q,
            k,
            v,
            out,
            lse,
            scale,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            *out.stride()[:3],
            H,
            H // k.shape[1],
            T_q,
            T_kv,
            window or 0,
            **head_constants(d_h, d_v, splits),
            BLOCK_Q=blocks.BLOCK_Q,
            BLOCK_KV=blocks.BLOCK_KV,
            IS_CAUSAL=causal,
            HAS_WINDOW=window is not None,
            PRECISION=precision,
            num_warps=blocks.num_warps,
            num_stages=blocks.num_stages,
        )
    return out, lse


def grid(B: int, H: int, T_q: int, BLOCK_Q: int) -> tuple[int]:
    """One program a block of queries of one head, all along x: y and z end at 65535.

    Raises:
        Unsupported: 2³¹ programs or more, CUDA's limit for x.
    """
    n_programs = B * H * -(-T_q // BLOCK_Q)
    if n_programs >= 2**31:
        raise Unsupported(f"B·H·blocks={n_programs} is more than one grid can hold")
    return (n_programs,)


def reasons_against_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[str]:
    """All reasons why the kernel cannot read these tensors."""
    reasons = []
    if q.dtype not in DTYPES:
        reasons.append(f"dtype {str(q.dtype).removeprefix('torch.')} is not supported")
    for name, d in (("d_h", q.shape[3]), ("d_v", v.shape[3])):
        if d > MAX_D_H:
            reasons.append(f"{name}={d} is above {MAX_D_H}")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.shape[3] > 1 and tensor.stride(3) != 1:
            reasons.append(f"last-dim stride of {name} is {tensor.stride(3)}: it must be 1")
    return reasons


def current_device() -> torch.device:
    """Where a call of this process computes: on its GPU, or in the interpreter on the CPU."""
    is_on_gpu = torch.cuda.is_available() and not is_interpreting()
    return torch.device("cuda" if is_on_gpu else "cpu")


def capability_of(device: torch.device) -> int | None:
    """The compute capability, 90 for 9.0; None in the interpreter."""
    if device.type != "cuda":
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def with_scale_above_zero(q: torch.Tensor, scale: float | None) -> tuple[torch.Tensor, float]:
    """The same scores by a scale above zero, as the kernels scale maxima → (q, scale).

    None is 1/sqrt(d_h). Changing a sign is exact.
    """
    d_h = q.shape[3]
    if scale is None:
        scale = 1.0 / math.sqrt(d_h) if d_h else 1.0
    if scale > 0.0:
        return q, scale
    return (-q, -scale) if scale < 0.0 else (q * 0.0, 1.0)


def empty_like_q(q: torch.Tensor, d_v: int) -> torch.Tensor:
    """An output in q's own order of T and H, so that heads can be joined without a copy."""
    B, H, T_q, _ = q.shape
    if q.stride(2) > q.stride(1):
        return q.new_empty(B, T_q, H, d_v).transpose(1, 2)
    return q.new_empty(B, H, T_q, d_v)


def _kernel() -> Any:
    if is_interpreting():
        mend_bf16()
    from impls.triton_flash.forward import triton_flash_forward

    return triton_flash_forward
