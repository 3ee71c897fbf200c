"""The sweeps over models and heads: every model has its rows, at sizes that say what they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from impls.interface import cost, layer_cost
from impls.interface.attention import reasons_against
from impls.interface.layer_shape import LayerShape
from impls.interface.registry import implementations
from impls.layer.attention_layer import AttentionLayer
from impls.layer.head_pruning import pruned
from impls.layer.models import models
from results.model_label import ModelLabel, read_label
from suites import bench_head_count, bench_head_size_independent, bench_models, bench_pruned_heads
from suites.session import selection
from suites.session.looks import Looks
from suites.session.plan import Budget, decide
from suites.session.speeds import Speed
from suites.session.sweep import Series, cells

MINE = (bench_head_count, bench_head_size_independent, bench_models, bench_pruned_heads)
PLACES = [("cpu", "bfloat16"), ("cuda", "bfloat16")]


def labelled(device: str, dtype: str) -> list[tuple[ModelLabel, Series]]:
    """The series of the sweep over models, each with its label as a report reads it back."""
    found = []
    for line in bench_models.series(device, dtype):
        label = read_label(line.label)
        assert label is not None, line.label
        found.append((label, line))
    return found


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_every_model_of_the_table_has_its_row_of_each_kind(device, dtype):
    found = labelled(device, dtype)
    rows = {(label.model, label.phase, label.part) for label, _ in found}
    for model in models().values():
        phases = ["prefill", "decode"] if model.shape.layer.is_causal else ["prefill"]
        for phase in phases:
            assert {(model.name, phase, "core"), (model.name, phase, "layer")} <= rows
    systems = {label.variant.split("-")[0] for label, _ in found}
    assert {"single", "MHA", "MQA", "GQA", "MLA"} <= systems


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_a_row_says_the_length_it_is_measured_at_and_the_models_own(device, dtype):
    for label, line in labelled(device, dtype):
        (problem,) = line.problems
        assert problem.T_kv == label.T <= label.own_T
        assert label.own_T == models()[label.model].typical_T
        assert problem.T_q == (1 if label.phase == "decode" else label.T)
        assert (problem.around is None) == (label.part == "core")


def test_a_gpu_measures_almost_every_model_at_its_own_length():
    shorter = {label.model for label, _ in labelled("cuda", "bfloat16") if label.own_T != label.T}
    assert shorter == {"deepseek-v2"}


def test_on_a_cpu_a_call_is_affordable_and_twice_the_length_would_not_be():
    """Counted here from the layer's weights, independently of the sweep's own count."""
    most_core, most_layer = bench_models.MOST_FLOP["cpu"]
    for label, line in labelled("cpu", "bfloat16"):
        (problem,) = line.problems
        core = problem.with_(around=None)
        weights = layer_cost.weights(problem.around.shape) if problem.around else 0

        def is_affordable(times, core=core, weights=weights):
            T_q = core.T_q if core.T_q == 1 else times * core.T_q
            core_flop = cost.flop(core.with_(T_q=T_q, T_kv=times * core.T_kv))
            return core_flop <= most_core and core_flop + 2 * T_q * weights <= most_layer

        assert is_affordable(1) or label.T < 2 * bench_models.SHORTEST_T
        assert label.own_T == label.T or not is_affordable(2), label


def test_full_width_is_kept_whatever_the_length():
    for label, line in labelled("cpu", "bfloat16"):
        shape = models()[label.model].shape.layer
        (problem,) = line.problems
        if problem.around is not None:
            assert problem.around.shape.d_model == shape.d_model
            assert problem.around.shape.d_h == shape.d_h
        assert problem.H * label.ranks == shape.H and problem.B == 1


def test_a_layer_too_heavy_for_a_cpu_is_one_rank_of_it():
    """Megatron's division: each rank has H / ranks heads, and at least one kv head."""
    found = {
        (label.model, label.phase, label.part): (label, line.problems[0])
        for label, line in labelled("cpu", "bfloat16")
    }
    for model, ranks, H, H_kv in (
        ("gpt-3-175b", 16, 6, 6),
        ("llama-2-70b", 4, 16, 2),
        ("palm-540b", 16, 3, 1),
        ("deepseek-v2", 4, 32, 32),
        ("bert-large", 1, 16, 16),
        ("mistral-7b", 1, 32, 8),
    ):
        label, problem = found[model, "prefill", "layer"]
        assert label.ranks == ranks and problem.around is not None
        assert (problem.around.shape.H, problem.around.shape.H_kv) == (H, H_kv)
        assert found[model, "prefill", "core"][0].ranks == 1
    most = bench_models.MOST_WEIGHTS["cpu"]
    assert all(layer_cost.weights(p.around.shape) <= most for _, p in found.values() if p.around)
    assert all(label.ranks == 1 for label, _ in labelled("cuda", "bfloat16"))


def test_a_window_is_kept_where_it_hides_a_key_and_nowhere_else():
    windows = {
        (label.model, label.phase, label.part): line.problems[0].window
        for label, line in labelled("cpu", "bfloat16")
        if "window" in label.variant
    }
    assert windows["mistral-7b", "decode", "core"] == 4096
    assert windows["mistral-7b", "decode", "layer"] == 4096
    assert windows["mistral-7b", "prefill", "core"] is None
    assert windows["gemma-2-9b", "decode", "core"] == 4096


def test_whom_a_cpu_has_time_for_can_do_each_problem():
    known = implementations()
    for label, line in labelled("cpu", "bfloat16"):
        assert line.implementations
        for name in line.implementations:
            assert reasons_against(known[name], line.problems[0], "cpu") == [], label
    assert all(line.implementations is None for _, line in labelled("cuda", "bfloat16"))


