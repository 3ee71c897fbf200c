"""triton_decode: few queries over a long cache, its keys in splits that fill the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation
from impls.interface.problem import DTYPE_BYTES
from impls.triton_flash.calls import output_of, refuse
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.presence import reasons_against_running

if TYPE_CHECKING:
    import torch

    from impls.interface.problem import Problem

NAME = "triton_decode"


def decoding_with_lse(
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
    """Output (B, H, T_q, d_v) and lse (B, H, T_q), natural logarithm, float32.

    float32 inputs are multiplied in full precision ("ieee", no TF32).

    Raises:
        Unsupported: tensors on a CPU outside the interpreter, mask, softcap, a gradient asked
            for, more than 128 queries, d_h or d_v above 256, another dtype, a last dimension of
            stride other than 1.
    """
    refuse(NAME, q, k, v, mask=mask, softcap=softcap, has_backward=False)
    from impls.triton_flash.launch_decode import decode

    return decode(q, k, v, causal=causal, window=window, scale=scale)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    return reasons_against_running(NAME, device)


def scratch_bytes(problem: Problem, pass_: str) -> int:
    """Lse and, where there is more than one split, their partial outputs and lse, in float32."""
    from impls.triton_flash.blocks_decode import decode_blocks_for, splits_for
    from impls.triton_flash.launch import capability_of, current_device
    from impls.triton_flash.launch_decode import first_key, processors_of

    device = current_device()
    p, n_rows = problem, problem.H // problem.H_kv * problem.T_q
    blocks = decode_blocks_for(
        capability_of(device), max(p.d_h, p.d_v), DTYPE_BYTES[p.dtype], n_rows
    )
    first = first_key(p.T_q, p.T_kv, p.window)
    n_heads = p.B * p.H_kv
    splits = splits_for(first, p.T_kv, n_heads, n_rows, blocks, processors_of(device))
    partial = splits.number * (p.d_v + 1) if splits.number > 1 else 0
    return 4 * n_heads * n_rows * (1 + partial)


def _too_large(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    from impls.triton_flash.blocks_decode import MAX_T_Q

    reasons = []
    if problem.T_q > MAX_T_Q:
        reasons.append(f"T_q={problem.T_q} is above {MAX_T_Q}")
    n_rows = problem.B * problem.H * problem.T_q
    if n_rows >= 2**31:
        reasons.append(f"B·H·T_q={n_rows} is more than one grid can hold")
    return reasons


triton_decode = Implementation(
    name=NAME,
    forward=output_of(decoding_with_lse),
    forward_with_lse=decoding_with_lse,
    summary="our Triton kernels for decoding: split keys, a kv head's queries in one tile",
    capabilities=Capabilities(
        # In a process of Triton's interpreter the kernels read CPU tensors, and only there.
        devices=("cpu",) if is_interpreting() else ("cuda",),
        passes=("forward",),
        needs=("lse", "scale"),
        max_d_h=256,
        further=_too_large,
    ),
    runs=("triton_decode_split", "triton_decode_reduce"),
    scratch_bytes=scratch_bytes,
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
