"""triton_flash: attention kernels of our own in Triton, proven in its interpreter without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation, Unsupported

# The folder scan looks for implementations in this module alone.
from impls.triton_flash.implementation_decode import triton_decode as triton_decode
from impls.triton_flash.implementation_hopper import triton_flash_hopper as triton_flash_hopper
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.presence import on_a_cpu, reasons_against_running

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

    float32 inputs are multiplied in full precision ("ieee", no TF32).

    Raises:
        Unsupported: tensors on a CPU outside the interpreter, mask, softcap, a gradient asked
            for, d_h or d_v above 256, another dtype, a last dimension of stride other than 1.
    """
    import torch

    reasons: list[str] = []
    if not is_interpreting() and q.device.type != "cuda":
        reasons.append(on_a_cpu("triton_flash"))
    if mask is not None:
        reasons.append("mask is not supported")
    if softcap is not None:
        reasons.append("softcap is not supported")
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        reasons.append("backward is not supported")
    if reasons:
        raise Unsupported(*reasons)
    from impls.triton_flash.choice import attend

    return attend(q, k, v, causal=causal, window=window, scale=scale)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    return reasons_against_running("triton_flash", device)


def _too_large_a_grid(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    from impls.triton_flash.blocks import SMALLEST_BLOCK_Q

    n_programs = problem.B * problem.H * -(-problem.T_q // SMALLEST_BLOCK_Q)
    if n_programs < 2**31:
        return []
    return [f"B·H·T_q={problem.B * problem.H * problem.T_q} is more than one grid can hold"]


triton_flash = Implementation(
    name="triton_flash",
    forward=attention,
    forward_with_lse=attention_with_lse,
    summary="our Triton kernel, forward: tiled, online softmax; float32 as ieee",
    capabilities=Capabilities(
        # In a process of Triton's interpreter the kernel reads CPU tensors, and only there.
        devices=("cpu",) if is_interpreting() else ("cuda",),
        passes=("forward",),
        needs=("lse", "scale"),
        max_d_h=256,
        further=_too_large_a_grid,
    ),
    # Which of them is for impls/triton_flash/choice.py to say and for a row's `ran` to show.
    runs=("triton_flash_forward_hopper", "triton_flash_forward"),
    scratch_bytes=lambda problem, pass_: 4 * problem.B * problem.H * problem.T_q,  # lse
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
