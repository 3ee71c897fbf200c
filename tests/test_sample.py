"""The sample of a large problem: a fault at either end of its heads is seen."""

import pytest
import torch

from impls.interface.check import check_output
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference
from impls.interface.sample import choose

LARGE = Problem.parse("B=3,T_q=37,T_kv=4100,H=11,d_h=4")


@pytest.fixture(scope="module")
def called():
    """Output, gradients and reference of a problem of which 8 of 33 heads are checked."""
    inputs = make_inputs(LARGE, "cpu")
    q, k, v = (t.detach().requires_grad_() for t in (inputs.q, inputs.k, inputs.v))
    out = (q @ k.mT / 2).softmax(-1) @ v
    grads = torch.autograd.grad(out, (q, k, v), inputs.d_out)
    return out.detach(), grads, reference(inputs, LARGE)


def test_a_right_result_is_right_on_its_sample(called):
    out, grads, expected = called
    found = check_output(out, None, grads, expected)
    assert found.ok, found.reasons
    assert "8 of 33 heads" in found.rows


@pytest.mark.parametrize("head", [(0, 0), (2, 10)], ids=["first", "last"])
@pytest.mark.parametrize("name", ["out", "dq", "dk", "dv"])
def test_a_fault_in_the_first_or_last_head_of_a_large_problem_is_found(called, name, head):
    """Case O07, pytorch#119320: gradients were NaN above a batch of 2700 alone."""
    out, grads, expected = called
    given = {"out": out} | dict(zip(("dq", "dk", "dv"), grads, strict=True))
    given[name] = given[name].clone()
    given[name][head] *= 1.01
    found = check_output(given.pop("out"), None, list(given.values()), expected)
    assert not found.ok and all(why.startswith(f"{name}: ") for why in found.reasons)


def test_of_the_kv_heads_the_last_is_checked_where_only_one_can_be():
    found = choose(Problem.parse("B=2,T=2500,H=6,H_kv=3,d_h=8"), "cpu")
    assert (found.b_kv.tolist(), found.h_kv.tolist()) == ([1], [2])
