"""Single-head, multi-head, grouped and multi-query attention as a layer, around any implementation.

`project`, `core` and `output` are its three parts, to be timed apart; `forward` is all of them.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import nn

from impls.interface.attention import Implementation, attend
from impls.interface.layer_shape import NARROW, LayerShape, warnings_about
from impls.interface.registry import select
from impls.layer.kv_cache import KVCache
from impls.layer.rotary import Rotary


class Heads(NamedTuple):
    """The core's inputs: q (B, H, T_q, d_h), k (B, H_kv, T_kv, d_h), v (B, H_kv, T_kv, d_v)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


class AttentionLayer(nn.Module):
    """Project, split into heads, attend, concatenate, project; keeps (B, T, d_model).

    Vaswani et al. 2017, section 3.2.2; grouped heads: Ainslie et al. 2023 (GQA). Weights are those
    of nn.Linear, x·Wᵀ + b: `q_proj` (H·d_h, d_model), `k_proj` and `v_proj` (H_kv·d_h, d_model),
    `o_proj` (d_model, H·d_h); with `fused_qkv` the first three are one `qkv_proj`, in this order.

    Args:
        shape: the sizes, whether it is causal, and its window.
        implementation: the core, by its name in the registry; or an `Implementation`.
        decode_implementation: the core where a cache already holds tokens; None is the same one.
        rotary_base: turn queries and keys by their positions (see `Rotary`); None does not.
        bias: each projection has one.
        fused_qkv: queries, keys and values by one product.

    Raises:
        ValueError: no such implementation, d_h is odd and rotary asked for, or a latent shape.
    """

    def __init__(
        self,
        shape: LayerShape,
        implementation: str | Implementation = "naive",
        *,
        decode_implementation: str | Implementation | None = None,
        rotary_base: float | None = None,
        bias: bool = False,
        fused_qkv: bool = False,
    ) -> None:
        super().__init__()
        if shape.latent is not None:
            raise ValueError("the shape has a latent: that layer is LatentAttention")
        warn_of_narrow_heads(shape)
        self.shape = shape
        self.implementation = chosen(implementation)
        self.decode_implementation = chosen(decode_implementation or implementation)
        self.rotary = None if rotary_base is None else Rotary(shape.d_h, rotary_base)
        self.bias = bias
        self.fused_qkv = fused_qkv
        query, key = shape.H * shape.d_h, shape.H_kv * shape.d_h
        if fused_qkv:
            self.qkv_proj = nn.Linear(shape.d_model, query + 2 * key, bias=bias)
        else:
            self.q_proj = nn.Linear(shape.d_model, query, bias=bias)
            self.k_proj = nn.Linear(shape.d_model, key, bias=bias)
            self.v_proj = nn.Linear(shape.d_model, key, bias=bias)
        self.o_proj = nn.Linear(query, shape.d_model, bias=bias)

    def forward(
        self,
        x: torch.Tensor,
        *,
        context: torch.Tensor | None = None,
        cache: KVCache | None = None,
    ) -> torch.Tensor:
        """The whole layer, (B, T, d_model) → (B, T, d_model); see `project` for the rest."""
        is_step = cache is not None and cache.length > 0
        heads = self.project(x, context=context, cache=cache)
        return self.output(self.core(heads, is_step=is_step))

    def project(
        self,
        x: torch.Tensor,
        *,
        context: torch.Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Heads:
        """Queries of x, keys and values of what they attend to; heads are views (B, H, T, d_h).

        With a context (B, T_kv, d_model) keys and values are of it (cross-attention). With a cache
        x are the tokens after those in it; theirs are appended, and all of the cache's returned.

        Raises:
            ValueError: x or the context is not (B, T, d_model); both context and cache; a cache
                that is full, or with a layer that is not causal.
        """
        if context is not None and (cache is not None or self.rotary is not None):
            raise ValueError("a context goes with neither a cache nor rotary: it has no positions")
        if cache is not None and not self.shape.is_causal:
            raise ValueError("a cache needs a causal layer: its tokens do not see those to come")
        q, k, v = self._projected(x, context)
        start = 0 if cache is None else cache.length
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is None:
            return Heads(q, k, v)
        cache.append(k, v)
        return Heads(q, cache.k, cache.v)

    def core(self, heads: Heads, *, is_step: bool = False) -> torch.Tensor:
        """The attention of the heads → (B, H, T_q, d_h).

        Raises:
            Unsupported: the implementation does not do this problem.
        """
        implementation = self.decode_implementation if is_step else self.implementation
        shape = self.shape
        return attend(implementation, *heads, causal=shape.is_causal, window=shape.window)[0]

    def output(self, attended: torch.Tensor) -> torch.Tensor:
        """The heads (B, H, T, d_h) concatenated and projected → (B, T, d_model)."""
        return self.o_proj(attended.transpose(1, 2).flatten(2))

    def new_cache(self, B: int, T_max: int) -> KVCache:
        """An empty cache for B sequences of up to T_max tokens, in the weights' dtype and place."""
        weight, shape = self.o_proj.weight, self.shape
        return KVCache(
            B=B,
            H_kv=shape.H_kv,
            T_max=T_max,
            d_h=shape.d_h,
            dtype=weight.dtype,
            device=weight.device,
        )

    def _projected(self, x: torch.Tensor, context: torch.Tensor | None) -> Heads:
        shape, d_h = self.shape, self.shape.d_h
        check_tokens("x", x, shape.d_model)
        if context is not None:
            check_tokens("context", context, shape.d_model)
        if not self.fused_qkv:
            attended = x if context is None else context
            parts = (self.q_proj(x), self.k_proj(attended), self.v_proj(attended))
        elif context is None:
            key = shape.H_kv * d_h
            parts = self.qkv_proj(x).split((shape.H * d_h, key, key), -1)
        else:
            raise ValueError("a context needs fused_qkv=False: queries are of another input")
        return Heads(*(part.unflatten(-1, (-1, d_h)).transpose(1, 2) for part in parts))


def chosen(implementation: str | Implementation) -> Implementation:
    """The implementation of this name, or the one given.

    Raises:
        ValueError: no implementation has the name; close names are told.
    """
    if isinstance(implementation, Implementation):
        return implementation
    return select([implementation])[implementation]


def warn_of_narrow_heads(shape: LayerShape) -> None:
    """Warn where d_h is below 16: allowed, measurable, and in no trained model we know of."""
    if shape.d_h < NARROW:
        text = f"d_model={shape.d_model}, H={shape.H}: {warnings_about(shape)[0]}"
        warnings.warn(text, UserWarning, stacklevel=3)


def check_tokens(name: str, x: torch.Tensor, d_model: int) -> None:
    """Refuse what is not (B, T, d_model).

    Raises:
        ValueError: with both widths.
    """
    if x.ndim != 3 or x.shape[2] != d_model:
        raise ValueError(f"{name} is {tuple(x.shape)}: the layer takes (B, T, d_model={d_model})")
