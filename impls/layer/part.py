"""A part of a layer as a module of PyTorch, and the call of it that is measured."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from impls.interface.around import Around
from impls.interface.attention import Implementation
from impls.layer.attention_layer import AttentionLayer
from impls.layer.block import Block, FeedForward
from impls.layer.kv_cache import KVCache, LatentCache
from impls.layer.latent_attention import LatentAttention

Layer = AttentionLayer | LatentAttention
Cache = KVCache | LatentCache


def module_of(around: Around, implementation: Implementation) -> nn.Module:
    """The module that the part belongs to, on the device "meta": its weights are yet to come."""
    shape = around.shape
    with torch.device("meta"), warnings.catch_warnings():
        # Narrow heads are measured on purpose.
        warnings.simplefilter("ignore", UserWarning)
        if around.part == "feed_forward":
            return FeedForward(shape.d_model, around.d_ff)
        of_heads = AttentionLayer if shape.latent is None else LatentAttention
        layer = of_heads(shape, implementation)
        if around.part != "block":
            return layer
        return Block(layer, d_model=shape.d_model, d_ff=around.d_ff, dropout=around.dropout)


def weight_names(around: Around, module: nn.Module) -> list[str]:
    """The names of the module's weights that the part multiplies with."""
    names = [name for name, _ in module.named_parameters()]
    # An absorbed layer makes its values of what the core gives.
    of_output = ["o_proj.weight", *(["v_up.weight"] if around.is_absorbed else [])]
    if around.part == "projections":
        return [name for name in names if name not in of_output]
    return of_output if around.part == "output" else names


def with_weights(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> nn.Module:
    """The module with these weights, shared, not copied; those it lacks stay on "meta"."""
    module.load_state_dict(weights, strict=False, assign=True)
    return module


def layer_in(module: nn.Module) -> Layer:
    """The attention layer of a part that has one."""
    found: Any = module.attention if isinstance(module, Block) else module
    return found


def run_part(
    module: nn.Module, around: Around, x: torch.Tensor, cache: Cache | None = None
) -> tuple[torch.Tensor, ...]:
    """What the part gives: its output alone, or of projections q, k and v.

    x (B, T_q, d_model), for the output projection (B, H, T_q, d_v). With a cache x are the tokens
    after those in it, and are appended.
    """
    how: dict[str, Any] = {} if cache is None else {"cache": cache}
    absorbed = {} if around.shape.latent is None else {"absorbed": around.is_absorbed}
    part: Any = module
    if around.part == "projections":
        return tuple(part.project(x, **how, **absorbed))
    if around.part == "output":
        return (part.output(x, **absorbed),)
    if around.part == "feed_forward":
        return (part(x),)
    return (part(x, **how, **absorbed),)


def output_names(around: Around) -> tuple[str, ...]:
    """The names of what `run_part` gives."""
    return ("q", "k", "v") if around.part == "projections" else ("out",)
