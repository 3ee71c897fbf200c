"""Additive attention: a small network scores each pair (Bahdanau, Cho and Bengio 2015)."""

from __future__ import annotations

import torch

from impls.layer.lineage import Operator, Weights, row_by_row, softmax_of

# The hidden layer of every pair, (T_q, T_kv, d_h) a head, is what fills memory: 64 MiB at a time.
HIDDEN_ELEMENTS = 1 << 24


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    W_q: torch.Tensor,
    W_k: torch.Tensor,
    w: torch.Tensor,
    causal: bool = False,
) -> torch.Tensor:
    """The values by the softmax over j of w·tanh(W_q q_i + W_k k_j).

    W_q and W_k (d_h, d_h), w (d_h,); the heads share them.
    """
    hidden_q, hidden_k = q @ W_q.T, k @ W_k.T
    step = max(1, HIDDEN_ELEMENTS // max(1, hidden_k.numel()))
    scores = [
        torch.tanh(some[:, :, :, None] + hidden_k[:, :, None]) @ w
        for some in hidden_q.split(step, 2)
    ]
    return softmax_of(torch.cat(scores, 2), v, causal=causal)


def formula(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, **weights
) -> torch.Tensor:
    """The same, query by query in float64."""
    W_q, W_k, w = (weights[name].double() for name in ("W_q", "W_k", "w"))

    def weights_of(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.softmax((torch.tanh(query @ W_q.T + keys @ W_k.T) * w).sum(-1), -1)

    return row_by_row(weights_of, q, k, v, causal=causal)


def _weights(d_h: int, generator: torch.Generator) -> Weights:
    matrices = torch.randn(2, d_h, d_h, generator=generator) * d_h**-0.5
    return {"W_q": matrices[0], "W_k": matrices[1], "w": torch.randn(d_h, generator=generator)}


additive = Operator(
    name="additive",
    computes="softmax over j of w·tanh(W_q q_i + W_k k_j), times v",
    source="Bahdanau, Cho and Bengio 2015, appendix A.1.2; https://arxiv.org/abs/1409.0473",
    forward=forward,
    formula=formula,
    weights=_weights,
)
