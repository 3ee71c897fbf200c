"""triton_flash: attention kernels of our own in Triton, proven in its interpreter without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.triton_flash.interpreter import is_interpreting, reasons_against_interpreting

if TYPE_CHECKING:
    import torch

    from impls.interface.problem import Problem

ON_A_CPU = (
    "runs on CUDA; on a CPU it is proven in Triton's interpreter "
    "by `python -m impls check triton_flash`"
)
OLDEST_CAPABILITY = 80


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
        reasons.append(ON_A_CPU)
    if mask is not None:
        reasons.append("mask is not supported")
    if softcap is not None:
        reasons.append("softcap is not supported")
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        reasons.append("backward is not supported")
    if reasons:
        raise Unsupported(*reasons)
    from impls.triton_flash.launch import attend

    return attend(q, k, v, causal=causal, window=window, scale=scale)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    import torch

    if is_interpreting():
        return reasons_against_interpreting()
    reasons = []
    try:
        import triton  # noqa: F401  only whether it is there is asked
    except ImportError as error:
        if error.name != "triton":
            raise
        reasons.append("triton is not installed")
    if device != "cuda":
        # Without triton nor can the interpreter prove it.
        return reasons or [ON_A_CPU]
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        reasons.append("no CUDA GPU is active" if built else "torch is built without CUDA")
    else:
        major, minor = torch.cuda.get_device_capability()
        if 10 * major + minor < OLDEST_CAPABILITY:
            reasons.append(f"compute capability {major}.{minor} is below 8.0")
    return reasons


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
    runs=("triton_flash_forward",),
    scratch_bytes=lambda problem, pass_: 4 * problem.B * problem.H * problem.T_q,  # lse
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
