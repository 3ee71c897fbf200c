"""Other values in the same memory: what a kernel that keeps something from before gets wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from impls.interface.inputs import Inputs

_BATCH_AND_HEADS = (0, 1)


@contextmanager
def turned(inputs: Inputs, backward_alone: bool) -> Iterator[None]:
    """Within it the inputs have other values, of which the right outputs follow exactly.

    Batch entries and heads are in reverse order, q, k, v and d_out alike, and v is negated: so no
    weight, output or graph of before fits. With the backward alone q, k and v must stay, as its
    graph was made of them: d_out is negated.
    """
    _turn(inputs, backward_alone)
    try:
        yield
    finally:
        _turn(inputs, backward_alone)


def turned_back(
    outputs: Mapping[str, torch.Tensor], backward_alone: bool
) -> dict[str, torch.Tensor]:
    """Outputs of turned inputs, as they would be of the inputs themselves.

    out = P·v is linear in v, as are dq and dk; dv = Pᵀ·d_out is not of v. All are linear in d_out
    (Dao et al. 2022, appendix B.4). What is no tensor is left as it is.
    """
    negated = ("dq", "dk", "dv") if backward_alone else ("out", "dq", "dk")
    found: dict[str, torch.Tensor] = {}
    for name, tensor in outputs.items():
        if isinstance(tensor, torch.Tensor):
            tensor = tensor.neg() if name in negated else tensor
            if not backward_alone and tensor.ndim == 4:
                tensor = tensor.flip(_BATCH_AND_HEADS)
        found[name] = tensor
    return found


def _turn(inputs: Inputs, backward_alone: bool) -> None:
    """Turning twice gives every bit back."""
    if backward_alone:
        inputs.d_out.data.neg_()
        return
    for tensor in (inputs.q, inputs.k, inputs.v, inputs.d_out):
        tensor.data.copy_(tensor.data.flip(_BATCH_AND_HEADS))
    inputs.v.data.neg_()
