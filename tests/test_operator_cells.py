"""Other operators as cells: found by name, held to their own formula, apart from softmax."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from impls.__main__ import main
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.layer import additive as additive_module
from impls.layer import linear as linear_module
from impls.layer.lineage import computed_by, operators
from suites.measure.samples import Settings
from suites.session.cell import Conditions, measure_cell
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.suite_process import ROOFS

CONDITIONS = Conditions(
    device="cpu",
    settings=Settings(budget_s=0.05, min_samples=3, least_samples=3),
    ceilings=ROOFS,
    flop_convention="exact",
    compile_limit_s=60.0,
)
NAMES = ("additive", "linear_chunked", "linear_recurrent", "multiplicative")
PROBLEM = Problem(2, 33, 70, 3, 24, d_v=16, causal=True)


def measured(implementation, problem=PROBLEM):
    problem = problem.with_(operator=implementation.operator)
    cell = Cell(implementation, problem, "forward", "hot", "cpu_time", "lineage", "T")
    return measure_cell(cell, CONDITIONS, SubjectMemory())


@pytest.mark.parametrize("name", NAMES)
def test_it_is_timed_and_proven_against_its_own_formula(name):
    found = measured(implementations()[name])
    assert found["status"] == "ok", found["reasons"]
    assert found["check"]["after_timing"] and set(found["check"]["outputs"]) == {"out"}
    assert found["timing"]["median_s"] > 0
    assert found["counts"]["compulsory_bytes"] == found["counts"]["algorithmic_bytes"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["linear_chunked", "multiplicative"])
def test_a_large_problem_is_proven_on_a_stated_sample_of_rows(name, dtype):
    long = Problem(1, 1500, 1500, 2, 8, dtype=dtype, causal=True)
    found = measured(implementations()[name], long)
    assert found["status"] == "ok", found["reasons"]
    assert found["check"]["rows"] == "sampled 256 of 1500"


def planted(forward, name="linear"):
    return computed_by(operators()[name], f"planted_{name}", forward)


def acausal(q, k, v, *, causal):
    return linear_module.chunked(q, k, v)


def softmax(q, k, v, *, causal):
    return implementations()["naive"].forward(q, k, v, causal=causal)


def shifted(q, k, v, *, causal):
    return linear_module.chunked(q, k.roll(1, 2), v, causal=causal)


def slightly_off(q, k, v, *, causal):
    return linear_module.chunked(q, k, v, causal=causal) * 1.0001


def last_row_unwritten(q, k, v, *, causal):
    out = torch.empty(*q.shape[:3], v.shape[3])
    out[:, :, :-1] = linear_module.chunked(q, k, v, causal=causal)[:, :, :-1]
    return out


@pytest.mark.parametrize("forward", [acausal, softmax, shifted, slightly_off, last_row_unwritten])
def test_what_computes_something_else_is_wrong(forward):
    assert measured(planted(forward))["status"] == "wrong"


def test_what_keeps_a_result_is_wrong_though_it_was_right_once():
    kept = []

    def forward(q, k, v, *, causal):
        kept[:] = kept or [linear_module.chunked(q, k, v, causal=causal)]
        return kept[0]

    found = measured(planted(forward))
    assert found["status"] == "wrong" and "a result is kept" in found["reasons"][0]


def test_weights_are_seeded_by_the_head_size_alone_and_rounded_to_the_dtype():
    operator = operators()["additive"]
    a, b = (operator.seeded_weights(8, torch.float32, "cpu") for _ in range(2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    half = operator.seeded_weights(8, torch.bfloat16, "cpu")
    assert all(torch.equal(half[name], a[name].to(torch.bfloat16)) for name in a)


@pytest.mark.parametrize("name", NAMES)
def test_softmax_and_what_is_not_the_operators_are_refused(name):
    one = implementations()[name]
    assert f"computes {one.operator} attention, not softmax" in reasons_against(one, PROBLEM, "cpu")
    own = PROBLEM.with_(operator=one.operator)
    assert reasons_against(one, own, "cpu") == []
    assert reasons_against(one, own, "cpu", ["backward"]) == ["backward is not supported"]
    assert reasons_against(one, own.with_(H_kv=1), "cpu")
    inputs = make_inputs(own, "cpu")
    q, k, v = inputs.q, inputs.k, inputs.v
    with pytest.raises(Unsupported, match="scale is not supported"):
        attend(one, q, k, v, scale=0.5)
    assert one.prepare is not None
    assert torch.equal(attend(one, q, k, v, causal=True)[0], one.prepare(own, "cpu")(q, k, v))


def test_list_says_that_it_is_another_operator(capsys, monkeypatch):
    # Trying the others would compile some.
    some = [implementations()[name] for name in ("naive", *NAMES)]
    monkeypatch.setattr("impls.interface.registry._declared_here", lambda: some)
    assert main(["list", "--device", "cpu"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("another operator") == 4 and "another operator, linear: f32" in shown
    assert main(["list", "--device", "cpu", "--json"]) == 0
    listed = {one["implementation"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed["additive"]["operator"] == "additive" and listed["additive"]["available"]
    assert listed["linear_recurrent"]["operator"] == "linear"
    assert listed["naive"]["operator"] == "softmax"
    assert listed["additive"]["source"] == "impls/layer/additive.py"
    assert (
        "f32" in listed["additive"]["supports_here"]
        and "GQA" not in listed["additive"]["supports_here"]
    )


def test_check_holds_it_to_its_own_formula(capsys, monkeypatch):
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)
    assert main(["check", "multiplicative", "--device", "cpu"]) == 0
    assert "1 implementation checked: 43 checks passed, 0 wrong" in capsys.readouterr().out
    known = implementations()
    softmaxed = replace(known["multiplicative"], prepare=lambda *_: known["naive"].forward)
    monkeypatch.setattr("impls.interface.registry._declared_here", lambda: [softmaxed])
    assert main(["check", "multiplicative", "--device", "cpu"]) == 1
    assert "WRONG multiplicative" in capsys.readouterr().out


def test_cost_of_a_problem_is_its_operators(capsys):
    assert main(["cost", "--problem", "T=64,H=2,d_h=8,operator=linear", "--json"]) == 0
    passes = json.loads(capsys.readouterr().out)["passes"]
    assert set(passes) == {"forward"} and passes["forward"]["flop"] == 2 * 2 * 128 * 64
    assert main(["cost", "--problem", "T=64,H=2,d_h=8,operator=linaer"]) == 2
    assert 'no operator "linaer": did you mean "linear"?' in capsys.readouterr().err


def test_the_scratch_of_additive_is_what_it_holds_at_once(monkeypatch):
    """The plan skips by it what memory would not hold."""
    p = Problem(1, 512, 512, 2, 8, operator="additive")
    scratch = implementations()["additive"].scratch_bytes
    assert scratch is not None
    scores, hidden = 2 * 512 * 512 * 4, 2 * 512 * 512 * 8 * 4
    assert scratch(p, "forward") == 2 * scores + 2 * hidden
    monkeypatch.setattr(additive_module, "HIDDEN_ELEMENTS", 2 * 512 * 8 * 3)
    assert scratch(p, "forward") == 2 * scores + 2 * hidden * 3 // 512
