"""Which rows, keys and heads of a problem are checked: all, or a stated sample of a large one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from impls.interface.problem import Problem

MAX_PAIRS = 1 << 22
_MAX_HEADS = 8
_MAX_ROWS = 256
_EDGE = 16


@dataclass(frozen=True)
class Sample:
    """Indices of what is checked, on the inputs' device.

    out, lse and dq: every pair of a head in (b, h) and a query in `rows`. dk and dv: every pair of
    a kv head in (b_kv, h_kv) and a key in `keys`, each with all the queries that read it.
    """

    b: torch.Tensor
    h: torch.Tensor
    rows: torch.Tensor
    b_kv: torch.Tensor
    h_kv: torch.Tensor
    keys: torch.Tensor
    words: str
    is_all: bool


def choose(problem: Problem, device: str | torch.device) -> Sample:
    """Everything up to 2²² pairs B·H·T_q·T_kv; beyond, a fixed sample with both ends in it.

    2²² pairs take float64 about a third of a second on one core. The sample has up to 8 (batch,
    head) pairs evenly spread, first and last among them, and of each up to 256 queries (never under
    32): the first and last 16, where masks and tails go wrong, and the rest at random. Keys
    likewise. dk and dv cost all queries of their kv head, so of kv heads there are only as many as
    keep that under 2²² pairs, at least the last one.
    """
    heads, kv_heads = problem.B * problem.H, problem.B * problem.H_kv
    group = problem.H // problem.H_kv
    is_all = heads * problem.T_q * problem.T_kv <= MAX_PAIRS
    if is_all:
        head, kv_head = torch.arange(heads), torch.arange(kv_heads)
        rows, keys = torch.arange(problem.T_q), torch.arange(problem.T_kv)
        words = "all"
    else:
        head = _spread(heads, _MAX_HEADS)
        affordable = MAX_PAIRS // (group * problem.T_q * problem.T_kv)
        kv_head = _spread(kv_heads, max(1, min(_MAX_HEADS, affordable)))
        rows = _edges_and_some(problem.T_q, MAX_PAIRS // (len(head) * problem.T_kv))
        keys = _edges_and_some(problem.T_kv, _MAX_ROWS)
        words = f"sampled {len(rows)} of {problem.T_q}"
        if len(head) < heads:
            words += f" rows in {len(head)} of {heads} heads"
    return Sample(
        b=(head // problem.H).to(device),
        h=(head % problem.H).to(device),
        rows=rows.to(device),
        b_kv=(kv_head // problem.H_kv).to(device),
        h_kv=(kv_head % problem.H_kv).to(device),
        keys=keys.to(device),
        words=words,
        is_all=is_all,
    )


def _spread(count: int, at_most: int) -> torch.Tensor:
    """Up to `at_most` of 0 … count − 1, evenly spread; the last one is always among them."""
    if count <= at_most:
        return torch.arange(count)
    if at_most == 1:
        return torch.tensor([count - 1])
    return torch.linspace(0, count - 1, at_most, dtype=torch.float64).round().long()


def _edges_and_some(count: int, affordable: int) -> torch.Tensor:
    wanted = max(2 * _EDGE, min(_MAX_ROWS, affordable))
    if count <= wanted:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(count)
    inside = torch.randperm(count - 2 * _EDGE, generator=generator) + _EDGE
    edges = torch.cat([torch.arange(_EDGE), torch.arange(count - _EDGE, count)])
    return torch.cat([edges, inside[: wanted - 2 * _EDGE]]).sort().values
