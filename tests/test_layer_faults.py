"""What is wrong with a core is found through the layer around it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from impls.interface.layer_problem import decode_part
from impls.interface.layer_shape import LayerShape
from suites.session.cell import measure_cell
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.measured_layers import CONDITIONS, FULL, HEADS, NAIVE, PASSES, fake, measured, part

ONE_HEAD = LayerShape(d_model=40, H=1, d_h=24)
WRONG = {
    "off by a little": lambda q, k, v, **a: NAIVE.forward(q, k, v, **a) * 1.001,
    "one head alone": lambda q, k, v, **a: NAIVE.forward(q, k, v, **a).index_fill(
        1, torch.tensor([2]), 0.0
    ),
    "not causal": lambda q, k, v, causal, **a: NAIVE.forward(q, k, v, causal=False, **a),
    "NaN in the last row": lambda q, k, v, **a: NAIVE.forward(q, k, v, **a).index_fill(
        2, torch.tensor([q.shape[2] - 1]), torch.nan
    ),
    "unwritten": lambda q, k, v, **a: torch.empty_like(q),
}


@pytest.mark.parametrize("name", ["layer", "block"])
@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_core_is_found_through_the_layer(how, name):
    assert measured(part(name), fake(WRONG[how]))["status"] == "wrong"


def test_a_wrong_gradient_of_a_core_is_found_in_the_gradients_of_the_layer():
    class Crooked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v.clone()

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] * 1.01

    crooked = fake(lambda q, k, v, **a: NAIVE.forward(q, k, Crooked.apply(v), **a))
    assert measured(part("layer"), crooked)["status"] == "ok"
    found = measured(part("layer"), crooked, "forward_backward")
    assert found["status"] == "wrong"
    assert any(why.startswith("dv_proj.weight") for why in found["reasons"])
    assert not any(why.startswith("dq_proj.weight") for why in found["reasons"])


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("name", ["layer", "block"])
@pytest.mark.parametrize("shape", [FULL, ONE_HEAD], ids=lambda s: s.H)
def test_a_core_that_keeps_its_result_is_found(shape, name, pass_):
    kept = {}

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            return kept.setdefault("out", NAIVE.forward(q, k, v, causal=shape.is_causal)).clone()

        @staticmethod
        def backward(ctx, *grads):
            if "gradients" not in kept:
                leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
                with torch.enable_grad():
                    out = NAIVE.forward(*leaves, causal=shape.is_causal)
                kept["gradients"] = torch.autograd.grad(out, leaves, grads[0])
            return tuple(g.clone() for g in kept["gradients"])

    lazy = fake(lambda q, k, v, **a: Kept.apply(q, k, v))
    found = measured(part(name, shape), lazy, pass_)
    assert found["status"] == "wrong"


@pytest.mark.parametrize("shape", [HEADS, ONE_HEAD], ids=lambda shape: f"H={shape.H}")
def test_a_core_that_keeps_its_weights_is_found(shape):
    """A single head has none to change places with: other values, and what is due of those."""
    kept = {}

    def forward(q, k, v, *, causal, **arguments):
        eye = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)
        p = kept.setdefault("p", NAIVE.forward(q, k, eye, causal=causal))
        return p @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)

    found = measured(part("layer", shape), fake(forward))
    assert found["status"] == "wrong" and found["check"]["after_timing"]


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("name", ["layer", "block"])
def test_what_computes_everything_anew_is_right_with_one_head(name, pass_):
    found = measured(part(name, ONE_HEAD), NAIVE, pass_)
    assert found["status"] == "ok" and found["check"]["after_timing"]


def test_a_step_of_one_head_is_right_and_one_of_kept_weights_is_not():
    step = decode_part(ONE_HEAD, "layer", B=1, T_kv=9, dtype="float32")
    assert measured(step, NAIVE)["status"] == "ok"
    kept = {}

    def forward(q, k, v, **arguments):
        eye = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)
        return kept.setdefault("p", NAIVE.forward(q, k, eye, **arguments)) @ v

    found = measured(step, fake(forward))
    assert found["status"] == "wrong" and found["check"]["after_timing"]


def test_a_kept_step_is_found_though_the_cache_stands():
    kept = {}

    def forward(q, k, v, **arguments):
        return kept.setdefault("out", NAIVE.forward(q, k, v, **arguments))

    step = decode_part(HEADS, "layer", B=1, T_kv=9, dtype="float32")
    found = measured(step, fake(forward))
    assert found["status"] == "wrong" and found["check"]["after_timing"]


def test_a_core_that_writes_into_the_cache_is_wrong_and_spoils_no_other():
    def forward(q, k, v, **arguments):
        out = NAIVE.forward(q, k, v, **arguments)
        k.mul_(1.5)
        return out

    step = decode_part(HEADS, "layer", B=1, T_kv=9, dtype="float32")
    memory = SubjectMemory()
    cell = Cell(fake(forward), step, "forward", "hot", "cpu_time", "test", "test")
    found = measure_cell(cell, CONDITIONS, memory)
    assert found["status"] == "wrong"
    assert found["reasons"][0] == "it wrote into its inputs: cached k"
    assert measure_cell(replace(cell, implementation=NAIVE), CONDITIONS, memory)["status"] == "ok"
