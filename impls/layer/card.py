"""One model at one length as numbers: what `python -m impls cost --model …` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from impls.interface.device_rates import DeviceRates
from impls.interface.layer_cost import (
    LayerFlop,
    biases,
    cache_bytes,
    crossing_T,
    decode_flop,
    prefill_flop,
    weight_bytes,
    weights,
)
from impls.interface.layer_shape import LayerShape, Shape, warnings_about
from impls.layer.models import Model
from impls.layer.serving import Bound, decode_bound, sequences_that_fit


@dataclass(frozen=True)
class Part:
    """The counts of one kind of layer, of which there are `count`, or of all layers together."""

    count: int
    window: int | None
    weights: int
    prefill: LayerFlop
    decode: LayerFlop


@dataclass(frozen=True)
class Serving:
    """The bounds on a device and what fits into its memory.

    Attributes:
        attention: one sequence decoded, the attention layers alone.
        whole: the same with all weights of the model read; None where their size is not given.
        full: as many sequences as fit decoded together; None where none fits or it is unknown.
        held_bytes: the weights that take memory: the model's, or the attention's where not given.
    """

    rates: DeviceRates
    attention: Bound
    whole: Bound | None
    full: Bound | None
    memory_bytes: float | None
    held_bytes: int
    sequences: int | None


@dataclass(frozen=True)
class Card:
    """All that is counted of a model at T tokens; FLOP are of one sequence."""

    model: Model
    T: int
    dtype: str
    kinds: tuple[Part, ...]
    all_layers: Part
    biases_per_layer: int
    prefill_crossing_T: int | None
    decode_crossing_T: int | None
    cache_bytes: int
    unwindowed_cache_bytes: int
    mha_cache_bytes: int
    serving: Serving | None
    warnings: tuple[str, ...]

    @property
    def layer(self) -> LayerShape:
        """The layer's sizes."""
        return self.model.shape.layer

    @property
    def mha_ratio(self) -> float:
        """How many times larger the cache would be with a key and value head per query head."""
        return self.mha_cache_bytes / self.cache_bytes

    def to_json(self) -> dict[str, Any]:
        """Every number, exact, with its unit in its name."""
        record = asdict(self)
        for part in (*record["kinds"], record["all_layers"]):
            for name in ("prefill", "decode"):
                flop = LayerFlop(**part[name])
                part[name] = {
                    "projection_flop": flop.projections,
                    "core_flop": flop.core,
                    "tokens": flop.tokens,
                    "flop_per_token": flop.per_token,
                    "core_share": flop.core_share,
                }
        record["model"]["variant"] = self.layer.variant
        record["mha_ratio"] = self.mha_ratio
        return record


def card(
    model: Model,
    T: int,
    dtype: str,
    *,
    rates: DeviceRates | None = None,
    memory_bytes: float | None = None,
    model_weight_bytes: int | None = None,
) -> Card:
    """The card of a model at T tokens; `memory_bytes` replaces what the device has."""
    shape = model.shape
    serving = None
    if rates is not None:
        memory = rates.memory_bytes if memory_bytes is None else memory_bytes
        serving = _serving(model, T, dtype, rates, memory, model_weight_bytes)
    return Card(
        model=model,
        T=T,
        dtype=dtype,
        kinds=tuple(_part(layer, count, T) for layer, count in shape.layers),
        all_layers=_part(shape, shape.L, T),
        biases_per_layer=biases(shape.layer),
        prefill_crossing_T=crossing_T(shape, prefill_flop),
        decode_crossing_T=crossing_T(shape, decode_flop),
        cache_bytes=cache_bytes(shape, T, dtype),
        unwindowed_cache_bytes=shape.L * cache_bytes(shape.layer, T, dtype),
        mha_cache_bytes=cache_bytes(shape.as_mha, T, dtype),
        serving=serving,
        warnings=tuple(_warnings(model, T, dtype, serving)),
    )


def _part(shape: Shape, count: int, T: int) -> Part:
    window = shape.window if isinstance(shape, LayerShape) else None
    return Part(count, window, weights(shape), prefill_flop(shape, T), decode_flop(shape, T))


def _serving(
    model: Model,
    T: int,
    dtype: str,
    rates: DeviceRates,
    memory_bytes: float | None,
    model_weight_bytes: int | None,
) -> Serving:
    shape, whole, full, sequences = model.shape, None, None, None
    held = weight_bytes(shape, dtype) if model_weight_bytes is None else model_weight_bytes
    if model_weight_bytes is not None:
        whole = decode_bound(shape, T, dtype, rates, model_weight_bytes=held)
    if memory_bytes is not None:
        sequences = sequences_that_fit(shape, T, dtype, memory_bytes=memory_bytes, held_bytes=held)
        if sequences:
            full = decode_bound(
                shape, T, dtype, rates, B=sequences, model_weight_bytes=model_weight_bytes
            )
    return Serving(
        rates=rates,
        attention=decode_bound(shape, T, dtype, rates),
        whole=whole,
        full=full,
        memory_bytes=memory_bytes,
        held_bytes=held,
        sequences=sequences,
    )


def _warnings(model: Model, T: int, dtype: str, serving: Serving | None) -> list[str]:
    """What a reader of the numbers should know, a sentence each."""
    found = warnings_about(model.shape.layer)
    if not model.shape.layer.is_causal:
        found.append("an encoder keeps no cache: cache and decode are as if it were a decoder")
    if model.note:
        found.append(model.note)
    if serving is None:
        return found
    if dtype not in serving.rates.flop_per_s:
        found.append(
            f"no {dtype} FLOP/s are known of {serving.rates.name}: the bound is memory's alone"
        )
    least = weight_bytes(model.shape, dtype)
    if serving.held_bytes < least:
        found.append(
            f"{serving.held_bytes / 1e9:.3g} GB of weights is less than the attention layers "
            f"alone have in {dtype}: {least / 1e9:.4g} GB"
        )
    return found
