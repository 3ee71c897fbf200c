"""What is kept from before does not fit other values in the same memory."""

from __future__ import annotations

import pytest
import torch

from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from suites.session.cell import measure_cell
from suites.session.other_inputs import turned, turned_back
from suites.session.subject import SubjectMemory
from tests.test_cell import CONDITIONS, cell_of, fake

NAIVE = implementations()["naive"]
PROBLEM = Problem(B=2, T_q=33, T_kv=65, H=4, H_kv=2, d_h=24, causal=True)


def gradients(inputs):
    leaves = [t.clone().requires_grad_() for t in (inputs.q, inputs.k, inputs.v)]
    out = NAIVE.forward(*leaves, causal=True)
    found = torch.autograd.grad(out, leaves, inputs.d_out)
    return {"out": out.detach()} | dict(zip(("dq", "dk", "dv"), found, strict=True))


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_turned_outputs_turn_back_and_the_inputs_are_bitwise_what_they_were(layout):
    inputs = make_inputs(PROBLEM.with_(layout=layout), "cpu")
    before = [t.clone() for t in (inputs.q, inputs.k, inputs.v, inputs.d_out)]
    expected = gradients(inputs)
    with turned(inputs, backward_alone=False):
        assert not torch.equal(inputs.q, before[0])
        found = turned_back(gradients(inputs), backward_alone=False)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    after = (inputs.q, inputs.k, inputs.v, inputs.d_out)
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


def test_a_kernel_that_keeps_its_weights_is_wrong():
    """It kept softmax(q·kᵀ) of its first call and timed P·v alone, and was believed."""
    kept = {}

    def keeping(q, k, v, **arguments):
        if "P" not in kept:
            eye = torch.eye(k.shape[2]).expand(*k.shape[:3], -1)
            kept["P"] = NAIVE.forward(q, k, eye, **arguments)
        return kept["P"] @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)

    found = measure_cell(cell_of(fake(keeping), PROBLEM), CONDITIONS, SubjectMemory())
    assert found["status"] == "wrong" and found["check"]["after_timing"]
