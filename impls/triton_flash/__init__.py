"""triton_flash: attention kernels of our own in Triton, proven in its interpreter without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation
from impls.triton_flash.calls import output_of, refuse, too_large_a_grid

# The folder scan looks for implementations in this module alone.
from impls.triton_flash.implementation_decode import triton_decode as triton_decode
from impls.triton_flash.implementation_hopper import triton_flash_hopper as triton_flash_hopper
from impls.triton_flash.implementation_tf32x3 import triton_flash_tf32x3 as triton_flash_tf32x3
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.presence import reasons_against_running
from impls.triton_flash.traffic import algorithmic_bytes, cache_bytes, scratch_bytes

if TYPE_CHECKING:
    import torch


def attention_with_lse(
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

    Both may be differentiated, once. float32 inputs are multiplied in full precision ("ieee", no
    TF32), forward and backward.

    Raises:
        Unsupported: tensors on a CPU outside the interpreter, mask, softcap, d_h or d_v above 256,
            another dtype, a last dimension of stride other than 1.
    """
    refuse("triton_flash", q, k, v, mask=mask, softcap=softcap, has_backward=True)
    from impls.triton_flash.differentiable import attend

    return attend(q, k, v, causal=causal, window=window, scale=scale)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    return reasons_against_running("triton_flash", device)


triton_flash = Implementation(
    name="triton_flash",
    forward=output_of(attention_with_lse),
    forward_with_lse=attention_with_lse,
    summary="our Triton kernels, forward and backward: tiled, deterministic; float32 as ieee",
    capabilities=Capabilities(
        # In a process of Triton's interpreter the kernel reads CPU tensors, and only there.
        devices=("cpu",) if is_interpreting() else ("cuda",),
        needs=("lse", "scale"),
        max_d_h=256,
        further=too_large_a_grid,
    ),
    # Which forward is for impls/triton_flash/choice.py to say and for a row's `ran` to show.
    runs=(
        "triton_flash_forward_hopper",
        "triton_flash_forward",
        "triton_flash_backward_rows",
        "triton_flash_backward_keys",
        "triton_flash_backward_queries",
    ),
    algorithmic_bytes=algorithmic_bytes,
    cache_bytes=cache_bytes,
    scratch_bytes=scratch_bytes,
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
