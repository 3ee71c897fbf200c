"""What is counted of one call: operators, torch's own FLOP, allocations, compilations."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from impls.interface.attention import Implementation
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from suites.measure.counters import (
    Compilations,
    Operators,
    compilations,
    operators_of,
)
from suites.measure.executed import _Event, _kernels, executed
from suites.measure.samples import Settings
from suites.session.cell import Conditions, measure_cell
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.suite_process import ROOFS

PROBLEM = Problem(B=1, T_q=63, T_kv=63, H=3, H_kv=3, d_h=40, d_v=40)
CONDITIONS = Conditions(
    device="cpu",
    settings=Settings(budget_s=0.001, min_samples=3),
    ceilings=ROOFS,
    flop_convention="exact",
    compile_limit_s=60.0,
    is_timed=False,
)


def counted(forward, problem=PROBLEM, pass_="forward"):
    """The record of one cell of a kernel: its `counters` and its `memory`."""
    kernel = (
        forward
        if isinstance(forward, Implementation)
        else Implementation(name="fake", forward=forward, summary="fake")
    )
    cell = Cell(kernel, problem, pass_, "hot", "cpu_time", "test", "test")
    found = measure_cell(cell, CONDITIONS, SubjectMemory())
    return found["counters"], found["memory"]


def test_every_operator_counts_once_and_a_view_is_one():
    x = torch.randn(7, 5)
    assert operators_of(lambda: x + 1) == Operators(1, None)
    assert operators_of(lambda: (x + 1).T.exp()).operators == 3
    assert operators_of(lambda: None) == Operators(0, None)


@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_torchs_flop_of_the_plain_formula_are_ours_where_nothing_is_masked(pass_):
    """Two products of (63, 40) and (40, 63) a head forward; their gradients are two each."""
    counters, _ = counted(implementations()["naive"], pass_=pass_)
    one = 2 * 3 * 63 * 63 * 40
    assert counters["torch_flop"] == {"forward": 2, "forward_backward": 6}[pass_] * one
    # A mask saves the plain formula nothing.
    masked, _ = counted(implementations()["naive"], PROBLEM.with_(causal=True), pass_)
    assert masked["torch_flop"] == counters["torch_flop"]


def test_they_are_those_of_torchs_own_counter():
    q, w = torch.randn(2, 3, 31, 8), torch.randn(5, 8)
    bias = torch.randn(5)

    def call():
        return torch.nn.functional.linear((q @ q.mT).softmax(-1) @ q, w, bias)

    with torch.no_grad(), FlopCounterMode(display=False) as torchs:
        call()
    with torch.no_grad():
        assert operators_of(call).torch_flop == torchs.get_total_flops() > 0


def test_where_torch_has_no_formula_they_are_unknown_not_zero():
    """Torch's own counter gives 0 for SDPA on a CPU; part of a count would be no better."""
    q, v = torch.randn(1, 2, 33, 16), torch.randn(16)
    alone = operators_of(lambda: scaled_dot_product_attention(q, q, q))
    beside = operators_of(lambda: scaled_dot_product_attention(q, q, q) @ q.mT)
    assert alone.operators == 1 and alone.torch_flop is None and beside.torch_flop is None
    assert operators_of(lambda: (q[0, 0] @ v, q[0, 0] @ q[0, 0].mT)).torch_flop is None


def test_a_call_that_cannot_be_counted_is_unknown_and_harms_nothing():
    def fails():
        torch.ones(2)
        raise RuntimeError("no rule for this mode")

    assert operators_of(fails) == Operators(None, None)
    assert operators_of(lambda: torch.ones(2)).operators == 1


def test_one_operator_more_is_seen_in_the_cells_record():
    plain = implementations()["naive"].forward
    before, memory_before = counted(plain)
    after, memory_after = counted(lambda *a, **k: plain(*a, **k).clone())
    assert after["operators"] == before["operators"] + 1
    assert memory_after["allocations"] == memory_before["allocations"] + 1
    out_bytes = 3 * 63 * 40 * 4
    grown = memory_after["allocated_bytes"] - memory_before["allocated_bytes"]
    assert out_bytes <= grown <= out_bytes + 64
    assert before["kernels"] is None
    assert [before[name] for name in ("graphs", "graph_breaks", "recompiles")] == [0, 0, 0]


def test_allocations_of_a_call_are_its_own():
    def twice():
        return torch.empty(1000, dtype=torch.uint8), torch.empty(3000, dtype=torch.uint8)

    memory = executed(twice).memory
    assert (memory.allocations, memory.allocated_bytes) == (2, 4000)


def test_compiled_code_has_graphs_and_breaks_and_no_operators():
    def eagerly(graph, example_inputs):
        return graph.forward

    def formula(q, k, v):
        return torch.softmax(q @ k.mT / 40**0.5, -1) @ v

    def broken(q, k, v):
        scores = q @ k.mT / 40**0.5
        torch._dynamo.graph_break()
        return torch.softmax(scores, -1) @ v

    whole, _ = counted(_compiled(formula, eagerly))
    parted, _ = counted(_compiled(broken, eagerly))
    assert (whole["graphs"], whole["graph_breaks"], whole["operators"]) == (1, 0, None)
    assert (parted["graphs"], parted["graph_breaks"]) == (2, 1)
    assert whole["recompiles"] == parted["recompiles"] == 0


def test_a_kernel_that_is_compiled_at_every_call_shows_it():
    def eagerly(graph, example_inputs):
        return graph.forward

    def anew(q, k, v, **_):
        torch._dynamo.reset()
        return torch.compile(lambda: torch.softmax(q @ k.mT / 40**0.5, -1) @ v, backend=eagerly)()

    counters, _ = counted(anew)
    assert counters["recompiles"] >= 1


def _compiled(function, backend):
    compiled = torch.compile(function, dynamic=False, backend=backend)
    return lambda q, k, v, **_: compiled(q, k, v)


def test_what_is_compiled_before_counts_for_nobody_else():
    before = compilations()
    assert compilations().since(before) == Compilations(0, 0)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    assert compilations().since(before) == Compilations(1, 0)


def test_kernels_are_launches_not_copies():
    events = [
        _Event("flash_fwd_kernel", 9.0, True),
        _Event("Memcpy DtoD (Device -> Device)", 1.0, True),
        _Event("Memset (Device)", 1.0, True),
        _Event("void at::native::vectorized_elementwise_kernel<4>", 1.0, True),
        _Event("aten::add", 3.0, False),
    ]
    assert _kernels(events) == 2


def test_an_operator_of_another_library_may_do_anything():
    library = torch.library.Library("attnbench_test", "DEF")
    library.define("product(Tensor x) -> Tensor")
    library.impl("product", lambda x: torch.from_numpy(x.numpy() @ x.numpy()), "CPU")
    x = torch.randn(8, 8)
    alone = operators_of(lambda: x @ x)
    beside = operators_of(lambda: (x @ x, torch.ops.attnbench_test.product(x)))
    assert alone.torch_flop == 2 * 8**3 and beside.torch_flop is None


@pytest.mark.slow
def test_counting_imports_no_compiler():
    """It would cost every process its seconds, each launch of a comparison too."""
    program = (
        "import sys, torch; from suites.measure.counters import operators_of; "
        "x = torch.ones(2, 2); print(operators_of(lambda: x @ x), 'torch._dynamo' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "Operators(operators=1, torch_flop=16) False"
