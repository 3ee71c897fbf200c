"""Multiplicative attention: a matrix between query and key, no scale (Luong et al. 2015)."""

from __future__ import annotations

import torch

from impls.interface.cost import Cost, compulsory_bytes, visible_pairs
from impls.interface.problem import DTYPE_BYTES, Problem
from impls.interface.unfused import scratch_bytes
from impls.layer.lineage import (
    Operator,
    Weights,
    computed_by,
    queries_with_keys,
    row_by_row,
    softmax_of,
)


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
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    W: torch.Tensor,
    causal: bool = False,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same, query by query."""

    def weights_of(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.softmax((query * keys).sum(-1), -1)

    return row_by_row(weights_of, q, k @ W.T, v, causal=causal, rows=rows)


def cost(problem: Problem) -> Cost:
    """The counts of the forward: those of dot products, and a matrix for each query before."""
    pairs, heads, d_h = visible_pairs(problem), problem.B * problem.H, problem.d_h
    flop = 2 * pairs * (d_h + problem.d_v) + 2 * queries_with_keys(problem) * d_h * d_h
    return Cost(
        pairs=pairs,
        flop=heads * flop,
        flop_convention="exact",
        exp=heads * pairs,
        compulsory_bytes=compulsory_bytes(problem) + d_h * d_h * DTYPE_BYTES[problem.dtype],
    )


def _weights(d_h: int, generator: torch.Generator) -> Weights:
    # 1/d_h gives scores a variance of 1, as the scale of dot-product attention does.
    return {"W": torch.randn(d_h, d_h, generator=generator) / d_h}


multiplicative = Operator(
    name="multiplicative",
    computes="softmax over j of q_iᵀ W k_j, times v",
    source='Luong, Pham and Manning 2015, section 3.1, "general"; https://arxiv.org/abs/1508.04025',
    formula=formula,
    weights=_weights,
    cost=cost,
)
plainly = computed_by(multiplicative, "multiplicative", forward, scratch_bytes)
