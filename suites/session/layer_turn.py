"""Other values in a layer's memory, of which its outputs follow: what keeps a result is caught.

Attention is odd: of −q, −k and −v the scores are those of q and k, and the output is negated. So
is a layer, and a block whose norms' shifts and feed-forward matrices are negated too. The order of
heads is any, where all have it. Each change is its own inverse and keeps every sum of squares; as
the gradient that arrives changes as the output does, the gradient of each tensor changes as the
tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from impls.interface.problem import Problem
from impls.layer.part_inputs import PartInputs


def has_turn(problem: Problem) -> bool:
    """Whether `turn` changes what weights a core computes: one head changes no places.

    Where it does not the tensors must be `replaced`, of which the outputs do not follow.
    """
    return problem.H > 1 or not problem.has_core


@contextmanager
def replaced(inputs: PartInputs, others: PartInputs) -> Iterator[None]:
    """Within it the tensors have the values of `others`; afterwards every bit of their own."""
    mine = _tensors(inputs)
    before = [tensor.clone() for tensor in mine]
    _copy(mine, _tensors(others))
    try:
        yield
    finally:
        _copy(mine, before)


def _tensors(inputs: PartInputs) -> list[torch.Tensor]:
    return [inputs.x, *inputs.d_out, *inputs.cached.values(), *inputs.weights.values()]


def _copy(tensors: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.data.copy_(value)


def turn(inputs: PartInputs, backward_alone: bool) -> None:
    """Change x, d_out, what is cached and the heads' order in weights; twice undoes it.

    With the backward alone x and weights must stay, as its graph was made of them: d_out changes.
    """
    for d_out in inputs.d_out:
        d_out.data.neg_() if backward_alone else d_out.data.copy_(_data(d_out))
    if backward_alone:
        return
    for tensor in (inputs.x, *inputs.cached.values()):
        tensor.data.copy_(_data(tensor))
    for name, weight in inputs.weights.items():
        weight.data.copy_(_weight(name, weight, inputs))


def turned_back(
    outputs: Mapping[str, torch.Tensor], inputs: PartInputs, backward_alone: bool
) -> dict[str, torch.Tensor]:
    """Outputs and gradients of changed tensors, as they would be of the tensors themselves."""
    found = {}
    for name, tensor in outputs.items():
        weight = name.removeprefix("d")
        if backward_alone:
            found[name] = -tensor if weight in inputs.weights or name == "dx" else tensor
        elif weight in inputs.weights:
            found[name] = _weight(weight, tensor, inputs)
        else:
            found[name] = _data(tensor)
    return found


def _data(tensor: torch.Tensor) -> torch.Tensor:
    """Tokens (B, T, d_model) negated; of heads (B, H, T, d) the order is reversed as well."""
    return -tensor.flip(1) if tensor.ndim == 4 else -tensor


def _weight(name: str, weight: torch.Tensor, inputs: PartInputs) -> torch.Tensor:
    """The rows of each head in reverse order, of an output projection its columns."""
    shape, owner = inputs.around.shape, name.split(".")[-2]
    if name.endswith("bias") or owner in ("up", "down"):
        return -weight
    if owner == "o_proj":
        return weight.unflatten(1, (shape.H, -1)).flip(1).flatten(1)
    of_kv = owner in ("k_proj", "v_proj")
    if of_kv or owner in ("q_proj", "q_up", "k_up", "v_up"):
        heads = shape.H_kv if of_kv else shape.H
        return weight.unflatten(0, (heads, -1)).flip(0).flatten(0, 1)
    return weight
