"""The float64 reference of a problem, and the error of the plain formula at the problem's dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from impls.interface.formula import Rows, Terms, backward, forward, rounded, work_dtype
from impls.interface.inputs import TORCH_DTYPES, Inputs
from impls.interface.problem import Problem
from impls.interface.sample import Sample, choose
from impls.interface.sequences import seen_keys

# Elements of one chunk of scores: 16 MiB in float64, several of which live at a time.
_CHUNK = 1 << 21


@dataclass(frozen=True)
class Expected:
    """One output on the sampled rows.

    Attributes:
        value: float64, (heads, rows, d) or (heads, rows) for lse.
        naive: the plain formula with every intermediate in the problem's dtype but scores, softmax
            and accumulators, which are float32; same shape, float64.
        magnitude: how large the terms that are summed into it are, even where they cancel
            (dq of a row with one key is 0, the difference of two such terms).
    """

    value: torch.Tensor
    naive: torch.Tensor
    magnitude: float


@dataclass(frozen=True)
class Reference:
    """What every implementation is checked against, for one problem and its inputs.

    Of a variable-length batch `problem` is the joined one, whose tensors it lies in.
    `outputs` has "out", "lse" and, with gradients, "dq", "dk", "dv". `largest_score` is the
    largest absolute score of the rows, after scale and softcap.
    """

    problem: Problem
    sample: Sample
    outputs: dict[str, Expected]
    largest_score: float

    def rows_of(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The sampled part of an output, (B, H, T, …) → (heads, rows, …)."""
        at = self.sample
        if name in ("dk", "dv"):
            return tensor[at.b_kv, at.h_kv][:, at.keys]
        return tensor[at.b, at.h][:, at.rows]


def reference(
    inputs: Inputs,
    problem: Problem,
    *,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    gradients: bool = True,
) -> Reference:
    """Attention and its gradients in float64, in chunks, on the inputs' device.

    What is computed is written in `attend`; the gradients are those of sum(out · d_out). A floating
    mask is rounded to the problem's dtype, as implementations are given it. `sample` says which
    rows are in it. Compute it once per problem and check every implementation against it.

    Of a variable-length batch no key outside a query's own sequence has a weight; no mask is given.
    """
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(inputs.q.dtype)
    seen = None if problem.lengths is None else seen_keys(problem, inputs.q.device)
    problem = problem.joined
    terms = Terms(inputs, problem, mask, problem.scale if scale is None else scale, softcap, seen)
    sample = choose(problem, inputs.q.device)
    dtype = TORCH_DTYPES[problem.dtype]
    precision = torch.get_float32_matmul_precision()
    # A TF32 or bfloat16 product would loosen the tolerance of a float32 problem.
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            exact, naive, largest = _outputs(terms, sample, dtype, gradients)
    finally:
        torch.set_float32_matmul_precision(precision)
    magnitudes = _magnitudes(terms, largest)
    outputs = {n: Expected(exact[n], naive[n].double(), magnitudes[n]) for n in exact}
    return Reference(problem, sample, outputs, largest)


def _magnitudes(terms: Terms, largest_score: float) -> dict[str, float]:
    q, k, v, d_out = (
        float(t.double().square().mean().sqrt()) if t.numel() else 0.0
        for t in (terms.inputs.q, terms.inputs.k, terms.inputs.v, terms.inputs.d_out)
    )
    # d_out·v is a sum of d_v products of random sign.
    d_score = d_out * v * terms.problem.d_v**0.5 * abs(terms.scale)
    return {"out": v, "lse": 1.0 + largest_score, "dq": d_score * k, "dk": d_score * q, "dv": d_out}


_Outputs = dict[str, torch.Tensor]


