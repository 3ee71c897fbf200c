"""Additive attention: a small network scores each pair (Bahdanau, Cho and Bengio 2015)."""

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
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    W_q: torch.Tensor,
    W_k: torch.Tensor,
    w: torch.Tensor,
    causal: bool = False,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same, query by query."""

    def weights_of(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.softmax((torch.tanh(query + keys) * w).sum(-1), -1)

    return row_by_row(weights_of, q @ W_q.T, k @ W_k.T, v, causal=causal, rows=rows)


def cost(problem: Problem) -> Cost:
    """The counts of the forward; a tanh is counted with the exponentials, as it takes one.

    A pair takes d_h additions, d_h multiply-adds with w and d_v with v; before that each query and
    key is multiplied by a matrix.
    """
    pairs, heads, d_h = visible_pairs(problem), problem.B * problem.H, problem.d_h
    projected = queries_with_keys(problem) + problem.T_kv
    flop = pairs * (3 * d_h + 2 * problem.d_v) + 2 * projected * d_h * d_h
    weight_bytes = (2 * d_h + 1) * d_h * DTYPE_BYTES[problem.dtype]
    return Cost(
        pairs=pairs,
        flop=heads * flop,
        flop_convention="exact",
        exp=heads * pairs * (d_h + 1),
        compulsory_bytes=compulsory_bytes(problem) + weight_bytes,
    )


def _weights(d_h: int, generator: torch.Generator) -> Weights:
    matrices = torch.randn(2, d_h, d_h, generator=generator) * d_h**-0.5
    return {"W_q": matrices[0], "W_k": matrices[1], "w": torch.randn(d_h, generator=generator)}


def _scratch_bytes(problem: Problem, pass_: str) -> int:
    """The scores as without fusion, and the hidden layer before and after its tanh."""
    hidden = problem.B * problem.H * problem.T_kv * problem.d_h * problem.T_q
    hidden = min(hidden, max(HIDDEN_ELEMENTS, hidden // max(1, problem.T_q)))
    return scratch_bytes(problem, pass_) + 2 * hidden * DTYPE_BYTES[problem.dtype]


additive = Operator(
    name="additive",
    computes="softmax over j of w·tanh(W_q q_i + W_k k_j), times v",
    source="Bahdanau, Cho and Bengio 2015, appendix A.1.2; https://arxiv.org/abs/1409.0473",
    formula=formula,
    weights=_weights,
    cost=cost,
)
plainly = computed_by(additive, "additive", forward, _scratch_bytes)
