"""What the implementations of this folder share: what they refuse of a call, before any launch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from impls.interface.attention import Forward, Unsupported
from impls.interface.problem import Problem
from impls.triton_flash.interpreter import is_interpreting
from impls.triton_flash.presence import on_a_cpu


def refuse(
    name: str,
    *tensors: torch.Tensor,
    mask: torch.Tensor | None,
    softcap: float | None,
    has_backward: bool,
) -> None:
    """Nothing, where implementation `name` may look at these arguments.

    Raises:
        Unsupported: tensors on a CPU outside the interpreter, mask, softcap, and, where it
            has no backward, a gradient asked for; with every reason that applies.
    """
    reasons: list[str] = []
    if not is_interpreting() and tensors[0].device.type != "cuda":
        reasons.append(on_a_cpu(name))
    if mask is not None:
        reasons.append("mask is not supported")
    if softcap is not None:
        reasons.append("softcap is not supported")
    if not has_backward and asks_for_gradients(*tensors):
        reasons.append("backward is not supported")
    if reasons:
        raise Unsupported(*reasons)


def asks_for_gradients(*tensors: torch.Tensor) -> bool:
    """Whether what is computed from these tensors now will be differentiated."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def too_large_a_grid(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """Why forward or backward have more programs than a grid holds; by `Capabilities.further`."""
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


def output_of(with_lse: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Forward:
    """The same call for its output alone."""

    @functools.wraps(with_lse)
    def forward(*tensors: torch.Tensor, **arguments: Any) -> torch.Tensor:
        return with_lse(*tensors, **arguments)[0]

    return forward
