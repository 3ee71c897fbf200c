"""Other values in the same memory: what a kernel that keeps something from before gets wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields

import torch

from impls.interface.inputs import Inputs, copy_of
from impls.interface.problem import SOFTMAX, Problem

# Beyond the seeds of rotated copies: values that no call of the cell has seen.
OTHER_SEED = 1000

_BATCH_AND_HEADS = (0, 1)


def has_turn(problem: Problem) -> bool:
    """Whether `turned` changes the weights too: a single head has none to change places with.

    Where it does not the inputs must be `replaced`, of which the outputs do not follow.
    """
    return problem.joined.B * problem.H > 1


@contextmanager
def turned(inputs: Inputs, problem: Problem, backward_alone: bool) -> Iterator[None]:
    """Within it the inputs have other values, of which the right outputs follow exactly.

    Batch entries and heads are in reverse order and all is negated: so no weight, output, graph or
    transposed key of before fits. Of another operator q and k keep their signs. With the backward
    alone q, k and v must stay, as its graph was made of them: d_out is negated.
    """
    _turn(inputs, problem, backward_alone)
    try:
        yield
    finally:
        _turn(inputs, problem, backward_alone)


def turned_back(
    outputs: Mapping[str, torch.Tensor], backward_alone: bool
) -> dict[str, torch.Tensor]:
    """Outputs of turned inputs, as they would be of the inputs themselves.

    Of −q and −k the scores are those of q and k, so that out = P·v is negated with v, and each
    gradient with d_out and the others (Dao et al. 2022, appendix B.4). What is no tensor is left
    as it is.
    """
    found: dict[str, torch.Tensor] = {}
    for name, tensor in outputs.items():
        if isinstance(tensor, torch.Tensor) and not (backward_alone and name == "out"):
            tensor = tensor.neg()
            if not backward_alone and tensor.ndim == 4:
                tensor = tensor.flip(_BATCH_AND_HEADS)
        found[name] = tensor
    return found


@contextmanager
def replaced(inputs: Inputs, others: Inputs) -> Iterator[None]:
    """Within it the inputs have the values of `others`; afterwards every bit of their own."""
    before = copy_of(inputs)
    _copy(inputs, others)
    try:
        yield
    finally:
        _copy(inputs, before)


def _copy(inputs: Inputs, values: Inputs) -> None:
    for name in (field.name for field in fields(Inputs)):
        getattr(inputs, name).data.copy_(getattr(values, name))


def _turn(inputs: Inputs, problem: Problem, backward_alone: bool) -> None:
    """Turning twice gives every bit back."""
    if backward_alone:
        inputs.d_out.data.neg_()
        return
    of_softmax = (inputs.q, inputs.k) if problem.operator == SOFTMAX else ()
    for tensor in (inputs.q, inputs.k, inputs.v, inputs.d_out):
        tensor.data.copy_(tensor.data.flip(_BATCH_AND_HEADS))
    for tensor in (*of_softmax, inputs.v, inputs.d_out):
        tensor.data.neg_()
