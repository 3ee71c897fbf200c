"""Launching the decode kernels: what they refuse, the splits, and the partial outputs between."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from impls.interface.attention import Unsupported
from impls.triton_flash.blocks import head_constants, splits_heads
from impls.triton_flash.blocks_decode import (
    MAX_T_Q,
    DecodeBlocks,
    Splits,
    decode_blocks_for,
    splits_for,
)
from impls.triton_flash.interpreter import is_interpreting, mend_bf16
from impls.triton_flash.launch import (
    capability_of,
    empty_like_q,
    grid,
    reasons_against_tensors,
    with_scale_above_zero,
)
from impls.triton_flash.precision import IEEE

# Splits that one iteration of the reduce kernel reads: 16 outputs of 256 are 32 floats a thread.
_BLOCK_SPLITS = 16


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    blocks: DecodeBlocks | None = None,
    n_splits: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, H, T_q, d_v), laid out as q, and lse (B, H, T_q), float32.

    The keys are cut into splits that are attended to side by side and then merged: two launches,
    or one where one split is enough. `blocks` and `n_splits` default to what suits the device.

    Raises:
        Unsupported: more queries, another dtype, head size or stride, or more programs than the
            kernels are made for.
    """
    B, H, T_q, _ = q.shape
    _, H_kv, T_kv, d_v = v.shape
    reasons = reasons_against_tensors(q, k, v)
    if T_q > MAX_T_Q:
        reasons.append(f"T_q={T_q} is above {MAX_T_Q}")
    if reasons:
        raise Unsupported(*reasons)
    out = empty_like_q(q, d_v)
    lse = q.new_empty(B, H, T_q, dtype=torch.float32)
    if lse.numel() == 0:
        return out, lse
    q, scale = with_scale_above_zero(q, scale)
    if window is not None and window >= T_kv:
        window = None  # it hides no key, and small numbers cannot overflow
    n_rows = H // H_kv * T_q  # that read the same keys
    if blocks is None:
        d = max(q.shape[3], d_v)
        blocks = decode_blocks_for(capability_of(q.device), d, q.element_size(), n_rows)
    first = first_key(T_q, T_kv, window)
    splits = splits_for(first, T_kv, B * H_kv, n_rows, blocks, processors_of(q.device), n_splits)
    partial, partial_lse = out[None], lse[None]
    if splits.number > 1:
        partial = q.new_empty(splits.number, B, H, T_q, d_v, dtype=torch.float32)
        partial_lse = q.new_empty(splits.number, B, H, T_q, dtype=torch.float32)
    attend_to_splits(
        *(q, k, v, partial, partial_lse),
        **{"causal": causal, "window": window, "scale": scale},
        **{"blocks": blocks, "splits": splits},
    )
    if splits.number > 1:
        merge(partial, partial_lse, out, lse)
    return out, lse


def attend_to_splits(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    partial: torch.Tensor,
    partial_lse: torch.Tensor,
    *,
    causal: bool,
    window: int | None,
    scale: float,
    blocks: DecodeBlocks,
    splits: Splits,
) -> None:
    """Attention over each split alone, into `partial` and `partial_lse`.

    partial (n_splits, B, H, T_q, d_v), any strides but 1 in the last dimension, partial_lse
    (n_splits, B, H, T_q), contiguous within a split. `scale` is above zero.
    """
    n_splits, B, H, T_q, d_v = partial.shape
    H_kv, T_kv = k.shape[1:3]
    n_programs = grid(B, H_kv * n_splits, H // H_kv * T_q, blocks.BLOCK_ROWS)
    with _on(q.device):
        _split_kernel()[n_programs](
            q,
            k,
            v,
            partial,
            partial_lse,
            scale,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            *partial.stride()[:4],
            partial_lse.stride(0),
            H_kv,
            H // H_kv,
            T_q,
            T_kv,
            window or 0,
            n_splits,
            splits.first_key,
            splits.keys_each,
            **head_constants(q.shape[3], d_v, splits_heads(capability_of(q.device))),
            BLOCK_ROWS=blocks.BLOCK_ROWS,
            BLOCK_KV=blocks.BLOCK_KV,
            IS_CAUSAL=causal,
            HAS_WINDOW=window is not None,
            PRECISION=IEEE,
            num_warps=blocks.num_warps,
            num_stages=blocks.num_stages,
        )


def merge(
    partial: torch.Tensor, partial_lse: torch.Tensor, out: torch.Tensor, lse: torch.Tensor
) -> None:
    """Attention over all keys, into `out` and `lse`, from that over each of several splits.

    partial (n_splits, B, H, T_q, d_v), partial_lse (n_splits, B, H, T_q), both contiguous within
    a split → out (B, H, T_q, d_v), lse (B, H, T_q). A split without keys, (0, −inf), changes
    nothing; only such give (0, −inf).
    """
    n_splits, B, H, T_q, d_v = partial.shape
    with _on(out.device):
        _reduce_kernel()[grid(B, H, T_q, 1)](
            partial,
            partial_lse,
            out,
            lse,
            partial.stride(0),
            partial_lse.stride(0),
            *out.stride()[:3],
            H,
            T_q,
            n_splits,
            D_V=d_v,
            D_V_PADDED=1 << max(d_v - 1, 0).bit_length(),
            BLOCK_SPLITS=_BLOCK_SPLITS,
        )


def first_key(T_q: int, T_kv: int, window: int | None) -> int:
    """The first key that the window of any query still shows."""
    return 0 if window is None else max(0, T_kv - T_q - window + 1)


def processors_of(device: torch.device) -> int | None:
    """How many multiprocessors the device has; None in the interpreter."""
    if device.type != "cuda":
        return None
    return torch.cuda.get_device_properties(device).multi_processor_count


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Triton looks up the device that is current, not the one the tensors are on."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _split_kernel() -> Any:
    if is_interpreting():
        mend_bf16()
    from impls.triton_flash.decode import triton_decode_split

    return triton_decode_split


def _reduce_kernel() -> Any:
    if is_interpreting():
        mend_bf16()
    from impls.triton_flash.decode_reduce import triton_decode_reduce

    return triton_decode_reduce
