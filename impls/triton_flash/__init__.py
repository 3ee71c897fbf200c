"""triton_flash: attention kernels of our own in Triton, proven in its interpreter without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation, Unsupported

# The folder scan looks for implementations in this module alone.
from impls.triton_flash.implementation_decode import triton_decode as triton_decode
from impls.triton_flash.implementation_hopper import triton_flash_hopper as triton_flash_hopper
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.presence import on_a_cpu, reasons_against_running
from impls.triton_flash.traffic import algorithmic_bytes, scratch_bytes

if TYPE_CHECKING:
    import torch

    from impls.interface.problem import Problem


def attention(
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
    """The output alone; arguments and refusals as in `attention_with_lse`."""
    return attention_with_lse(
        q, k, v, causal=causal, window=window, mask=mask, scale=scale, softcap=softcap
    )[0]


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
    import torch

    reasons: list[str] = []
    if not is_interpreting() and q.device.type != "cuda":
        reasons.append(on_a_cpu("triton_flash"))
    if mask is not None:
        reasons.append("mask is not supported")
    if softcap is not None:
        reasons.append("softcap is not supported")
    if reasons:
        raise Unsupported(*reasons)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        from impls.triton_flash.differentiable import Attention

        return Attention.apply(q, k, v, causal, window, scale)
    from impls.triton_flash.choice import attend

    return attend(q, k, v, causal=causal, window=window, scale=scale)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    return reasons_against_running("triton_flash", device)


def _too_large_a_grid(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    from impls.triton_flash.blocks import SMALLEST_BLOCK_Q
    from impls.triton_flash.blocks_backward import SMALLEST_BLOCK

    p, smallest = problem, SMALLEST_BLOCK if "backward" in needs else SMALLEST_BLOCK_Q
    rows = {"B·H·T_q": (p.B * p.H, p.T_q)}
    if "backward" in needs:
        rows["B·H_kv·T_kv"] = (p.B * p.H_kv, p.T_kv)
    return [
        f"{name}={heads * T} is more than one grid can hold"
        for name, (heads, T) in rows.items()
        if heads * -(-T // smallest) >= 2**31
    ]


triton_flash = Implementation(
    name="triton_flash",
    forward=attention,
    forward_with_lse=attention_with_lse,
    summary="our Triton kernels, forward and backward: tiled, deterministic; float32 as ieee",
    capabilities=Capabilities(
        # In a process of Triton's interpreter the kernel reads CPU tensors, and only there.
        devices=("cpu",) if is_interpreting() else ("cuda",),
        needs=("lse", "scale"),
        max_d_h=256,
        further=_too_large_a_grid,
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
    scratch_bytes=scratch_bytes,
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
