"""Launching the three backward kernels: what they refuse, their scratch and their grids."""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict
from typing import Any

import torch

from impls.interface.attention import Unsupported
from impls.triton_flash.blocks import head_constants, splits_heads
from impls.triton_flash.blocks_backward import ROWS, BackwardBlocks, backward_blocks_for
from impls.triton_flash.interpreter import is_interpreting, mend_bf16
from impls.triton_flash.launch import capability_of, grid, reasons_against_tensors
from impls.triton_flash.precision import IEEE


def gradients(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
    d_lse: torch.Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    precision: str = IEEE,
    blocks: BackwardBlocks | None = None,
    splits: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv, in the order of q, k and v in memory, of three launches.

    `out`, `lse` and the other arguments are those of the forward launch; `d_out` (B, H, T_q, d_v)
    and `d_lse` (B, H, T_q), float32, are the gradients that arrive. d_out is copied where its last
    dimension does not have stride 1, as that of a sum, all of whose strides are 0.

    Raises:
        Unsupported: a dtype, head size, stride or number of programs no kernel is made for.
    """
    if reasons := reasons_against_tensors(q, k, v):
        raise Unsupported(*reasons)
    B, H, T_q, d_h = q.shape
    H_kv, T_kv, d_v = v.shape[1:]
    dq, dk, dv = (torch.empty_like(t) for t in (q, k, v))
    if 0 in (B, H, T_q, T_kv):
        return dq.zero_(), dk.zero_(), dv.zero_()
    capability = capability_of(q.device)
    if splits is None:
        splits = splits_heads(capability)
    if blocks is None:
        blocks = backward_blocks_for(capability, max(d_h, d_v), q.element_size(), precision)
    if scale is None:
        scale = 1.0 / math.sqrt(d_h) if d_h else 1.0
    if window is not None and window >= T_kv:
        window = None  # it hides no key, and small numbers cannot overflow
    if d_v > 1 and d_out.stride(3) != 1:
        d_out = d_out.contiguous()
    if d_lse is not None:
        d_lse = d_lse.contiguous()
    shift, delta = torch.empty_like(lse), torch.empty_like(lse)
    heads = head_constants(d_h, d_v, splits)
    constants = {
        **heads,
        "IS_CAUSAL": causal,
        "HAS_WINDOW": window is not None,
        "PRECISION": precision,
    }
    read = [q, k, v, d_out]
    sizes = (H // H_kv, T_q, T_kv, window or 0)
    rows_kernel, keys_kernel, queries_kernel = _kernels()

    # Triton looks up the device that is current, not the one the tensors are on.
    on_device = torch.cuda.device(q.device) if q.is_cuda else contextlib.nullcontext()
    with on_device:
        rows_kernel[grid(B, H, T_q, ROWS.BLOCK_Q)](
            *(out, d_out, lse, lse if d_lse is None else d_lse, shift, delta),
            *_strides(out, d_out),
            *(H, T_q),
            **{name: heads[name] for name in ("D_V", "D_V_A", "D_V_B")},
            BLOCK_Q=ROWS.BLOCK_Q,
            HAS_D_LSE=d_lse is not None,
            num_warps=ROWS.num_warps,
            num_stages=ROWS.num_stages,
        )
        keys_kernel[grid(B, H_kv, T_kv, blocks.keys.BLOCK_KV)](
            *(*read, shift, delta, dk, dv, scale),
            *_strides(*read, dk, dv),
            *(H_kv, *sizes),
            **constants,
            **asdict(blocks.keys),
        )
        queries_kernel[grid(B, H, T_q, blocks.queries.BLOCK_Q)](
            *(*read, shift, delta, dq, scale),
            *_strides(*read, dq),
            *(H, *sizes),
            **constants,
            **asdict(blocks.queries),
        )
    return dq, dk, dv


def _kernels() -> tuple[Any, Any, Any]:
    if is_interpreting():
        mend_bf16()
    from impls.triton_flash.backward_keys import triton_flash_backward_keys
    from impls.triton_flash.backward_queries import triton_flash_backward_queries
    from impls.triton_flash.backward_rows import triton_flash_backward_rows

    return triton_flash_backward_rows, triton_flash_backward_keys, triton_flash_backward_queries


def _strides(*tensors: torch.Tensor) -> list[int]:
    """Of B, H and T of each tensor, one after another."""
    return [stride for tensor in tensors for stride in tensor.stride()[:3]]
