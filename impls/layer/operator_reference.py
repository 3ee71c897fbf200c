"""What the implementations of an operator are held to: its own formula, in float64."""

from __future__ import annotations

import torch

from impls.interface.inputs import TORCH_DTYPES, Inputs
from impls.interface.problem import Problem
from impls.interface.reference import Expected, Reference
from impls.interface.sample import choose
from impls.layer.lineage import operator_of


def operator_reference(inputs: Inputs, problem: Problem) -> Reference:
    """The output of the problem's operator with its seeded weights, on the sampled rows.

    The plain error is that of the same formula with every tensor in the problem's dtype. Scores
    are the operator's own affair: the tolerance has no term for them beside that error.

    Raises:
        ValueError: the problem names no operator that there is.
    """
    operator = operator_of(problem)
    sample = choose(problem, inputs.q.device)
    dtype = TORCH_DTYPES[problem.dtype]
    weights = operator.seeded_weights(problem.d_h, dtype, inputs.q.device)
    # One batch entry, of the sampled heads.
    q, k, v = (t[sample.b, sample.h][None] for t in (inputs.q, inputs.k, inputs.v))

    def at(work: torch.dtype) -> torch.Tensor:
        given = (t.to(work) for t in (q, k, v))
        learned = {name: weight.to(work) for name, weight in weights.items()}
        out = operator.formula(*given, causal=problem.causal, rows=sample.rows, **learned)
        return out[0].double()

    with torch.no_grad():
        value, naive = at(torch.float64), at(dtype)
    magnitude = float(inputs.v.double().square().mean().sqrt())
    return Reference(problem, sample, {"out": Expected(value, naive, magnitude)}, largest_score=0.0)
