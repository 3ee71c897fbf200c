"""triton_flash_hopper: the Hopper kernel alone, where `triton_flash` may run the portable one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation
from impls.triton_flash.calls import output_of, refuse
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.presence import reasons_against_running
from impls.triton_flash.traffic import cache_bytes, descriptor_bytes

if TYPE_CHECKING:
    import torch

    from impls.interface.problem import Problem

NAME = "triton_flash_hopper"


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

    Raises:
        Unsupported: tensors on a CPU outside the interpreter, mask, softcap, a gradient asked
            for, and whatever `launch_hopper.attend` refuses; nothing else runs in its place.
    """
    refuse(NAME, q, k, v, mask=mask, softcap=softcap, has_backward=False)
    from impls.triton_flash.launch_hopper import attend

    return attend(q, k, v, causal=causal, window=window, scale=scale)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    reasons = reasons_against_running(NAME, device)
    if not reasons and device == "cuda":
        import torch

        from impls.triton_flash.blocks_hopper import reasons_against_device

        major, minor = torch.cuda.get_device_capability()
        reasons = reasons_against_device(10 * major + minor)
    return reasons


def _too_large_a_grid(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    if _n_programs(problem) < 2**31:
        return []
    return [f"B·H·T_q={problem.B * problem.H * problem.T_q} is more than one grid can hold"]


def _scratch_bytes(problem: Problem, pass_: str) -> int:
    """Lse and the tensor maps."""
    return 4 * problem.B * problem.H * problem.T_q + descriptor_bytes(problem)


def _n_programs(problem: Problem) -> int:
    from impls.triton_flash.blocks_hopper import SMALLEST_BLOCK_Q

    return problem.B * problem.H * -(-problem.T_q // SMALLEST_BLOCK_Q)


triton_flash_hopper = Implementation(
    name=NAME,
    forward=output_of(attention_with_lse),
    forward_with_lse=attention_with_lse,
    summary="our Triton kernel for Hopper, forward: warps that copy beside warps that compute",
    capabilities=Capabilities(
        # In a process of Triton's interpreter the kernel reads CPU tensors, and only there.
        devices=("cpu",) if is_interpreting() else ("cuda",),
        dtypes=("bfloat16", "float16"),
        passes=("forward",),
        needs=("lse", "scale"),
        max_d_h=256,
        d_h_multiple_of=8,
        further=_too_large_a_grid,
    ),
    runs=("triton_flash_forward_hopper",),
    cache_bytes=cache_bytes,
    scratch_bytes=_scratch_bytes,
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
