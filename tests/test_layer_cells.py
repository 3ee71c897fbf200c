"""Parts of a layer from problem to record: proven against float64, and caught where they lie."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from impls.interface import layer_work
from impls.interface.attention import Implementation, reasons_against
from impls.interface.layer_problem import core_of, decode_part, prefill_part
from impls.interface.layer_shape import Latent, LayerShape
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.layer.part_inputs import make_part_inputs
from suites.measure.samples import Settings
from suites.session.cell import Conditions, measure_cell
from suites.session.layer_call import LayerCall
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.suite_process import ROOFS

HEADS = LayerShape(d_model=40, H=4, H_kv=2, d_h=24)
FULL = LayerShape(d_model=40, H=4, H_kv=2, d_h=24, is_causal=False)
WINDOW = LayerShape(d_model=40, H=4, H_kv=2, d_h=24, window=5)
LATENT = LayerShape(d_model=40, H=3, d_h=16, latent=Latent(d_c=20, d_R=8, d_v=24, d_c_q=28))
PARTS = ["projections", "output", "layer", "feed_forward", "block"]
PASSES = ["forward", "backward", "forward_backward"]
NAIVE = implementations()["naive"]
CONDITIONS = Conditions(
    device="cpu",
    settings=Settings(budget_s=0.02, min_samples=3),
    ceilings=ROOFS,
    flop_convention="exact",
    compile_limit_s=60.0,
)


def measured(problem: Problem, implementation: Implementation = NAIVE, pass_: str = "forward"):
    cell = Cell(implementation, problem, pass_, "hot", "cpu_time", "test", "test")
    return measure_cell(cell, CONDITIONS, SubjectMemory())


def part(name: str, shape: LayerShape = HEADS, T: int = 17, dtype: str = "float32", **sizes):
    d_ff = 56 if name in ("feed_forward", "block") else 0
    return prefill_part(shape, name, B=2, T=T, dtype=dtype, d_ff=d_ff, **sizes)


def fake(forward, **declared) -> Implementation:
    return Implementation(name="fake", forward=forward, summary="fake", **declared)


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("shape", [HEADS, FULL, WINDOW, LATENT], ids=lambda s: s.variant)
@pytest.mark.parametrize("name", PARTS)
def test_every_part_and_pass_is_proven_against_float64_and_timed(name, shape, pass_):
    problem = part(name, shape)
    found = measured(problem, pass_=pass_)
    assert found["status"] == "ok", found["reasons"]
    assert found["check"]["after_timing"] and found["check"]["rows"] == "all"
    outputs = {"q", "k", "v"} if name == "projections" else {"out"}
    if pass_ != "forward":
        outputs |= {"dx"} | {
            f"d{n}" for n in make_part_inputs(problem, "cpu", gradients=False).weights
        }
    assert set(found["check"]["outputs"]) == outputs
    assert found["timing"]["n"] >= 3
    assert found["counts"]["flop"] == layer_work.flop(problem, pass_)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize("name", ["layer", "block"])
def test_a_layer_is_proven_in_every_dtype(name, dtype):
    for pass_ in ("forward", "forward_backward"):
        found = measured(part(name, dtype=dtype), pass_=pass_)
        assert found["status"] == "ok", found["reasons"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("shape", [HEADS, WINDOW, LATENT], ids=lambda s: s.variant)
def test_a_step_from_a_cache_is_proven_and_starts_from_the_same_fill(shape, name):
    d_ff = 56 if name in ("feed_forward", "block") else 0
    problem = decode_part(shape, name, B=3, T_kv=19, dtype="float32", d_ff=d_ff)
    found = measured(problem)
    assert found["status"] == "ok", found["reasons"]
    call = LayerCall(
        Cell(NAIVE, problem, "forward", "hot", "cpu_time", "test", "test"),
        make_part_inputs(problem, "cpu", gradients=False),
        "cpu",
    )
    with torch.no_grad():
        first = call.run()
        again = call.run()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_a_step_has_no_backward_and_parts_without_a_core_ask_nothing_of_an_implementation():
    step = decode_part(HEADS, "layer", B=1, T_kv=9, dtype="float32")
    assert reasons_against(NAIVE, step, "cpu", ("backward",)) == [
        "a layer has no backward through tokens that are cached"
    ]
    efficient = implementations()["sdpa_efficient"]
    assert reasons_against(efficient, part("projections"), "cuda") == []
    assert any("window" in why for why in reasons_against(efficient, part("layer", WINDOW), "cuda"))


@pytest.mark.parametrize("name", ["layer", "block"])
@pytest.mark.parametrize("shape", [FULL, HEADS, LATENT], ids=lambda s: s.variant)
def test_every_implementation_that_can_is_right_in_a_layer(shape, name):
    problem = part(name, replace(shape, H_kv=shape.H), T=33)
    tried = 0
    for implementation in implementations().values():
        if implementation.needs_compiler or implementation.proven_in == "interpreter":
            continue
        if reasons_against(implementation, problem, "cpu") or (
            implementation.unavailable and implementation.unavailable("cpu")
        ):
            continue
        found = measured(problem, implementation)
        assert found["status"] == "ok", (implementation.name, found["reasons"])
        tried += 1
    assert tried >= 2


def test_what_is_prepared_is_prepared_for_the_core_of_the_layer():
    prepared_for = []

    def prepare(problem, device):
        prepared_for.append(problem)
        return lambda q, k, v: NAIVE.forward(q, k, v, causal=problem.causal, window=problem.window)

    def never(q, k, v, **arguments):
        raise AssertionError("the prepared forward was there")

    found = measured(part("layer", WINDOW), fake(never, prepare=prepare))
    assert found["status"] == "ok" and set(prepared_for) == {core_of(part("layer", WINDOW))}


def test_an_absorbed_core_has_a_scale_of_its_own():
    step = decode_part(LATENT, "layer", B=1, T_kv=9, dtype="float32")
    default_scale = fake(lambda q, k, v, scale=None, **a: NAIVE.forward(q, k, v, **a))
    assert measured(step, default_scale)["status"] == "wrong"


@pytest.mark.parametrize("pass_", PASSES)
def test_dropout_drops_the_same_share_and_the_reference_knows_which(pass_):
    problem = part("block", FULL, T=64, dropout=0.1)
    found = measured(problem, pass_=pass_)
    assert found["status"] == "ok", found["reasons"]
    inputs = make_part_inputs(problem, "cpu", gradients=True)
    call = LayerCall(
        Cell(NAIVE, problem, "forward", "hot", "cpu_time", "test", "test"), inputs, "cpu"
    )
    with torch.no_grad():
        first = call.outputs()
    shares = [1.0 - float(mask.double().mean()) for mask in call.masks]
    assert len(shares) == 2 and all(0.07 < share < 0.13 for share in shares)
    with torch.no_grad():
        timed = [call.run()[0] for _ in range(2)]
    # What is timed draws anew each time.
    assert not torch.equal(*timed) and not torch.equal(timed[0], first["out"])


def test_a_large_layer_is_sampled_and_says_so():
    shape = LayerShape(d_model=512, H=8, d_h=64)
    problem = prefill_part(shape, "layer", B=3, T=8192, dtype="float32")
    assert layer_work.flop(problem) > 3 << 34
    inputs = make_part_inputs(problem, "cpu", gradients=False)
    assert inputs.x.shape == (3, 8192, 512)


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
@pytest.mark.parametrize("shape", [FULL, LayerShape(d_model=40, H=1, d_h=24)], ids=lambda s: s.H)
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


def test_a_core_that_keeps_its_weights_is_found_where_there_are_several_heads():
    kept = {}

    def forward(q, k, v, *, causal, **arguments):
        eye = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)
        p = kept.setdefault("p", NAIVE.forward(q, k, eye, causal=causal))
        return p @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)

    assert measured(part("layer"), fake(forward))["status"] == "wrong"


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


def test_an_asynchronous_core_is_waited_for_before_its_output_is_projected():
    import threading
    import time

    workers: list[threading.Thread] = []

    def forward(q, k, v, **arguments):
        out = torch.full_like(q, torch.nan)

        def work():
            time.sleep(0.005)
            with torch.no_grad():
                out.copy_(NAIVE.forward(q, k, v, **arguments))

        workers.append(threading.Thread(target=work))
        workers[-1].start()
        return out

    def join():
        while workers:
            workers.pop().join()

    cell = Cell(
        *(fake(forward, synchronize=join), part("layer"), "forward", "hot", "wall", "test", "test")
    )
    assert measure_cell(cell, CONDITIONS, SubjectMemory())["status"] == "ok"


def test_each_part_without_a_core_runs_though_the_kernel_asked_for_does_not():
    flash = implementations()["sdpa_flash"]
    for name in ("projections", "output", "feed_forward"):
        found = measured(part(name), flash)
        assert found["status"] == "ok", found["reasons"]
