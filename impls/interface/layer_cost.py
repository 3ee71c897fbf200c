"""What an attention layer costs: weights, FLOP, cache and crossing points, exact. No torch here.

A layer is its projections and its core. Projections cost 2 FLOP a weight and token; the core is
the problem that `cost` counts. Prefill computes T tokens at once, each seeing those before it (or
all, in an encoder). Decode computes one token that sees T keys, its own among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from impls.interface import cost
from impls.interface.layer_shape import LayerShape, Shape
from impls.interface.problem import DTYPE_BYTES, Problem

# Beyond this no length is looked for: the core never reaches the projections.
LONGEST_T = 2**40


@dataclass(frozen=True)
class LayerFlop:
    """The FLOP of projections and core; `tokens` tokens are computed by them."""

    projections: int
    core: int
    tokens: int

    @property
    def total(self) -> int:
        """Projections and core."""
        return self.projections + self.core

    @property
    def per_token(self) -> float:
        """The total for each token, a mean where tokens see different numbers of keys."""
        return self.total / self.tokens

    @property
    def core_share(self) -> float:
        """The core's part of the total."""
        return self.core / self.total


def weights(shape: Shape) -> int:
    """The weights of the matrices of a layer, or of all layers of a stack; no biases or norms.

    Heads: 2·d_model·d_h·(H + H_kv). Latent (DeepSeek-V2, 2024, appendix C): queries through d_c_q,
    or from d_model directly; the latent and the shared rotary key; the two matrices that make each
    head's key and value of the latent; the output.

    >>> weights(LayerShape(d_model=512, H=8))
    1048576
    """
    return sum(count * _weights(layer) for layer, count in shape.layers)


def _weights(layer: LayerShape) -> int:
    d_model, H, d_h, of = layer.d_model, layer.H, layer.d_h, layer.latent
    if of is None:
        return cost.parameters(d_model=d_model, H=H, d_h=d_h, H_kv=layer.H_kv)
    query = H * (d_h + of.d_R)
    queries = d_model * query if of.d_c_q is None else of.d_c_q * (d_model + query)
    down = d_model * (of.d_c + of.d_R)
    up = of.d_c * H * (d_h + of.d_v)
    return queries + down + up + H * of.d_v * d_model


def biases(layer: LayerShape) -> int:
    """The biases of one layer that has one in each of its projections; 0 for a latent layer.

    Q: H·d_h. K and V: 2·H_kv·d_h. Output: d_model.
    """
    if layer.latent is not None:
        return 0
    return layer.d_h * (layer.H + 2 * layer.H_kv) + layer.d_model


def prefill_problem(layer: LayerShape, T: int, dtype: str = "float16", B: int = 1) -> Problem:
    """The core of T tokens at once: q, k and v as the kernel gets them.

    A latent layer is expanded: every head has keys of d_h + d_R and values of d_v.
    """
    of = layer.latent
    return Problem(
        B=B,
        T_q=T,
        T_kv=T,
        H=layer.H,
        H_kv=layer.H_kv,
        d_h=layer.d_h + (of.d_R if of else 0),
        d_v=of.d_v if of else layer.d_h,
        dtype=dtype,
        causal=layer.is_causal,
        window=layer.window,
    )


def decode_problem(layer: LayerShape, T: int, dtype: str = "float16", B: int = 1) -> Problem:
    """The core of one token that sees T keys.

    A latent layer is absorbed: the up-projection of keys is applied to the query, that of values
    to the result, so that all heads read one key of d_c + d_R whose first d_c are the value too
    (DeepSeek-V2, 2024, section 2.1.2). The problem names K and V apart; they are one in memory.
    """
    of = layer.latent
    return Problem(
        B=B,
        T_q=1,
        T_kv=T,
        H=layer.H,
        H_kv=1 if of else layer.H_kv,
        d_h=of.d_c + of.d_R if of else layer.d_h,
        d_v=of.d_c if of else layer.d_h,
        dtype=dtype,
        causal=True,
        window=layer.window,
    )


def prefill_flop(shape: Shape, T: int) -> LayerFlop:
    """The FLOP of T tokens of one sequence, computed at once through all layers.

    >>> prefill_flop(LayerShape(d_model=512, H=8, is_causal=False), 1024).core_share
    0.5
    """
    projections = 2 * T * weights(shape)
    core = sum(count * cost.flop(prefill_problem(layer, T)) for layer, count in shape.layers)
    return LayerFlop(projections, core, tokens=T)


def decode_flop(shape: Shape, T: int) -> LayerFlop:
    """The FLOP of one token that sees T keys, through all layers.

    An absorbed latent layer multiplies by the two up-projections once for its one token, as an
    expanded one does for a token's key and value: its projections cost the same.
    """
    projections = 2 * weights(shape)
    core = sum(count * cost.flop(decode_problem(layer, T)) for layer, count in shape.layers)
    return LayerFlop(projections, core, tokens=1)


def crossing_T(shape: Shape, flop: Callable[[Shape, int], LayerFlop]) -> int | None:
    """The least T at which the core costs what the projections cost; None if it never does.

    `flop` is `prefill_flop` or `decode_flop`. For heads, full: d_model·(1 + H_kv/H), which is
    2·d_model for MHA whatever d_h is; causal twice that less one, a token seeing (T + 1)/2 keys on
    average. A window may keep the core below for good.

    >>> crossing_T(LayerShape(d_model=512, H=8), prefill_flop)
    2047
    """

    def is_beyond(T: int) -> bool:
        found = flop(shape, T)
        return found.core >= found.projections

    # Keys a token sees on average never fall with T, so the answer is found by halving.
    below, above = 0, 1
    while not is_beyond(above):
        below, above = above, 2 * above
        if above > LONGEST_T:
            return None
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if is_beyond(middle) else (middle, above)
    return above


def cache_bytes(shape: Shape, T: int, dtype: str, B: int = 1) -> int:
    """The bytes to be kept of T tokens: of all, in layers with a window of the last w.

    Heads: 2·H_kv·d_h elements a token and layer. Latent: d_c + d_R, whatever H is.

    >>> 80 * cache_bytes(LayerShape(d_model=8192, H=64, H_kv=8), 4096, "float16")
    1342177280
    """
    return sum(count * _layer_cache_bytes(layer, T, dtype, B) for layer, count in shape.layers)


def weight_bytes(shape: Shape, dtype: str) -> int:
    """The bytes of the attention weights of a layer, or of all layers of a stack."""
    return weights(shape) * DTYPE_BYTES[dtype]


def _layer_cache_bytes(layer: LayerShape, T: int, dtype: str, B: int) -> int:
    kept = T if layer.window is None else min(T, layer.window)
    of = layer.latent
    if of is not None:
        return cost.latent_cache_bytes(L=1, T=kept, d_c=of.d_c, d_R=of.d_R, dtype=dtype, B=B)
    return cost.kv_cache_bytes(L=1, T=kept, H_kv=layer.H_kv, d_h=layer.d_h, dtype=dtype, B=B)
