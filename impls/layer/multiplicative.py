"""Multiplicative attention: a matrix between query and key, no scale (Luong et al. 2015)."""

from __future__ import annotations

import torch

from impls.layer.lineage import Operator, Weights, row_by_row, softmax_of


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    W: torch.Tensor,
    causal: bool = False,
) -> torch.Tensor:
    """The values by the softmax over j of q_iᵀ W k_j, unscaled; W (d_h, d_h) of all heads."""
    return softmax_of((q @ W) @ k.mT, v, causal=causal)


def formula(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, **weights
) -> torch.Tensor:
    """The same, query by query in float64."""
    W = weights["W"].double()

    def weights_of(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.softmax((query * (keys @ W.T)).sum(-1), -1)

    return row_by_row(weights_of, q, k, v, causal=causal)


def _weights(d_h: int, generator: torch.Generator) -> Weights:
    # 1/d_h gives scores a variance of 1, as the scale of dot-product attention does.
    return {"W": torch.randn(d_h, d_h, generator=generator) / d_h}


multiplicative = Operator(
    name="multiplicative",
    computes="softmax over j of q_iᵀ W k_j, times v",
    source='Luong, Pham and Manning 2015, section 3.1, "general"; https://arxiv.org/abs/1508.04025',
    forward=forward,
    formula=formula,
    weights=_weights,
)
