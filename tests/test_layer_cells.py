"""Parts of a layer from problem to record: each is proven against float64 and timed."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import torch

from impls.interface import layer_work
from impls.interface.attention import reasons_against
from impls.interface.layer_problem import core_of, decode_part
from impls.interface.registry import implementations
from impls.layer import part_reference
from impls.layer.part_inputs import make_part_inputs
from suites.session.cell import measure_cell
from suites.session.layer_call import LayerCall
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.measured_layers import (
    CONDITIONS,
    FULL,
    HEADS,
    LATENT,
    NAIVE,
    PARTS,
    PASSES,
    WINDOW,
    fake,
    measured,
    part,
)

# The backward alone runs the same code whatever the shape.
CASES = [
    (name, shape, pass_)
    for name in PARTS
    for shape in ([HEADS, FULL, WINDOW, LATENT] if name in ("layer", "block") else [HEADS, LATENT])
    for pass_ in (PASSES if shape is HEADS else ("forward", "forward_backward"))
]


@pytest.mark.parametrize(("name", "shape", "pass_"), CASES)
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


@pytest.mark.parametrize("shape", [HEADS, FULL, WINDOW, LATENT], ids=str)
@pytest.mark.parametrize("name", PARTS)
def test_of_a_large_part_a_stated_sample_is_compared(name, shape, monkeypatch):
    monkeypatch.setattr(part_reference, "MOST_FLOP", 0)
    found = measured(part(name, shape, T=150))
    assert found["status"] == "ok", found["reasons"]
    assert found["check"]["rows"] == "sampled 96 of 150 tokens in 2 of 2 sequences"
    if name in ("layer", "block") and shape is HEADS:

        def sees_all(q, k, v, causal, **others):
            return NAIVE.forward(q, k, v, causal=False, **others)

        assert measured(part(name, shape, T=150), fake(sees_all))["status"] == "wrong"


def test_of_a_large_batch_of_steps_the_first_and_the_last_are_compared(monkeypatch):
    monkeypatch.setattr(part_reference, "MOST_FLOP", 0)
    for shape in (HEADS, LATENT):
        for name in ("layer", "projections"):
            found = measured(decode_part(shape, name, B=5, T_kv=19, dtype="float32"))
            assert found["status"] == "ok", found["reasons"]
            assert found["check"]["rows"] == "sampled 1 of 1 tokens in 2 of 5 sequences"


def test_an_asynchronous_core_is_waited_for_before_its_output_is_projected():
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
