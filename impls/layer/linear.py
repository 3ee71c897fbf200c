"""Linear attention: a kernel in place of the softmax, so that a state stands for all keys seen.

Katharopoulos et al. 2020, "Transformers are RNNs", https://arxiv.org/abs/2006.16236.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from impls.interface.cost import Cost, compulsory_bytes, visible_pairs
from impls.interface.problem import Problem
from impls.layer.lineage import Operator, Weights, computed_by, queries_with_keys, row_by_row

# Within a chunk pairs are computed, T · CHUNK of them; between chunks the state stands for them.
CHUNK = 64


class State(NamedTuple):
    """All that is kept of the keys seen, however many (section 3.4).

    S (B, H, d_h, d_v) is the sum of φ(k_j) v_jᵀ, z (B, H, d_h) that of φ(k_j).
    """

    S: torch.Tensor
    z: torch.Tensor


def feature_map(x: torch.Tensor) -> torch.Tensor:
    """φ(x) = elu(x) + 1, above 0 everywhere (section 3.2.1). float32 for 16-bit tensors."""
    return F.elu(x.to(torch.promote_types(x.dtype, torch.float32))) + 1.0


def recurrent(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False
) -> torch.Tensor:
    """Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j), when causal one token after another.

    Section 3.4. Not causal it is one product with the state of all keys in either form (3.2).
    """
    features, keys = feature_map(q), feature_map(k)
    values = v.to(keys.dtype)
    if not causal:
        return _read(features, _seen(keys, values)).to(q.dtype)
    T_q, T_kv = q.shape[2], k.shape[2]
    state = _seen(keys[:, :, : max(0, T_kv - T_q)], values[:, :, : max(0, T_kv - T_q)])
    rows = [_no_keys(q, v)]
    for i in range(max(0, T_q - T_kv), T_q):
        j = i + T_kv - T_q
        state = step(state, keys[:, :, j], values[:, :, j])
        rows.append(_read(features[:, :, i : i + 1], state).to(q.dtype))
    return torch.cat(rows, 2)


def step(state: State, key: torch.Tensor, value: torch.Tensor) -> State:
    """The state after one more token: φ(k) (B, H, d_h) and v (B, H, d_v)."""
    return State(state.S + key[..., :, None] * value[..., None, :], state.z + key)


def chunked(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False
) -> torch.Tensor:
    """The same by chunks of 64 queries: pairs within a chunk, the state for all before it."""
    features, keys = feature_map(q), feature_map(k)
    values = v.to(keys.dtype)
    if not causal:
        return _read(features, _seen(keys, values)).to(q.dtype)
    T_q, T_kv = q.shape[2], k.shape[2]
    start = max(0, T_kv - T_q)
    state = _seen(keys[:, :, :start], values[:, :, :start])
    rows = [_no_keys(q, v)]
    for i in range(max(0, T_q - T_kv), T_q, CHUNK):
        some = features[:, :, i : i + CHUNK]
        j = i + T_kv - T_q
        near, near_values = keys[:, :, j : j + CHUNK], values[:, :, j : j + CHUNK]
        pairs = (some @ near.mT).tril()
        sums = some @ state.S + pairs @ near_values
        total = (some @ state.z[..., None]) + pairs.sum(-1, keepdim=True)
        rows.append((sums / total).to(q.dtype))
        added = _seen(near, near_values)
        state = State(state.S + added.S, state.z + added.z)
    return torch.cat(rows, 2)


def formula(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """The weights φ(q_i)·φ(k_j) divided by their sum, query by query."""

    def weights_of(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        similarity = (query * keys).sum(-1)
        return similarity / similarity.sum(-1, keepdim=True)

    features = feature_map(q), feature_map(k)
    return row_by_row(weights_of, *features, v, causal=causal, rows=rows)


def cost(problem: Problem) -> Cost:
    """The counts of the recurrence: no term in T_q·T_kv, and causal saves nothing.

    Each key adds d_h·d_v products to the state and each query reads it; the sum of the weights, one
    column in d_v + 1, is not counted, as a softmax's is not. φ takes an exponential an element.
    """
    heads, d_h = problem.B * problem.H, problem.d_h
    tokens = queries_with_keys(problem) + problem.T_kv
    return Cost(
        pairs=visible_pairs(problem),
        flop=2 * heads * tokens * d_h * problem.d_v,
        flop_convention="exact",
        exp=heads * tokens * d_h,
        compulsory_bytes=compulsory_bytes(problem),
    )


def _seen(keys: torch.Tensor, values: torch.Tensor) -> State:
    return State(keys.mT @ values, keys.sum(2))


def _read(features: torch.Tensor, state: State) -> torch.Tensor:
    return (features @ state.S) / (features @ state.z[..., None])


def _no_keys(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The outputs of the first T_q − T_kv queries, which see no key: 0."""
    B, H, T_q, _ = q.shape
    return q.new_zeros(B, H, max(0, T_q - v.shape[2]), v.shape[3])


def _weights(d_h: int, generator: torch.Generator) -> Weights:
    return {}


linear = Operator(
    name="linear",
    computes="Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = elu(x) + 1",
    source="Katharopoulos et al. 2020, sections 3.2 to 3.4; https://arxiv.org/abs/2006.16236",
    formula=formula,
    weights=_weights,
    cost=cost,
)
linear_chunked = computed_by(linear, "linear_chunked", chunked)
linear_recurrent = computed_by(linear, "linear_recurrent", recurrent)
