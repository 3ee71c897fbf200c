"""Transformer Engine's DotProductAttention, pinned to cuDNN's fused attention.

Signature and conventions are those of NVIDIA/TransformerEngine at 0001d1b (2.x),
dot_product_attention.py: qkv_format "bshd" is (B, T, H, d) → (B, T, H·d_v); "causal" is aligned to
the top left and "causal_bottom_right" to the bottom right; a window counts the keys to the left of
the last one, inclusive. It gives no LSE. q, k and v that are neither (B, T, H, d) in memory nor
packed are copied inside the clock.

Its other backends are flash-attn's packages, which have rows of their own, and an unfused one. Two
variables of its own, read when it selects, leave them out; what cuDNN refuses is then an error.
"""

from __future__ import annotations

import os

import torch

from impls.interface.attention import Capabilities, Unsupported
from impls.interface.foreign_kernel import (
    SIXTEEN_BIT,
    Call,
    ForeignKernel,
    Given,
    Wanted,
    against_capability,
    against_multiples,
)
from impls.interface.problem import Problem

PINNED = {"NVTE_FLASH_ATTN": "0", "NVTE_FUSED_ATTN": "1", "NVTE_UNFUSED_ATTN": "0"}


def build(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem; see `Build`."""
    os.environ.update(PINNED)
    from transformer_engine.pytorch import (  # pyright: ignore[reportMissingImports]  # an optional library
        DotProductAttention,
    )

    is_square = problem.T_q == problem.T_kv
    module = DotProductAttention(
        problem.H,
        problem.d_h if problem.d_v == problem.d_h else (problem.d_h, problem.d_v),
        num_gqa_groups=problem.H_kv,
        attention_dropout=0.0,
        qkv_format="bshd",
        attn_mask_type=_mask_type(problem),
        window_size=None if problem.window is None else (problem.window - 1, 0),
        attention_type="self" if is_square else "cross",
        softmax_scale=wanted.scale,
    )

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        if module.training != torch.is_grad_enabled():
            # In training it also writes what a backward needs.
            module.train(torch.is_grad_enabled())
        try:
            out = module(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        except ValueError as error:
            if "No dot product attention" not in str(error):
                raise
            why = "cuDNN refuses it; NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2 prints why"
            raise Unsupported(why) from error
        return out.unflatten(2, (problem.H, problem.d_v)).transpose(1, 2), None

    return call


def _mask_type(problem: Problem) -> str:
    """Its word for the mask; at T_q = T_kv both corners are one, and more versions take the first.

    One query sees every key, which is no mask, unless a window leaves some out.
    """
    if not problem.causal or (problem.T_q == 1 and problem.window is None):
        return "no_mask"
    return "causal" if problem.T_q == problem.T_kv else "causal_bottom_right"


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What holds of every version; cuDNN's own refuses the rest when called."""
    reasons = against_capability(lambda capability: capability >= (8, 0), "8.0")
    return reasons + against_multiples(problem, 8)


KERNEL = ForeignKernel(
    name="transformer_engine",
    summary="Transformer Engine's DotProductAttention, on cuDNN's fused attention",
    capabilities=Capabilities(
        devices=("cuda",),
        dtypes=SIXTEEN_BIT,
        needs=("backward", "scale"),
        max_d_h=256,
        further=_further,
    ),
    library="transformer-engine",
    runs=("cudnn", "FusedAttn"),
    build=build,
    install="pip install 'transformer-engine[pytorch]' --no-build-isolation",
    at_least=(2, 0),
)

transformer_engine = KERNEL.implementation()
