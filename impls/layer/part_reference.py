"""What a part of a layer should give: the same module in float64, around the plain formula."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from impls.interface import layer_work
from impls.interface.attention import Implementation
from impls.interface.check import Due, floor_at
from impls.interface.inputs import TORCH_DTYPES
from impls.interface.reference import Expected
from impls.layer.attention_layer import AttentionLayer, Heads, chosen
from impls.layer.block import Block
from impls.layer.part import (
    Cache,
    Layer,
    layer_in,
    module_of,
    output_names,
    run_part,
    with_weights,
)
from impls.layer.part_inputs import PartInputs, cache_like, output_shapes

# Beyond this much a sample is computed: about two seconds of float64 on one core.
MOST_FLOP = 3 << 34
_SPAN = 32
# Elements of one chunk of scores: 32 MiB in float64.
_CHUNK = 1 << 22


@dataclass(frozen=True)
class _Sample:
    """Sequences `b` and spans of tokens that are computed; keys are always those of all tokens."""

    b: list[int]
    spans: list[tuple[int, int]]
    words: str
    is_all: bool

    @property
    def rows(self) -> list[int]:
        """The tokens of all spans."""
        return [i for a, b in self.spans for i in range(a, b)]


@dataclass(frozen=True)
class PartReference:
    """What is due under each name, and which part of it: "all" or a sample in words."""

    due: dict[str, Due]
    rows: str


def part_reference(
    inputs: PartInputs, masks: Sequence[torch.Tensor] = (), *, gradients: bool
) -> PartReference:
    """Outputs, and the gradients of x and of every weight, in float64 on the inputs' device.

    Beside each value stands that of the same module at the problem's dtype, around the formula.
    `masks` say which elements each dropout of a block kept. Gradients of weights are sums over all
    tokens and need them all; without gradients large problems are sampled: their first and last
    sequence, and of these 32 tokens at the start, in the middle and at the end.
    """
    problem, dtype = inputs.problem, TORCH_DTYPES[inputs.problem.dtype]
    sample = _choose(inputs, gradients)
    precision = torch.get_float32_matmul_precision()
    # A TF32 or bfloat16 product would loosen the tolerance of a float32 problem.
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.enable_grad() if gradients else torch.no_grad():
            exact, largest_score = _values(inputs, masks, sample, torch.float64, gradients)
            naive, _ = _values(inputs, masks, sample, dtype, gradients)
    finally:
        torch.set_float32_matmul_precision(precision)
    names = output_names(inputs.around)
    shapes = dict(zip(names, output_shapes(problem), strict=True))
    due = {}
    for name, value in exact.items():
        is_output = name in shapes
        # Terms that are summed have size 1: x and d_out have, and the weights keep it.
        due[name] = Due(
            shapes[name] if is_output else tuple(value.shape),
            dtype,
            inputs.x.device,
            Expected(value, naive[name].double(), magnitude=1.0),
            sampled=partial(_sampled, name, sample, inputs) if is_output else lambda t: t,
            floor=floor_at(problem.dtype, largest_score),
        )
    return PartReference(due, sample.words)


def _choose(inputs: PartInputs, gradients: bool) -> _Sample:
    p = inputs.problem
    if gradients or layer_work.flop(p) <= MOST_FLOP:
        return _Sample(list(range(p.B)), [(0, p.T_q)], "all", is_all=True)
    middle, end = p.T_q // 2, p.T_q
    spans = [(0, _SPAN), (middle - _SPAN // 2, middle + _SPAN // 2), (end - _SPAN, end)]
    spans = spans if p.T_q >= 4 * _SPAN else [(0, p.T_q)]
    b = sorted({0, p.B - 1})
    rows = sum(b - a for a, b in spans)
    words = f"sampled {rows} of {p.T_q} tokens in {len(b)} of {p.B} sequences"
    return _Sample(b, spans, words, is_all=False)


def _sampled(name: str, sample: _Sample, inputs: PartInputs, tensor: torch.Tensor) -> torch.Tensor:
    """The sampled part of an output of all sequences."""
    return tensor if sample.is_all else _rows_of(name, sample, inputs, tensor[sample.b])


def _rows_of(name: str, sample: _Sample, inputs: PartInputs, tensor: torch.Tensor) -> torch.Tensor:
    """The sampled tokens of an output; of keys and values those of the new tokens."""
    first = inputs.n_cached if name in ("k", "v") else 0
    return tensor if sample.is_all else tensor[..., [first + i for i in sample.rows], :]


_Values = dict[str, torch.Tensor]


def _values(
    inputs: PartInputs,
    masks: Sequence[torch.Tensor],
    sample: _Sample,
    dtype: torch.dtype,
    gradients: bool,
) -> tuple[_Values, float]:
    """Every output on the sample and every gradient at a precision; and the largest score."""
    around = inputs.around
    module = module_of(around, _formula())
    with_weights(module, {name: w.to(dtype) for name, w in inputs.weights.items()})
    x = inputs.x.to(dtype) if sample.is_all else inputs.x[sample.b].to(dtype)
    x = x.detach().requires_grad_(gradients)
    names, largest = output_names(around), 0.0
    if around.has_core:
        kept = [mask if sample.is_all else mask[sample.b][:, sample.rows] for mask in masks]
        out, largest = _with_core(module, inputs, x, kept, sample)
        found = {"out": out}
    else:
        outputs = run_part(module, around, x, _cache_at(inputs, sample, dtype))
        found = {
            name: _rows_of(name, sample, inputs, tensor)
            for name, tensor in zip(names, outputs, strict=True)
        }
    if gradients:
        weights = dict(module.named_parameters())
        leaves = {"dx": x} | {f"d{name}": weights[name] for name in inputs.weights}
        d_out = [tensor.to(dtype) for tensor in inputs.d_out]
        made = torch.autograd.grad(list(found.values()), list(leaves.values()), d_out)
        found |= dict(zip(leaves, made, strict=True))
    return {name: tensor.detach() for name, tensor in found.items()}, largest


def _with_core(
    module: nn.Module,
    inputs: PartInputs,
    x: torch.Tensor,
    masks: Sequence[torch.Tensor],
    sample: _Sample,
) -> tuple[torch.Tensor, float]:
    """The layer or block of the sampled tokens, and the largest score there can be."""
    layer = layer_in(module)
    cache = _cache_at(inputs, sample, x.dtype)
    if not isinstance(module, Block):
        return _layer(layer, inputs, x, cache, sample)
    keep = 1.0 - inputs.around.dropout

    def dropped(tensor: torch.Tensor, i: int) -> torch.Tensor:
        return tensor * masks[i] / keep if masks else tensor

    made, largest = _layer(layer, inputs, module.attention_norm(x), cache, sample)
    y = (x if sample.is_all else x[:, sample.rows]) + dropped(made, 0)
    return y + dropped(module.feed_forward(module.feed_forward_norm(y)), 1), largest


def _layer(
    layer: Layer, inputs: PartInputs, x: torch.Tensor, cache: Any, sample: _Sample
) -> tuple[torch.Tensor, float]:
    """The layer of the sampled tokens; queries are of these, keys and values of all."""
    p, absorbed = inputs.problem, inputs.around.is_absorbed
    how: dict[str, Any] = {}
    if isinstance(layer, AttentionLayer):
        scale = p.scale
    else:
        scale, how = layer.scale, {"absorbed": absorbed}
    if isinstance(layer, AttentionLayer) and cache is None and not sample.is_all:
        q, k, v = layer.project(x[:, sample.rows], context=x)
    else:
        q, k, v = layer.project(x, cache=cache, **how)
        q = q if sample.is_all else q[:, :, sample.rows]
    # |q·k| ≤ |q|·|k|.
    largest = scale * math.prod(float(t.detach().norm(dim=-1).max()) for t in (q, k))
    parts = []
    for span in sample.spans:
        seen = p.T_kv - p.T_q + span[1] if p.causal else p.T_kv
        some, q = q[:, :, : span[1] - span[0]], q[:, :, span[1] - span[0] :]
        parts.append(layer.core(Heads(some, k[:, :, :seen], v[:, :, :seen]), **how))
    return layer.output(torch.cat(parts, 2), **how), largest


def _cache_at(inputs: PartInputs, sample: _Sample, dtype: torch.dtype) -> Cache | None:
    """The filled cache of the sampled sequences at a precision."""
    if inputs.cache is None:
        return None
    cache = cache_like(inputs.problem, dtype, inputs.x.device, B=len(sample.b))
    kept = [rows if sample.is_all else rows[sample.b] for rows in inputs.cached.values()]
    cache.append(*(rows.to(dtype) for rows in kept))
    return cache


def _by_rows(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    **others: Any,
) -> torch.Tensor:
    """The formula for some queries after the others, computed again for the backward."""
    (B, H, T_q, _), T_kv = q.shape, k.shape[2]
    step = max(1, _CHUNK // (B * H * T_kv))
    plain = partial(chosen("naive").forward, causal=causal, window=window, scale=scale, **others)
    parts = []
    for first in range(0, T_q, step):
        end = min(first + step, T_q)
        seen = T_kv - T_q + end if causal else T_kv
        heads = (q[:, :, first:end], k[:, :, :seen], v[:, :, :seen])
        if torch.is_grad_enabled():
            parts.append(checkpoint(plain, *heads, use_reentrant=False))
        else:
            parts.append(plain(*heads))
    return torch.cat(parts, 2)


@functools.cache
def _formula() -> Implementation:
    return replace(chosen("naive"), name="formula", forward=_by_rows)
