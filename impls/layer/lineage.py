"""What attention was before, and what it is beside softmax(scale · q kᵀ) v: other operators.

They compute something else: each is checked against its own formula and may be timed beside
softmax attention, never ranked with it.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import impls.layer
from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.interface.cost import Cost
from impls.interface.inputs import TORCH_DTYPES
from impls.interface.masking import causal_mask, dead_rows
from impls.interface.problem import DTYPES, Problem

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Operator:
    """An attention that is not softmax(scale · q kᵀ) v, with the same inputs and output.

    q (B, H, T_q, d_h), k (B, H, T_kv, d_h), v (B, H, T_kv, d_v) → (B, H, T_q, d_v), a weighted
    mean of the values by the same rule in every head. A causal query i sees keys
    j ≤ i + T_kv − T_q; one that sees none has output 0.

    Attributes:
        name: the `operator` of its problems.
        computes: its formula in one line, which is not that of softmax attention.
        source: the paper and section.
        formula: `formula(q, k, v, *, causal=False, rows=None, **weights) -> out`, query by query
            in the precision of its arguments: in float64 what implementations are held to.
            `rows` (rows,) are the queries asked for, None all.
        weights: `weights(d_h, generator) -> {name: tensor}`, what it would have learned, drawn.
        cost: `cost(problem) -> Cost` of the forward, in exact integers.
    """

    name: str
    computes: str
    source: str
    formula: Callable[..., torch.Tensor]
    weights: Callable[[int, torch.Generator], Weights]
    cost: Callable[[Problem], Cost]

    def seeded_weights(self, d_h: int, dtype: torch.dtype, device: torch.device | str) -> Weights:
        """The weights that it is measured with, a function of d_h alone but for rounding."""
        drawn = self.weights(d_h, torch.Generator().manual_seed(0))
        return {name: weight.to(device, dtype) for name, weight in drawn.items()}


def computed_by(
    operator: Operator,
    name: str,
    forward: Callable[..., torch.Tensor],
    scratch_bytes: Callable[[Problem, str], int] | None = None,
) -> Implementation:
    """The implementation `name` of an operator, with its seeded weights, forward alone.

    `forward(q, k, v, *, causal=False, **weights) -> out`. In a cell the weights are drawn outside
    the clock, as they are parameters.
    """

    def prepare(problem: Problem, device: str) -> Callable[..., torch.Tensor]:
        weights = operator.seeded_weights(problem.d_h, TORCH_DTYPES[problem.dtype], device)
        return partial(forward, causal=problem.causal, **weights)

    def unprepared(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        /,
        *,
        causal: bool = False,
        **others: Any,
    ) -> torch.Tensor:
        if reasons := [f"{n} is not supported" for n, value in others.items() if value is not None]:
            raise Unsupported(*reasons)
        weights = operator.seeded_weights(q.shape[-1], q.dtype, q.device)
        return forward(q, k, v, causal=causal, **weights)

    return Implementation(
        name=name,
        forward=unprepared,
        summary=f"another operator than softmax attention: {operator.computes}",
        capabilities=Capabilities(
            dtypes=(*DTYPES, "float64"), passes=("forward",), needs=(), gqa=False, window=False
        ),
        prepare=prepare,
        scratch_bytes=scratch_bytes,
        operator=operator.name,
    )


@functools.cache
def operators() -> dict[str, Operator]:
    """Every operator that a module of this folder declares, by name."""
    found = {}
    for module_info in pkgutil.iter_modules(impls.layer.__path__):
        module = importlib.import_module(f"impls.layer.{module_info.name}")
        found |= {one.name: one for one in vars(module).values() if isinstance(one, Operator)}
    return found


def operator_of(problem: Problem) -> Operator:
    """The operator that the problem names.

    Raises:
        ValueError: there is none of that name; all are told.
    """
    known = operators()
    if problem.operator in known:
        return known[problem.operator]
    close = difflib.get_close_matches(problem.operator, known, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise ValueError(
        f'no operator "{problem.operator}": {hint}known beside softmax: {", ".join(known)}'
    )


def queries_with_keys(problem: Problem) -> int:
    """The queries of one head that see a key: the last min(T_q, T_kv) of a causal problem."""
    return min(problem.T_q, problem.T_kv) if problem.causal else problem.T_q


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
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """The formula of an operator, one query at a time, over the keys that it sees.

    `weights_of(query (B, H, 1, d_h), keys (B, H, n, d_h))` is (B, H, n), of sum 1; what it takes of
    one query or key alone may have been done to q and k before. `rows` are the queries computed,
    None all.
    """
    T_q, T_kv = q.shape[2], k.shape[2]
    found = []
    for i in range(T_q) if rows is None else rows.tolist():
        seen = max(0, i + 1 + T_kv - T_q) if causal else T_kv
        weights = weights_of(q[:, :, i : i + 1], k[:, :, :seen])
        found.append((weights[..., None] * v[:, :, :seen]).sum(2).to(v.dtype))
    return torch.stack(found, 2)
