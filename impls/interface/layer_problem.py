"""Parts of an attention layer as problems: the core's sizes, and what is computed around it."""

from __future__ import annotations

from impls.interface.around import Around
from impls.interface.layer_cost import decode_problem, prefill_problem
from impls.interface.layer_shape import LayerShape
from impls.interface.problem import Problem


def prefill_part(
    shape: LayerShape,
    part: str,
    *,
    B: int,
    T: int,
    dtype: str,
    d_ff: int = 0,
    dropout: float = 0.0,
) -> Problem:
    """A part of a layer for T tokens at once; a latent layer is expanded.

    q, k and v lie as the projections leave them: (B, T, H, d_h) in memory, but of a latent layer,
    whose rotary parts are joined to them, (B, H, T, d_h).

    >>> prefill_part(LayerShape(d_model=512, H=8), "layer", B=1, T=64, dtype="float32").id
    'B=1,T=64,H=8,d_h=64,float32,causal,bthd,layer,d_model=512'

    Raises:
        ValueError: the part is not known, or lacks the sizes it needs; see `Around`.
    """
    around = Around(part, shape, d_ff=d_ff, dropout=dropout)
    layout = "bthd" if shape.latent is None else "bhtd"
    return prefill_problem(shape, T, dtype, B).with_(layout=layout, around=around)


def decode_part(
    shape: LayerShape, part: str, *, B: int, T_kv: int, dtype: str, d_ff: int = 0
) -> Problem:
    """A part of a layer for one token that sees T_kv keys, T_kv − 1 of them in a cache.

    A latent layer is absorbed: it reads the cached latents themselves.

    Raises:
        ValueError: the layer is not causal, or the part is not known or lacks a size.
    """
    if not shape.is_causal:
        raise ValueError("a layer that is not causal does not decode: its tokens see those to come")
    around = Around(part, shape, d_ff=d_ff, is_absorbed=shape.latent is not None)
    return decode_problem(shape, T_kv, dtype, B).with_(around=around)


def core_of(problem: Problem) -> Problem:
    """The attention inside a part of a layer, as a problem of its own."""
    return problem.with_(around=None)
