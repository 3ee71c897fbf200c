"""Attention as autograd knows it: forward by the forward kernel, backward by three kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from impls.triton_flash.choice import attend
from impls.triton_flash.launch_backward import gradients


class Attention(torch.autograd.Function):
    """`Attention.apply(q, k, v, causal, window, scale) -> (out, lse)`, differentiable once.

    Both results may be differentiated. q, k, v, out and lse are kept for the backward.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int | None,
        scale: float | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One launch; see `choice.attend`."""
        out, lse = attend(q, k, v, causal=causal, window=window, scale=scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.arguments = {"causal": causal, "window": window, "scale": scale}
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
        found = gradients(q, k, v, out, lse, d_out, d_lse, **ctx.arguments)
        return (*found, None, None, None)
