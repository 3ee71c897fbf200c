"""Layers and inputs for tests of the layer: float64, seeded, small."""

from __future__ import annotations

from typing import Any

import torch

from impls.interface.attention import Implementation, reasons_against
from impls.interface.layer_cost import decode_problem
from impls.interface.layer_shape import Latent, LayerShape
from impls.interface.registry import implementations
from impls.layer.attention_layer import AttentionLayer
from impls.layer.latent_attention import LatentAttention

SHAPES = {
    "single-head": LayerShape(d_model=24, H=1),
    "MHA": LayerShape(d_model=32, H=2),
    "GQA": LayerShape(d_model=40, H=6, H_kv=2, d_h=16),
    "MQA": LayerShape(d_model=32, H=4, H_kv=1, d_h=18),
    "window": LayerShape(d_model=32, H=4, H_kv=2, d_h=16, window=4),
    "MLA": LayerShape(d_model=32, H=3, d_h=16, latent=Latent(d_c=10, d_R=4, d_v=12, d_c_q=14)),
    "MLA, full queries": LayerShape(
        d_model=24, H=2, d_h=16, latent=Latent(d_c=12, d_R=6, d_v=16), window=5
    ),
}


def tokens(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to the rounding of float64."""
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0.0)


def seeded(layer: Any, dtype: torch.dtype = torch.float64) -> Any:
    """The layer with every parameter drawn anew, biases too, in this dtype."""
    layer = layer.to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            parameter.copy_(drawn * parameter.shape[-1] ** -0.5)
    return layer


def layer_of(
    shape: LayerShape,
    implementation: str | Implementation = "naive",
    dtype: torch.dtype = torch.float64,
    **options: Any,
) -> Any:
    """A layer of either kind with drawn weights; latent ones always have rotary."""
    if shape.latent is not None:
        return seeded(LatentAttention(shape, implementation, **options), dtype)
    return seeded(AttentionLayer(shape, implementation, **options), dtype)


def decoding() -> list[Implementation]:
    """Every registered implementation that has nothing against a decode step on a CPU."""
    problem = decode_problem(SHAPES["GQA"], 9, "float32")
    return [i for i in implementations().values() if not reasons_against(i, problem, "cpu")]
