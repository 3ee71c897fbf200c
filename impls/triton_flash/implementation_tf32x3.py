"""triton_flash_tf32x3: float32 on matrix units, where `triton_flash` takes none for it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.triton_flash.calls import asks_for_gradients, output_of, refuse, too_large_a_grid
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.precision import MAX_D_TF32X3, TF32X3
from impls.triton_flash.presence import reasons_against_running
from impls.triton_flash.traffic import algorithmic_bytes, cache_bytes, scratch_bytes

if TYPE_CHECKING:
    import torch

    from impls.interface.problem import Problem

NAME = "triton_flash_tf32x3"


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

    Both may be differentiated, once. Every product is the sum of three of TF32 ("tf32x3"), forward
    and backward.

    Raises:
        Unsupported: what `triton_flash` refuses, 16-bit tensors, d_h or d_v above 128, or 64
            where a gradient is asked for, and compute capability 10.x.
    """
    import torch

    refuse(NAME, q, k, v, mask=mask, softcap=softcap, has_backward=True)
    reasons = []
    if q.dtype != torch.float32:
        name = str(q.dtype).removeprefix("torch.")
        reasons.append(f"dtype {name} is not supported (only float32)")
    needs = ["backward"] if asks_for_gradients(q, k, v) else []
    if reasons := [*reasons, *_reasons_against_heads(max(q.shape[3], v.shape[3]), needs)]:
        raise Unsupported(*reasons)
    from impls.triton_flash.differentiable import attend

    return attend(q, k, v, causal=causal, window=window, scale=scale, precision=TF32X3)


def unavailable(device: str) -> list[str]:
    """Reasons why no call can succeed in this process on this device."""
    reasons = reasons_against_running(NAME, device)
    if not reasons and device == "cuda":
        from impls.triton_flash.blocks import reasons_against_tf32x3
        from impls.triton_flash.launch import capability_of, current_device

        reasons = reasons_against_tf32x3(capability_of(current_device()))
    return reasons


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    d = max(problem.d_h, problem.d_v)
    return [*too_large_a_grid(problem, device, needs), *_reasons_against_heads(d, needs)]


def _reasons_against_heads(d: int, needs: Collection[str]) -> list[str]:
    most = MAX_D_TF32X3["backward" if "backward" in needs else "forward"]
    where = " in a backward" if "backward" in needs else ""
    return [f"d_h={d} is above {most}{where}"] if d > most else []


triton_flash_tf32x3 = Implementation(
    name=NAME,
    forward=output_of(attention_with_lse),
    forward_with_lse=attention_with_lse,
    summary="triton_flash for float32 on matrix units: each product is three of TF32 (tf32x3)",
    capabilities=Capabilities(
        # In a process of Triton's interpreter the kernel reads CPU tensors, and only there.
        devices=("cpu",) if is_interpreting() else ("cuda",),
        dtypes=("float32",),
        needs=("lse", "scale"),
        max_d_h=MAX_D_TF32X3["forward"],
        further=_further,
    ),
    runs=(
        "triton_flash_forward_tf32x3",
        "triton_flash_backward_keys_tf32x3",
        "triton_flash_backward_queries_tf32x3",
    ),
    algorithmic_bytes=algorithmic_bytes,
    cache_bytes=partial(cache_bytes, precision=TF32X3),
    scratch_bytes=scratch_bytes,
    unavailable=unavailable,
    library="triton",
    proven_in="interpreter",
)