def test_all_models_get_their_cores_before_any_gets_its_layer():
    parts = [label.part for label, _ in labelled("cpu", "bfloat16")]
    assert parts == sorted(parts)


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_head_counts_are_those_of_the_paper_at_its_width(device, dtype):
    for line in bench_head_count.series(device, dtype):
        assert sorted(p.H for p in line.problems) == [1, 4, 8, 16, 32]
        assert {p.H * p.d_h for p in line.problems} == {512}
        assert {cost.flop(p.with_(around=None)) for p in line.problems} == {
            cost.flop(line.problems[0].with_(around=None))
        }
        assert not any(p.causal for p in line.problems)


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_head_size_moves_alone_past_d_model_on_both_sides(device, dtype):
    core, layer = bench_head_size_independent.series(device, dtype)
    for line in (core, layer):
        assert {p.d_h for p in line.problems} >= {16, 128, 512}
        assert len({p.with_(d_h=1, d_v=1, around=None) for p in line.problems}) == 1
    widths = [(p.H * p.d_h, p.around.shape.d_model) for p in layer.problems if p.around]
    assert {d_model for _, d_model in widths} == {8192}
    assert min(widths)[0] < 8192 < max(widths)[0]


def test_a_pruned_problem_is_the_layer_that_pruning_makes():
    for line in bench_pruned_heads.series("cpu", "float32"):
        shapes = [p.around.shape for p in line.problems if p.around]
        assert {100 * s.H * s.d_h / s.d_model for s in shapes} == {100, 75, 50, 25, 12.5}
        # On a narrow layer of as many heads: which go is all that counts.
        whole = AttentionLayer(LayerShape(d_model=64, H=32, d_h=16))
        for shape in shapes:
            keep = torch.arange(32) < shape.H
            left = pruned(whole, keep).shape
            assert (left.H, left.H_kv) == (shape.H, shape.H_kv)
            share = layer_cost.weights(left) / layer_cost.weights(whole.shape)
            full = LayerShape(d_model=4096, H=32, d_h=128)
            assert share == layer_cost.weights(shape) / layer_cost.weights(full)


@pytest.mark.parametrize("module", MINE)
def test_a_quick_look_is_not_made_longer_by_them(module):
    assert module.BUDGETS == ("default", "full")


def item(suite, series, problem, name="naive"):
    (cell,) = cells(
        suite, [Series(series, (problem,))], [implementations()[name]],
        passes=["forward"], cache="hot", device="cpu", threads=1,
    )  # fmt: skip
    return SimpleNamespace(callspec=SimpleNamespace(params={"cell": cell}), fixturenames=["cell"])


def test_the_same_cell_in_two_series_is_a_row_of_both_and_once_in_each():
    """Llama-2-7B and OLMo-7B are one problem: the second had no row, and a line of T a gap."""
    one, other = (line.problems[0] for _, line in labelled("cpu", "bfloat16")[:2])
    items = [
        item("models", "a", one),
        item("models", "b", one),
        item("decode", "a", one),
        item("models", "a", other),
        item("models", "a", one),
        SimpleNamespace(fixturenames=["cell"]),
        SimpleNamespace(fixturenames=[]),
    ]
    dropped = []
    config: Any = SimpleNamespace(
        stash={}, hook=SimpleNamespace(pytest_deselected=lambda items: dropped.extend(items))
    )
    kept: list[Any] = list(items)
    selection.drop_duplicates(config, kept)
    assert kept == [*items[:4], items[6]] and dropped == items[4:6]


def test_a_series_names_its_implementations_and_the_others_are_not_measured():
    problem = bench_head_count.series("cpu", "float32")[0].problems[0]
    lines = [Series("all", (problem,)), Series("one", (problem,), implementations=("chunked",))]
    every = [implementations()[name] for name in ("naive", "chunked")]
    found = cells("s", lines, every, passes=["forward"], cache="hot", device="cpu", threads=1)
    assert [(c.series, c.implementation.name) for c in found] == [
        *(("all", "naive"), ("all", "chunked"), ("one", "chunked"))
    ]


def test_a_series_without_further_looks_is_planned_and_measured_once():
    problem = bench_head_count.series("cpu", "float32")[0].problems[0]
    lines = [Series("often", (problem,)), Series("once", (problem,), is_looked_at_again=False)]
    often, once = cells(
        "s", lines, [implementations()["naive"]], passes=["forward"], cache="hot", device="cpu",
        threads=1,
    )  # fmt: skip
    speed = {("naive", "float32"): Speed(1e11, 1e11, 1e11)}
    budget = Budget.of("quick", 90.0)
    planned = decide([often, once], speed, budget, device="cpu", unavailable={}, free_bytes=None)
    assert planned[0].estimate_s > 4 * planned[1].estimate_s
    samples = SimpleNamespace(calls_per_sample=1, wall_samples_s=(), samples_s=(0.001,) * 10)
    for cell, count in ((often, 1), (once, 0)):
        looks = Looks()
        looks.add(cell, {}, {"samples": samples}, Unused())
        assert len(looks._seen) == count
    every = [line for _, line in labelled("cpu", "bfloat16")]
    assert not any(line.is_looked_at_again for line in every)


class Unused:
    """A sink that nothing is recorded in."""

    def record(self, samples_s, **named):
        raise AssertionError

    def replace(self, samples_s):
        raise AssertionError
