"""Whether gradients come out the same twice: two calls on equal inputs, outside any clock."""

from __future__ import annotations

import torch

from suites.session.subject import Call
from suites.session.sweep import Cell

GRADIENTS = ("dq", "dk", "dv")


def repeats(cell: Cell, call: Call) -> dict[str, bool] | None:
    """By gradient, whether a second call gave the same bits; None where none are made.

    Sums whose order hangs on which thread comes first (atomic additions) differ in their last bits.
    """
    if cell.pass_ == "forward" or cell.problem.around is not None:
        return None
    first, second = _gradients(call), _gradients(call)
    return {
        name: torch.equal(one, other)
        for name, one, other in zip(GRADIENTS, first, second, strict=True)
    }


def _gradients(call: Call) -> list[torch.Tensor]:
    """A call's gradients as bytes of their own: NaN is no reason to differ, −0 for 0 is."""
    found = call.run()
    call.wait()
    return [
        gradient.detach().clone(memory_format=torch.contiguous_format).view(torch.uint8)
        for gradient in found
    ]
