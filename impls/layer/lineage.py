"""What attention was before, and what it is beside softmax(scale · q kᵀ) v: other operators.

They compute something else: each is checked against its own formula and may be timed beside
softmax attention, never ranked with it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import torch

import impls.layer
from impls.interface.masking import causal_mask, dead_rows

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Operator:
    """An attention that is not softmax(scale · q kᵀ) v, with the same inputs and output.

    q (B, H, T_q, d_h), k (B, H, T_kv, d_h), v (B, H, T_kv, d_v) → (B, H, T_q, d_v). A causal query
    i sees keys j ≤ i + T_kv − T_q; one that sees none has output 0.

    Attributes:
        name: how it is asked for.
        computes: its formula in one line, which is not that of softmax attention.
        source: the paper and section.
        forward: `forward(q, k, v, *, causal=False, **weights) -> out`, what is timed.
        formula: the same arguments, query by query in float64: what `forward` is held to.
        weights: `weights(d_h, generator) -> {name: tensor}`, what it would have learned, drawn.
    """

    name: str
    computes: str
    source: str
    forward: Callable[..., torch.Tensor]
    formula: Callable[..., torch.Tensor]
    weights: Callable[[int, torch.Generator], Weights]


@functools.cache
def operators() -> dict[str, Operator]:
    """Every operator that a module of this folder declares, by name."""
    found = {}
    for module_info in pkgutil.iter_modules(impls.layer.__path__):
        module = importlib.import_module(f"impls.layer.{module_info.name}")
        found |= {one.name: one for one in vars(module).values() if isinstance(one, Operator)}
    return found


def softmax_of(scores: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """The values weighted by the softmax of scores (B, H, T_q, T_kv) → (B, H, T_q, d_v)."""
    if not causal:
        return torch.softmax(scores, -1).to(v.dtype) @ v
    T_q, T_kv = scores.shape[-2:]
    visible = causal_mask(T_q, T_kv, None, scores.device)
    dead = dead_rows(visible)
    scores = scores.masked_fill(~visible, -torch.inf).masked_fill(dead, 0.0)
    return (torch.softmax(scores, -1).to(v.dtype) @ v).masked_fill(dead, 0.0)


def row_by_row(
    weights_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
) -> torch.Tensor:
    """The formula of an operator in float64, one query at a time, over the keys that it sees.

    `weights_of(query (B, H, 1, d_h), keys (B, H, n, d_h))` is (B, H, n), of sum 1.
    """
    q, k, v = q.double(), k.double(), v.double()
    T_q, T_kv = q.shape[2], k.shape[2]
    rows = []
    for i in range(T_q):
        seen = max(0, i + 1 + T_kv - T_q) if causal else T_kv
        weights = weights_of(q[:, :, i : i + 1], k[:, :, :seen])
        rows.append((weights[..., None] * v[:, :, :seen]).sum(2))
    return torch.stack(rows, 2)