def _outputs(
    terms: Terms, sample: Sample, dtype: torch.dtype, gradients: bool
) -> tuple[_Outputs, _Outputs, float]:
    """Every output on the sample: in float64, rounded to `dtype`; and the largest score."""
    heads, rows = len(sample.b), len(sample.rows)
    precisions = (torch.float64, dtype)
    found = [_zeros(terms, sample, work_dtype(d), gradients) for d in precisions]
    every_key = torch.arange(terms.problem.T_kv, device=sample.rows.device)
    largest = 0.0
    for some, those in _chunks(heads, rows, terms.problem.T_kv):
        read = Rows.of(terms, sample.b[some], sample.h[some], sample.rows[those])
        for one, at in zip(found, precisions, strict=True):
            part = read.at(work_dtype(at))
            out, lse, score = forward(terms, part, at)
            one["out"][some, those], one["lse"][some, those] = out, lse
            largest = max(largest, score)
            if not gradients:
                continue
            weights, d_scores = backward(terms, part, every_key, out, lse, at)
            one["dq"][some, those] = terms.scale * (d_scores @ part.k)
            if sample.is_all:
                _add_keys(one, some, weights, d_scores, part, terms.scale)
    for one, at in zip(found, precisions, strict=True):
        if gradients and sample.is_all:
            one |= {n: _grouped(one[n], terms.problem, at) for n in ("dk", "dv")}
    if gradients and not sample.is_all:
        _add_sampled_keys(terms, sample, found, precisions)
    exact, naive = (
        {n: t if n == "lse" else t.to(at) for n, t in one.items()}
        for one, at in zip(found, precisions, strict=True)
    )
    return exact, naive, largest


def _zeros(terms: Terms, sample: Sample, work: torch.dtype, gradients: bool) -> _Outputs:
    """Room for every output; dk and dv have a row per query head where all is computed."""
    p, (heads, rows) = terms.problem, (len(sample.b), len(sample.rows))
    kv_heads = heads if sample.is_all else len(sample.b_kv)
    shapes = {"out": (heads, rows, p.d_v), "lse": (heads, rows)}
    if gradients:
        shapes |= {
            "dq": (heads, rows, p.d_h),
            "dk": (kv_heads, len(sample.keys), p.d_h),
            "dv": (kv_heads, len(sample.keys), p.d_v),
        }
    device = sample.rows.device
    return {n: torch.zeros(shape, dtype=work, device=device) for n, shape in shapes.items()}


def _add_keys(
    one: _Outputs,
    some: slice,
    weights: torch.Tensor,
    d_scores: torch.Tensor,
    part: Rows,
    scale: float,
) -> None:
    one["dk"][some] += scale * (d_scores.transpose(1, 2) @ part.q)
    one["dv"][some] += weights.transpose(1, 2) @ part.d_out


def _grouped(of_head: torch.Tensor, problem: Problem, dtype: torch.dtype) -> torch.Tensor:
    """(B·H, T_kv, d) → (B·H_kv, T_kv, d): each query head's gradient is rounded, then they add."""
    shape = (problem.B * problem.H_kv, problem.H // problem.H_kv, *of_head.shape[1:])
    return rounded(of_head, dtype).reshape(shape).sum(1)


def _add_sampled_keys(
    terms: Terms, sample: Sample, found: list[_Outputs], precisions: tuple[torch.dtype, ...]
) -> None:
    """Add dk and dv at the sampled keys, over all queries of the heads that read them.

    lse and out of a row take every key: both precisions have them from float64.
    """
    p = terms.problem
    group = p.H // p.H_kv
    every_row = torch.arange(p.T_q, device=sample.rows.device)
    for member in range(group):
        of_head = [{n: torch.zeros_like(one[n]) for n in ("dk", "dv")} for one in found]
        for some, rows in _chunks(len(sample.b_kv), p.T_q, p.T_kv):
            b, h = sample.b_kv[some], sample.h_kv[some] * group + member
            read = Rows.of(terms, b, h, every_row[rows])
            out, lse, _ = forward(terms, read, torch.float64)
            for one, at in zip(of_head, precisions, strict=True):
                part = read.at(work_dtype(at))
                out_at, lse_at = rounded(out, at).to(part.q.dtype), lse.to(part.q.dtype)
                weights, d_scores = backward(terms, part, sample.keys, out_at, lse_at, at)
                _add_keys(one, some, weights, d_scores, part, terms.scale)
        for one, head, at in zip(found, of_head, precisions, strict=True):
            for name in ("dk", "dv"):
                one[name] += rounded(head[name], at)


def _chunks(heads: int, rows: int, T_kv: int) -> Iterator[tuple[slice, slice]]:
    """Slices of heads and rows whose scores fit a chunk: many whole heads, or a part of one."""
    some_heads = max(1, _CHUNK // max(1, rows * T_kv))
    some_rows = max(1, _CHUNK // max(1, some_heads * T_kv))
    for head in range(0, heads, some_heads):
        for row in range(0, rows, some_rows):
            yield (
                slice(head, min(head + some_heads, heads)),
                slice(row, min(row + some_rows, rows)),
            )
