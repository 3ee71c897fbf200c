"""A compiled backward is measured and proven like another, though it refuses poisoned memory."""

from __future__ import annotations

import pytest
import torch

from impls.interface.registry import implementations
from suites.session.cell import measure_cell
from suites.session.subject import SubjectMemory
from tests.test_cell import CONDITIONS, NAIVE, cell_of, fake


class _LikeCompiled(torch.autograd.Function):
    """A backward that refuses what AOTAutograd's refuses: another mode than its forward had."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        ctx.was = torch.are_deterministic_algorithms_enabled()
        return NAIVE.forward(q, k, v, causal=True)

    @staticmethod
    def backward(ctx, *grad_outputs):
        if torch.are_deterministic_algorithms_enabled() != ctx.was:
            raise RuntimeError(
                "run with torch.use_deterministic_algorithms(True), generated without"
            )
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            out = NAIVE.forward(*leaves, causal=True)
        return torch.autograd.grad(out, leaves, grad_outputs)


@pytest.mark.parametrize("pass_", ["backward", "forward_backward"])
def test_a_compiled_backward_is_proven_though_it_refuses_the_poison(pass_):
    """`compiled_naive`'s backward alone was an error in every run that had time for it."""
    like = fake(lambda q, k, v, **_: _LikeCompiled.apply(q, k, v))
    found = measure_cell(cell_of(like, pass_=pass_), CONDITIONS, SubjectMemory())
    assert found["status"] == "ok", found["reasons"]
    assert set(found["check"]["outputs"]) == {"out", "dq", "dk", "dv"}


@pytest.mark.slow
@pytest.mark.parametrize("pass_", ["backward", "forward_backward"])
def test_the_backward_of_compiled_code_is_measured(pass_):
    cell = cell_of(implementations()["compiled_naive"], pass_=pass_)
    found = measure_cell(cell, CONDITIONS, SubjectMemory())
    assert found["status"] == "ok", found["reasons"]
