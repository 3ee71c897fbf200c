"""Attention as autograd knows it: forward by the forward kernel, backward by three kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from impls.triton_flash import choice
from impls.triton_flash.calls import asks_for_gradients
from impls.triton_flash.launch_backward import gradients
from impls.triton_flash.precision import IEEE


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    precision: str = IEEE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `choice.attend`; where a gradient is asked for, differentiable once."""
    arguments = {"causal": causal, "window": window, "scale": scale, "precision": precision}
    if asks_for_gradients(q, k, v):
        return _Attention.apply(q, k, v, arguments)
    return choice.attend(q, k, v, **arguments)


class _Attention(torch.autograd.Function):
    """`apply(q, k, v, arguments) -> (out, lse)`; the backward keeps all five tensors."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, arguments: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One launch; see `choice.attend`."""
        out, lse = choice.attend(q, k, v, **arguments)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.arguments = arguments
        # The gradient of a result that nobody used is None rather than zeros to be read.
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides names
        ctx: Any, *grad_outputs: torch.Tensor | None
    ) -> Any:
        """Three launches; see `launch_backward.gradients`."""
        d_out, d_lse = grad_outputs
        q, k, v, out, lse = ctx.saved_tensors
        if d_out is None:
            d_out = torch.zeros_like(out)
        return (*gradients(q, k, v, out, lse, d_out, d_lse, **ctx.arguments), None)
