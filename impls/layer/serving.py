"""What serving a model's attention asks of a device: time a token at least, and memory.

Bounds, not predictions: every byte once, every FLOP at the full rate, nothing else in the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from impls.interface.device_rates import DeviceRates
from impls.interface.layer_cost import cache_bytes, decode_flop, prefill_flop, weight_bytes
from impls.interface.layer_shape import ModelShape


@dataclass(frozen=True)
class Bound:
    """The least time of one step over `tokens` tokens.

    Attributes:
        weight_bytes, cache_bytes: read or written once in the step.
        binds: "memory" or "compute"; memory where the FLOP rate of the dtype is unknown.
    """

    time_s: float
    tokens: int
    weight_bytes: int
    cache_bytes: int
    flop: int
    binds: str

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all sequences together, at most."""
        return self.tokens / self.time_s


def decode_bound(
    shape: ModelShape,
    T: int,
    dtype: str,
    rates: DeviceRates,
    *,
    B: int = 1,
    model_weight_bytes: int | None = None,
) -> Bound:
    """The least time in which B sequences gain their T-th token each.

    The weights are read once for all sequences; of each cache T − 1 tokens are read and one is
    written. Weights are those of the attention layers, or `model_weight_bytes` of the whole model;
    FLOP are the attention's either way. Activations are taken to stay on the chip.
    """
    read = weight_bytes(shape, dtype) if model_weight_bytes is None else model_weight_bytes
    flop = B * decode_flop(shape, T).total
    return _bound(rates, dtype, B, read, cache_bytes(shape, T, dtype, B), flop)


def prefill_bound(shape: ModelShape, T: int, dtype: str, rates: DeviceRates) -> Bound | None:
    """The least time for the attention layers over one prompt of T tokens.

    None where the FLOP rate of the dtype is unknown: memory alone would say nothing.
    """
    if dtype not in rates.flop_per_s:
        return None
    flop = prefill_flop(shape, T).total
    return _bound(rates, dtype, T, weight_bytes(shape, dtype), cache_bytes(shape, T, dtype), flop)


def sequences_that_fit(
    shape: ModelShape, T: int, dtype: str, *, memory_bytes: float, held_bytes: int
) -> int:
    """How many sequences of T tokens fit into a memory beside `held_bytes` of weights."""
    return max(0, math.floor((memory_bytes - held_bytes) / cache_bytes(shape, T, dtype)))


def devices_for(
    shape: ModelShape,
    T: int,
    dtype: str,
    *,
    requests: int,
    memory_bytes: float,
    held_bytes: int,
) -> int:
    """The fewest devices whose memory together holds the weights once and a cache a request.

    Memory alone: a key head or a latent that several devices must each hold is counted once.
    """
    return math.ceil((held_bytes + requests * cache_bytes(shape, T, dtype)) / memory_bytes)


def _bound(
    rates: DeviceRates, dtype: str, tokens: int, weight: int, cache: int, flop: int
) -> Bound:
    memory_s = (weight + cache) / rates.bytes_per_s
    rate = rates.flop_per_s.get(dtype)
    compute_s = 0.0 if rate is None else flop / rate
    return Bound(
        time_s=max(memory_s, compute_s),
        tokens=tokens,
        weight_bytes=weight,
        cache_bytes=cache,
        flop=flop,
        binds="memory" if memory_s >= compute_s else "compute",
    )
