"""One cell from problem to record, in this process."""

from __future__ import annotations

import itertools
import signal
import time
from dataclasses import replace

import pytest
import torch

from impls.interface.attention import Implementation
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from suites.measure.samples import Settings
from suites.session.call import Call
from suites.session.cell import Conditions, measure_cell, time_limit
from suites.session.faults import CompileTimeout, SilentFallback
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.suite_process import ROOFS

PROBLEM = Problem(B=1, T_q=33, T_kv=65, H=4, H_kv=2, d_h=24, d_v=24, causal=True)
CONDITIONS = Conditions(
    device="cpu",
    settings=Settings(budget_s=0.2),
    ceilings=ROOFS,
    flop_convention="exact",
    compile_limit_s=60.0,
)
NAIVE = implementations()["naive"]


def cell_of(implementation: Implementation, problem: Problem = PROBLEM, pass_: str = "forward"):
    return Cell(implementation, problem, pass_, "hot", "cpu_time", "test", "test")


def fake(forward, **declared) -> Implementation:
    return Implementation(name="fake", forward=forward, summary="fake", **declared)


@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
def test_every_pass_is_proven_against_float64_and_timed(pass_):
    found = measure_cell(cell_of(NAIVE, pass_=pass_), CONDITIONS, SubjectMemory())
    assert found["status"] == "ok" and found["check"]["after_timing"]
    proven = {"out"} if pass_ == "forward" else {"out", "dq", "dk", "dv"}
    assert set(found["check"]["outputs"]) == proven
    assert found["timing"]["n"] >= 3 and found["timing"]["first_call_s"] > 0
    nominal = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}[pass_]
    pairs = sum(min(65, i + 1 + 32) for i in range(33))
    assert found["counts"]["flop"] == nominal * 2 * 4 * pairs * (24 + 24)


@pytest.mark.parametrize("pass_", ["backward", "forward_backward"])
def test_gradients_of_two_calls_are_the_same_and_never_added_up(pass_):
    inputs = make_inputs(PROBLEM, "cpu")
    call = Call(cell_of(NAIVE, pass_=pass_), inputs, "cpu")
    # Kept apart: gradients that are added up in place are the same tensors in both.
    first, second = ([t.clone() for t in call.run()] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(t.grad is None for t in (inputs.q, inputs.k, inputs.v))


def test_a_wrong_gradient_behind_a_right_output_is_wrong():
    class Crooked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, out):
            return out.clone()

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] * torch.nan

    crooked = fake(lambda q, k, v, **a: Crooked.apply(NAIVE.forward(q, k, v, **a)))
    forward = measure_cell(cell_of(crooked), CONDITIONS, SubjectMemory())
    both = measure_cell(cell_of(crooked, pass_="forward_backward"), CONDITIONS, SubjectMemory())
    assert (forward["status"], both["status"]) == ("ok", "wrong")
    assert any("dq" in why for why in both["reasons"])


def test_another_kernel_than_was_asked_for_is_an_error():
    impostor = fake(NAIVE.forward, runs=("_scaled_dot_product_flash_attention",))
    with pytest.raises(SilentFallback, match=r"asked for fake, but none of .* ran: .*bmm"):
        measure_cell(cell_of(impostor), CONDITIONS, SubjectMemory())


def test_what_ran_comes_from_a_profile_of_the_call():
    found = measure_cell(
        cell_of(implementations()["sdpa_flash"], PROBLEM.with_(H_kv=4, T_q=65)),
        CONDITIONS,
        SubjectMemory(),
    )
    assert any("_scaled_dot_product_flash_attention_for_cpu" in name for name in found["ran"])


def test_an_asynchronous_kernel_is_timed_until_its_work_is_done():
    import threading

    workers: list[threading.Thread] = []

    def forward(q, k, v, **arguments):
        worker = threading.Thread(target=time.sleep, args=(0.02,))
        worker.start()
        workers.append(worker)
        return NAIVE.forward(q, k, v, **arguments)

    def join():
        while workers:
            workers.pop().join()

    cell = replace(cell_of(fake(forward, synchronize=join)), clock="wall")
    found = measure_cell(cell, CONDITIONS, SubjectMemory())
    assert found["timing"]["min_s"] >= 0.02


def test_a_slow_first_call_has_its_own_column(fake_time):
    lengths_s = itertools.chain([0.3], itertools.repeat(0.001))

    def forward(q, k, v, **arguments):
        fake_time.compute(next(lengths_s))
        return NAIVE.forward(q, k, v, **arguments)

    found = measure_cell(cell_of(fake(forward)), CONDITIONS, SubjectMemory())
    assert found["timing"]["first_call_s"] == pytest.approx(0.3, rel=1e-3)
    assert found["timing"]["wall_median_s"] == pytest.approx(0.001, rel=1e-3)


def test_compiling_too_long_is_a_timeout_and_the_alarm_is_put_back():
    """Case K03, torchdynamo#2008: one compilation outlasted the run."""

    def prepare(problem, device):
        time.sleep(600)

    before = signal.getsignal(signal.SIGALRM)
    slow = fake(NAIVE.forward, prepare=prepare, needs_compiler=True)
    impatient = replace(CONDITIONS, compile_limit_s=0.2)
    started = time.monotonic()
    with pytest.raises(CompileTimeout, match=r"longer than 0\.2 s"):
        measure_cell(cell_of(slow), impatient, SubjectMemory())
    assert time.monotonic() - started < 300, "it was not waited for"
    assert signal.getsignal(signal.SIGALRM) == before
    with time_limit(None, "nothing"):
        pass


