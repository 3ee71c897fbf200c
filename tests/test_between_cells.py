"""What one cell leaves to the next: the inputs of their problem, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from impls.interface.attention import Implementation
from impls.interface.device_choice import Chosen
from impls.interface.problem import Problem
from impls.naive import naive
from suites.measure import allocator
from suites.measure.samples import Settings
from suites.session import trials
from suites.session.cell import Conditions, measure_cell
from suites.session.options import Options
from suites.session.session import Session
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from tests.suite_process import ROOFS

PROBLEM = Problem.parse("T_q=7,T_kv=11,H=2,d_h=8,causal")
CONDITIONS = Conditions(
    device="cpu",
    settings=Settings(budget_s=0.02),
    ceilings=ROOFS,
    flop_convention="exact",
    compile_limit_s=60.0,
)
OPTIONS = Options(
    impls=(),
    brought=(),
    problems=None,
    baseline=None,
    device="cpu",
    dtypes=None,
    passes=("forward",),
    threads=1,
    budget="smoke",
    cache=None,
    flop_convention="exact",
    compile_limit_s=60.0,
    shard=None,
    resume=None,
    store=Path("never used"),
    min_samples=None,
    max_time_s=0.02,
)


class _Sink:
    """Takes samples and forgets them."""

    def record(self, samples_s, **named):
        pass

    def replace(self, samples_s):
        pass


SINK = _Sink()


def cell_of(implementation: Implementation, pass_: str = "forward") -> Cell:
    return Cell(implementation, PROBLEM, pass_, "hot", "cpu_time", "test", "test")


def test_one_memory_serves_every_pass_of_a_problem():
    memory = SubjectMemory()
    untimed = replace(CONDITIONS, is_timed=False)
    for pass_ in ("forward", "backward", "forward", "forward_backward"):
        check = measure_cell(cell_of(naive, pass_), untimed, memory)["check"]
        assert check["ok"] and ("dq" in check["outputs"]) == (pass_ != "forward"), pass_


def test_no_graph_is_recorded_in_any_call_of_a_forward_cell():
    modes = []

    def forward(q, k, v, **arguments):
        modes.append(torch.is_grad_enabled())
        return naive.forward(q, k, v, **arguments)

    watched = replace(naive, name="watched", forward=forward)
    found = measure_cell(cell_of(watched), CONDITIONS, SubjectMemory())
    assert len(modes) > found["timing"]["n"] and not any(modes)
    assert torch.is_grad_enabled()


def test_a_kernel_that_spoils_its_inputs_and_fails_spoils_no_other(monkeypatch, tmp_path):
    """The plain session, in this process: only the ceilings are given."""

    def forward(q, k, v, **arguments):
        if q.shape[2] == PROBLEM.T_q:
            k.data.mul_(1.5)
            raise RuntimeError("spilled")
        return naive.forward(q, k, v, **arguments)

    monkeypatch.setattr(trials, "ceilings_for", lambda *_, **__: ROOFS)
    # For the whole process, and for good: not while other tests are in it.
    monkeypatch.setattr(allocator, "make_steady", allocator.policy)
    before, spoiler, after = (
        cell_of(replace(naive, name=name, forward=call))
        for name, call in (
            ("before", naive.forward),
            ("spoiler", forward),
            ("after", naive.forward),
        )
    )
    session = Session(OPTIONS, Chosen("cpu"), None)
    session.begin([before, spoiler, after], tmp_path, tell=lambda line: None)
    try:
        assert session.measure(before, SINK) == ("ok", [])
        with pytest.raises(RuntimeError, match="spilled") as raised:
            session.measure(spoiler, SINK)
        assert session.fail(raised.value) == ("error", ["RuntimeError: spilled"])
        assert session.measure(after, SINK) == ("ok", [])
    finally:
        session.finish(is_interrupted=False)
