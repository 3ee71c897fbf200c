"""Variants of one layer over lengths: what `python -m impls cost --compare` tabulates and draws."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from impls.interface.device_rates import DeviceRates
from impls.interface.devices import device_row
from impls.interface.layer_cost import (
    cache_bytes,
    crossing_T,
    decode_flop,
    prefill_flop,
    weight_bytes,
    weights,
)
from impls.interface.layer_shape import Latent, LayerShape, ModelShape
from impls.layer.models import Model, model
from impls.layer.serving import decode_bound, devices_for, prefill_bound, sequences_that_fit

# The memories that a cache is drawn against, beside the device asked for.
DRAWN_DEVICES = ("rtx4090", "h100-sxm", "h200-sxm", "b300")


@dataclass(frozen=True)
class Setting:
    """What all rows share: dtype, device, memory, the model's weights, requests to be served."""

    dtype: str
    rates: DeviceRates | None = None
    memory_bytes: float | None = None
    model_weight_bytes: int | None = None
    requests: int = 1


@dataclass(frozen=True)
class Row:
    """One variant at one T, all layers; None is unknown.

    `decode_time_s` reads all of the model's weights where their size is given; the two
    `…_tokens_per_s` are of the attention layers alone, one sequence.
    """

    variant: str
    T: int
    prefill_flop_per_token: float
    decode_flop_per_token: float
    prefill_core_share: float
    decode_core_share: float
    cache_bytes: int
    decode_time_s: float | None
    decode_binds: str | None
    prefill_tokens_per_s: float | None
    decode_tokens_per_s: float | None
    sequences: int | None
    devices: int | None


@dataclass(frozen=True)
class Variant:
    """A column of figures: a name, its sizes, and what does not depend on T."""

    name: str
    shape: ModelShape
    weights_per_layer: int
    prefill_crossing_T: int | None
    decode_crossing_T: int | None


@dataclass(frozen=True)
class Comparison:
    """The variants of `base` and their rows, by T and then in the order asked for."""

    base: Model
    setting: Setting
    variants: tuple[Variant, ...]
    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it, with the memory of the devices that a figure draws."""
        keys: list[str] = list(DRAWN_DEVICES)
        rates = self.setting.rates
        if rates is not None and not rates.is_measured and rates.name not in keys:
            keys.append(rates.name)
        memories = {key: device_row(key).memory_bytes for key in keys}
        return asdict(self) | {"device_memory_bytes": memories}


def compare(
    base: Model, words: Sequence[str], lengths: Sequence[int], setting: Setting
) -> Comparison:
    """Every variant at every length.

    Raises:
        ValueError: a word is no variant and no model, or a variant is named twice.
    """
    named = [variant_of(base, word) for word in words]
    variants = tuple(
        Variant(
            name=name,
            shape=shape,
            weights_per_layer=weights(shape.layer),
            prefill_crossing_T=crossing_T(shape, prefill_flop),
            decode_crossing_T=crossing_T(shape, decode_flop),
        )
        for name, shape in named
    )
    names = [variant.name for variant in variants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"--compare names {', '.join(twice)} twice")
    rows = tuple(_row(one, T, setting) for T in lengths for one in variants)
    return Comparison(base, setting, variants, rows)


def variant_of(base: Model, word: str) -> tuple[str, ModelShape]:
    """The stack that `word` makes of the base's sizes, and its name.

    mha, mqa and gqa<H_kv> change the kv heads. mla is the base's own latent, or one in
    DeepSeek-V2's proportions (2024, sections 2.1.4 and 3.1.2): d_c = 4·d_h, d_R = d_h / 2,
    d_c_q = 12·d_h, d_v = d_h. A model's name is that model.

    Raises:
        ValueError: the word is none of these, or H_kv does not divide H.
    """
    shape, plain = base.shape, base.shape.layer.as_mha
    grouped = re.fullmatch(r"gqa-?(\d+)", word.lower())
    if word.lower() == "mha":
        layer = plain
    elif word.lower() == "mqa":
        layer = replace(plain, H_kv=1)
    elif grouped:
        layer = replace(plain, H_kv=int(grouped[1]))
    elif word.lower() == "mla":
        layer = replace(plain, latent=shape.layer.latent or _latent_like_deepseek(plain))
    else:
        try:
            return model(word).name, model(word).shape
        except ValueError as error:
            raise ValueError(f'"{word}" is no variant (mha, mqa, gqa8, mla) and {error}') from error
    return layer.variant, replace(shape, layer=layer)


def _latent_like_deepseek(layer: LayerShape) -> Latent:
    d_h = layer.d_h
    return Latent(d_c=4 * d_h, d_R=max(1, d_h // 2), d_v=d_h, d_c_q=12 * d_h)


def _row(variant: Variant, T: int, setting: Setting) -> Row:
    shape, dtype, rates = variant.shape, setting.dtype, setting.rates
    prefill, decode = prefill_flop(shape, T), decode_flop(shape, T)
    step = alone = prompt = sequences = devices = None
    if rates is not None:
        given = setting.model_weight_bytes
        step = decode_bound(shape, T, dtype, rates, model_weight_bytes=given)
        alone = decode_bound(shape, T, dtype, rates)
        prompt = prefill_bound(shape, T, dtype, rates)
    if setting.memory_bytes is not None:
        memory = setting.memory_bytes
        held = setting.model_weight_bytes
        held = weight_bytes(shape, dtype) if held is None else held
        sequences = sequences_that_fit(shape, T, dtype, memory_bytes=memory, held_bytes=held)
        devices = devices_for(
            *(shape, T, dtype), requests=setting.requests, memory_bytes=memory, held_bytes=held
        )
    return Row(
        variant=variant.name,
        T=T,
        prefill_flop_per_token=prefill.per_token,
        decode_flop_per_token=decode.per_token,
        prefill_core_share=prefill.core_share,
        decode_core_share=decode.core_share,
        cache_bytes=cache_bytes(shape, T, dtype),
        decode_time_s=step.time_s if step else None,
        decode_binds=step.binds if step else None,
        prefill_tokens_per_s=prompt.tokens_per_s if prompt else None,
        decode_tokens_per_s=alone.tokens_per_s if alone else None,
        sequences=sequences,
        devices=devices,
    )
