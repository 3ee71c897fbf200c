"""What is kept from before does not fit other values in the same memory."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch

from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from suites.measure.samples import Settings
from suites.session.cell import measure_cell
from suites.session.other_inputs import has_turn, replaced, turned, turned_back
from suites.session.subject import SubjectMemory
from tests.test_cell import CONDITIONS, cell_of, fake

NAIVE = implementations()["naive"]
BRIEF = replace(CONDITIONS, settings=Settings(budget_s=0.02))
PROBLEM = Problem(B=2, T_q=33, T_kv=65, H=4, H_kv=2, d_h=24, causal=True)
SHAPES = (
    "T=33,H=1,d_h=24,causal",
    "T=1,H=1,d_h=1",
    "T_q=1,T_kv=65,H=1,d_h=7",
    "T=33,H=4,H_kv=1,d_h=7",
    "T_q=1,T_kv=33,H=3,H_kv=1,d_h=8,causal",
    "T=17,H=3,d_h=1,causal,window=5",
    "B=3,T=5,H=1,d_h=8",
    "B=2,T_q=33,T_kv=65,H=4,H_kv=2,d_h=24,causal",
    "T=17,H=1,d_h=8,packed,causal",
    "B=2,T=17,H=3,d_h=8,packed",
    "B=2,T=17,H=3,d_h=8,bthd,float16",
)


def tensors(inputs):
    return [t.clone() for t in (inputs.q, inputs.k, inputs.v, inputs.d_out)]


def gradients(inputs, causal=True):
    leaves = [t.clone().requires_grad_() for t in (inputs.q, inputs.k, inputs.v)]
    out = NAIVE.forward(*leaves, causal=causal)
    found = torch.autograd.grad(out, leaves, inputs.d_out)
    return {"out": out.detach()} | dict(zip(("dq", "dk", "dv"), found, strict=True))


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("problem", [PROBLEM, Problem(B=1, T_q=9, T_kv=17, H=3, H_kv=1, d_h=7)])
def test_turned_outputs_turn_back_and_the_inputs_are_bitwise_what_they_were(layout, problem):
    inputs = make_inputs(problem.with_(layout=layout), "cpu")
    before = tensors(inputs)
    expected = gradients(inputs, problem.causal)
    with turned(inputs, problem, backward_alone=False):
        found = turned_back(gradients(inputs, problem.causal), backward_alone=False)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    assert all(map(torch.equal, tensors(inputs), before))


@pytest.mark.parametrize("text", SHAPES)
def test_every_tensor_has_other_values_whatever_the_shape_and_its_own_again(text):
    problem = Problem.parse(text)
    inputs, others = make_inputs(problem, "cpu"), make_inputs(problem, "cpu", seed=5)
    before = tensors(inputs)
    with ExitStack() as stack:
        if has_turn(problem):
            stack.enter_context(turned(inputs, problem, backward_alone=False))
        else:
            stack.enter_context(replaced(inputs, others))
        for tensor, was in zip(tensors(inputs), before, strict=True):
            assert (tensor != was).double().mean() > 0.9
    assert all(map(torch.equal, tensors(inputs), before))


def keeping_weights():
    """It keeps softmax(q·kᵀ) of its first call."""
    kept = {}

    def forward(q, k, v, **arguments):
        if "P" not in kept:
            eye = torch.eye(k.shape[2]).expand(*k.shape[:3], -1)
            kept["P"] = NAIVE.forward(q, k, eye, **arguments)
        return kept["P"] @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)

    return forward


def keeping(which):
    """It keeps a copy of k or v of its first call, by where it lies."""
    kept = {}

    def forward(q, k, v, **arguments):
        tensor = {"k": k, "v": v}[which]
        copy = kept.setdefault(tensor.data_ptr(), tensor.clone())
        k, v = (copy, v) if which == "k" else (k, copy)
        return NAIVE.forward(q, k, v, **arguments)

    return forward


def keeping_gradients():
    """Its backward gives the gradient of its first call for one of q, k and v alone."""
    kept = {}

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, k):
            return k.clone()

        @staticmethod
        def backward(ctx, *gradients):
            return kept.setdefault("dk", gradients[0].clone())

    return lambda q, k, v, **arguments: NAIVE.forward(q, Kept.apply(k), v, **arguments)


SINGLE_HEAD = Problem(B=1, T_q=33, T_kv=33, H=1, d_h=24, causal=True)
ONE_KV_HEAD = Problem(B=1, T_q=33, T_kv=65, H=4, H_kv=1, d_h=24, causal=True)
STEP = Problem(B=1, T_q=1, T_kv=65, H=1, d_h=24)


@pytest.mark.parametrize("problem", [PROBLEM, SINGLE_HEAD, ONE_KV_HEAD, STEP], ids=str)
@pytest.mark.parametrize("kernel", ["weights", "k", "v"])
def test_a_kernel_that_keeps_what_it_must_compute_anew_is_wrong(kernel, problem):
    """Timed is P·v alone, or a call without its transposition: believed before it was turned."""
    forward = keeping_weights() if kernel == "weights" else keeping(kernel)
    found = measure_cell(cell_of(fake(forward), problem), BRIEF, SubjectMemory())
    assert found["status"] == "wrong" and found["check"]["after_timing"]


@pytest.mark.parametrize("problem", [SINGLE_HEAD, ONE_KV_HEAD], ids=str)
def test_a_kernel_that_keeps_a_gradient_is_wrong(problem):
    cell = cell_of(fake(keeping_gradients()), problem, "forward_backward")
    found = measure_cell(cell, BRIEF, SubjectMemory())
    assert found["status"] == "wrong" and found["reasons"][0].startswith("dk: ")


@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("problem", [SINGLE_HEAD, ONE_KV_HEAD, STEP], ids=str)
def test_what_computes_everything_anew_is_right_with_one_head(problem, pass_):
    found = measure_cell(cell_of(NAIVE, problem, pass_), BRIEF, SubjectMemory())
    assert found["status"] == "ok" and found["check"]["after_timing"]