def test_a_first_call_that_does_not_end_is_a_timeout():
    def forward(q, k, v, **arguments):
        time.sleep(600)

    impatient = replace(CONDITIONS, compile_limit_s=0.2)
    with pytest.raises(CompileTimeout, match=r"the first call took longer than 0\.2 s"):
        measure_cell(cell_of(fake(forward)), impatient, SubjectMemory())


def test_a_brought_kernel_that_compiles_is_compiled_for_every_size():
    """torch.compile silently runs a function eagerly once it has met more than 8 sizes."""
    frames = []

    def counting(graph, example_inputs):
        frames.append(1)
        return graph.forward

    compiled = torch.compile(
        lambda q, k, v: torch.softmax(q @ k.mT / 24**0.5, -1) @ v, dynamic=False, backend=counting
    )
    kernel = fake(lambda q, k, v, **_: compiled(q, k, v))
    brief = replace(CONDITIONS, settings=Settings(budget_s=0.001, min_samples=3), is_timed=False)
    for T in range(2, 15):
        problem = PROBLEM.with_(T_q=T, T_kv=T, H_kv=4, causal=False)
        measure_cell(cell_of(kernel, problem), brief, SubjectMemory())
    assert len(frames) >= 13


def test_the_reference_is_made_once_for_all_implementations_of_a_problem():
    memory = SubjectMemory()
    first = memory.of(PROBLEM, "cpu", False)
    assert memory.of(PROBLEM, "cpu", False) is first
    assert memory.of(PROBLEM, "cpu", True) is not first
    assert memory.of(PROBLEM.with_(B=2), "cpu", True).problem == PROBLEM.with_(B=2)


PASSES = ["forward", "backward", "forward_backward"]


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("layout", ["bhtd", "packed"])
def test_a_kernel_that_writes_into_its_inputs_is_wrong_and_spoils_no_other(pass_, layout):
    """Written past autograd, as a kernel with raw pointers does."""

    def forward(q, k, v, **arguments):
        out = NAIVE.forward(q, k, v, **arguments)
        k.data.mul_(1.5)
        return out

    problem = PROBLEM.with_(T_q=33, T_kv=33, H_kv=4, layout=layout)
    memory = SubjectMemory()
    found = measure_cell(cell_of(fake(forward), problem, pass_), CONDITIONS, memory)
    assert found["status"] == "wrong" and not found["check"]["ok"]
    assert found["reasons"][0] == "it wrote into its inputs: k"
    after = measure_cell(cell_of(NAIVE, problem, pass_), CONDITIONS, memory)
    assert after["status"] == "ok"


def test_a_backward_that_writes_into_the_gradient_it_is_given_is_wrong():
    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, out):
            return out.clone()

        @staticmethod
        def backward(ctx, *grads):
            given = grads[0].clone()
            grads[0].data.zero_()
            return given

    greedy = fake(lambda q, k, v, **a: Greedy.apply(NAIVE.forward(q, k, v, **a)))
    memory = SubjectMemory()
    found = measure_cell(cell_of(greedy, pass_="forward_backward"), CONDITIONS, memory)
    assert found["reasons"][0] == "it wrote into its inputs: d_out"
    after = measure_cell(cell_of(NAIVE, pass_="forward_backward"), CONDITIONS, memory)
    assert after["status"] == "ok"


@pytest.mark.parametrize("pass_", PASSES)
def test_a_kernel_that_keeps_its_result_is_wrong(pass_):
    kept = {}

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            return kept.setdefault("out", NAIVE.forward(q, k, v, causal=True)).clone()

        @staticmethod
        def backward(ctx, *grads):
            if "gradients" not in kept:
                leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
                with torch.enable_grad():
                    out = NAIVE.forward(*leaves, causal=True)
                kept["gradients"] = torch.autograd.grad(out, leaves, grads[0])
            return tuple(g.clone() for g in kept["gradients"])

    lazy = fake(lambda q, k, v, **a: Kept.apply(q, k, v))
    found = measure_cell(cell_of(lazy, pass_=pass_), CONDITIONS, SubjectMemory())
    assert found["status"] == "wrong"
    assert found["reasons"] == [
        "it gave the same result when its inputs had changed: a result is kept"
    ]


def test_an_asynchronous_result_is_checked_when_it_has_arrived():
    import threading

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

    cell = replace(cell_of(fake(forward, synchronize=join)), clock="wall")
    assert measure_cell(cell, CONDITIONS, SubjectMemory())["status"] == "ok"


def test_time_above_the_ceiling_is_flagged():
    slow_roofs = ROOFS | {"gemm": {"float32": ROOFS["gemm"]["float32"] | {"flop_per_s": 1e6}}}
    found = measure_cell(cell_of(NAIVE), replace(CONDITIONS, ceilings=slow_roofs), SubjectMemory())
    assert "above_ceiling" in found["flags"]


def test_a_short_cell_costs_seven_calls_beside_its_warm_up_and_its_samples(fake_time):
    """The first call, one for each check, three for the profile, and one that is counted."""
    calls = []

    def forward(q, k, v, **arguments):
        calls.append(fake_time.compute(0.001))
        return NAIVE.forward(q, k, v, **arguments)

    # The target is out of reach, so that sampling takes its whole budget.
    settings = Settings(budget_s=0.1, target=1e-9)
    found = measure_cell(
        cell_of(fake(forward)), replace(CONDITIONS, settings=settings), SubjectMemory()
    )
    timing = found["timing"]
    assert timing["stop"] == "budget" and timing["n"] == pytest.approx(50, abs=1)
    sampled = timing["n"] * timing["calls_per_sample"]
    assert len(calls) == 7 + timing["warmup_n"] + sampled
