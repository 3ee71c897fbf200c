"""Layers made of others' weights: torch.nn.MultiheadAttention, and Llama's state dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from impls.interface.layer_shape import LayerShape
from impls.layer.attention_layer import AttentionLayer
from impls.layer.rotary import BASE, Rotary

_PROJECTIONS: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
# Old checkpoints carry the frequencies of their rotary embedding, which the base says already.
_FREQUENCIES = "rotary_emb.inv_freq"


def from_torch(
    module: nn.MultiheadAttention, *, is_causal: bool = False, **options: Any
) -> AttentionLayer:
    """The layer that computes what `module` does, with its weights copied.

    It takes (B, T, d_model) whatever the module's `batch_first`; `options` are those of
    `AttentionLayer`. The module's causal mask becomes the layer's `is_causal`.

    Raises:
        ValueError: the module has what a layer has not: keys or values of another width, learned
            or zero rows appended to them, dropout of the weights.
    """
    against = [
        f"{name} is not supported"
        for name, is_there in (
            (f"kdim={module.kdim}, vdim={module.vdim}", module.in_proj_weight is None),
            ("add_bias_kv=True", module.bias_k is not None),
            ("add_zero_attn=True", module.add_zero_attn),
            (f"dropout={module.dropout} of the weights", module.dropout > 0.0),
        )
        if is_there
    ]
    if against:
        raise ValueError("; ".join(against))
    found = _by_name(*module.in_proj_weight.chunk(3), module.out_proj.weight)
    biases: dict[str, torch.Tensor] = {}
    if module.in_proj_bias is not None:
        biases = _by_name(*module.in_proj_bias.chunk(3), module.out_proj.bias)
    shape = LayerShape(d_model=module.embed_dim, H=module.num_heads, is_causal=is_causal)
    return _layer(shape, found, biases, options)


def from_llama(
    state: Mapping[str, torch.Tensor],
    *,
    H: int,
    prefix: str = "",
    rotary_base: float = BASE,
    window: int | None = None,
    **options: Any,
) -> AttentionLayer:
    """The layer of one `self_attn` of a Llama, Mistral or Qwen2 state dict of Hugging Face's.

    Of the names that begin with `prefix` ("model.layers.0.self_attn."), `q_proj.weight` (H·d_h,
    d_model), `k_proj.weight`, `v_proj.weight` (H_kv·d_h, d_model), `o_proj.weight` and any `.bias`.
    The sizes follow from H and the weights; `options` are those of `AttentionLayer`.

    Raises:
        ValueError: a weight is missing, does not fit the others, or is one this layer does not
            have (a norm of the queries); or H does not divide the rows of q_proj.
    """
    mine = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
    frequencies = mine.pop(_FREQUENCIES, None)
    known = [f"{name}.{kind}" for name in _PROJECTIONS for kind in ("weight", "bias")]
    if missing := [n for n in known if n.endswith("weight") and n not in mine]:
        raise ValueError(f'no {", ".join(missing)} under "{prefix}"{_place_of(missing[0], state)}')
    if strange := [name for name in mine if name not in known]:
        raise ValueError(f"{', '.join(strange)}: the layer has nothing of this name")
    found, biases = (
        {n: mine[f"{n}.{kind}"] for n in _PROJECTIONS if f"{n}.{kind}" in mine}
        for kind in ("weight", "bias")
    )
    shape = _llama_shape(found, H, window)
    layer = _layer(shape, found, biases, {"rotary_base": rotary_base} | options)
    if frequencies is not None:
        _check_frequencies(frequencies, shape.d_h, rotary_base)
    return layer


def _by_name(*of_each: torch.Tensor) -> dict[str, torch.Tensor]:
    return dict(zip(_PROJECTIONS, of_each, strict=True))


def _llama_shape(weights: Mapping[str, torch.Tensor], H: int, window: int | None) -> LayerShape:
    """The sizes that the weights have, checked against one another."""
    sizes = {name: tuple(weight.shape) for name, weight in weights.items()}
    (rows, d_model), (key_rows, _) = sizes["q_proj"], sizes["k_proj"]
    if H < 1 or rows % H:
        raise ValueError(f"q_proj has {rows} rows, which is not a multiple of H={H}")
    d_h = rows // H
    if key_rows % d_h:
        raise ValueError(f"k_proj has {key_rows} rows, which is not a multiple of d_h={d_h}")
    due = {"k_proj": (key_rows, d_model), "v_proj": (key_rows, d_model), "o_proj": (d_model, rows)}
    for name, size in due.items():
        if sizes[name] != size:
            raise ValueError(f"{name} is {sizes[name]} where {size} is due")
    return LayerShape(d_model=d_model, H=H, H_kv=key_rows // d_h, d_h=d_h, window=window)


def _layer(
    shape: LayerShape,
    weights: Mapping[str, torch.Tensor],
    biases: Mapping[str, torch.Tensor],
    options: Mapping[str, Any],
) -> AttentionLayer:
    """A layer with copies of these weights, in their dtype and place; a bias not there is 0."""
    layer = AttentionLayer(shape, bias=bool(biases), **options).to(weights["q_proj"])
    given = {f"{name}.weight": weight for name, weight in weights.items()}
    if biases:
        for name, weight in weights.items():
            given[f"{name}.bias"] = biases.get(name, weight.new_zeros(weight.shape[0]))
    if layer.fused_qkv:
        for kind in ("weight", "bias") if biases else ("weight",):
            parts = [given.pop(f"{name}.{kind}") for name in _PROJECTIONS[:3]]
            given[f"qkv_proj.{kind}"] = torch.cat(parts)
    layer.load_state_dict(given)
    return layer


def _place_of(name: str, state: Mapping[str, torch.Tensor]) -> str:
    """Where the state dict has this name, told as a prefix to give."""
    for full in state:
        if full.endswith(name):
            return f': try prefix="{full.removesuffix(name)}"'
    return ""


def _check_frequencies(given: torch.Tensor, d_h: int, base: float) -> None:
    due = Rotary(d_h, base).frequencies()
    is_same = given.numel() == due.numel() and torch.allclose(
        given.detach().cpu().double().flatten(), due, rtol=1e-2, atol=0.0
    )
    if not is_same:
        raise ValueError(f"{_FREQUENCIES} is not that of rotary_base={base}: give the model's")
