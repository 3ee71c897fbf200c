"""A cell that does not fit, or that takes the device with it: named, and never in others' way."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from impls.interface.device_choice import Chosen
from impls.interface.problem import Problem
from impls.naive import naive
from suites.measure import allocator, device
from suites.session import trials, wiring
from suites.session.memory_needed import asked_for, needed_bytes, shortage
from suites.session.session import Session
from tests.suite_process import ROOFS
from tests.test_between_cells import OPTIONS, SINK, cell_of


@pytest.fixture
def session(monkeypatch, tmp_path):
    """Of two cells, in this process: only the ceilings are given."""
    monkeypatch.setattr(trials, "ceilings_for", lambda *_, **__: ROOFS)
    # For the whole process, and for good: not while other tests are in it.
    monkeypatch.setattr(allocator, "make_steady", allocator.policy)
    session = Session(OPTIONS, Chosen("cpu"), None)
    session.begin([cell_of(naive), cell_of(OTHER)], tmp_path, tell=lambda line: None)
    yield session
    session.finish(is_interrupted=False)


OTHER = replace(naive, name="other")


def with_memory(monkeypatch, free_bytes, held_bytes=0):
    facts = replace(device.describe("cpu"), memory_free_bytes=free_bytes)
    monkeypatch.setattr(device, "describe", lambda name: facts)
    monkeypatch.setattr(device, "held_bytes", lambda name: held_bytes)


def test_what_a_cell_needs_is_its_tensors_twice_and_its_scratch():
    cell = cell_of(naive)
    problem = cell.problem
    q = 4 * problem.B * problem.H * problem.T_q * problem.d_h
    k = 4 * problem.B * problem.H_kv * problem.T_kv * problem.d_h
    assert naive.scratch_bytes is not None
    assert needed_bytes(cell) == 2 * (2 * q + 2 * k) + naive.scratch_bytes(problem, "forward")
    plain = replace(cell, implementation=replace(naive, scratch_bytes=None))
    assert needed_bytes(plain) == 2 * (2 * q + 2 * k)


def test_a_cell_that_cannot_fit_is_oom_before_it_is_called(session, monkeypatch):
    with_memory(monkeypatch, free_bytes=1000)
    status, (reason,) = session.measure(cell_of(naive), SINK)
    assert status == "oom" and "needs about" in reason and "1e-06 GB are there" in reason
    assert not (session.directory.path / "running.json").exists()


def test_memory_that_this_process_holds_already_may_be_given_to_the_next_cell(monkeypatch):
    """Freed memory is kept, not given back: it is not free, and yet there."""
    cell = cell_of(naive)
    with_memory(monkeypatch, free_bytes=1000, held_bytes=needed_bytes(cell) - 1000)
    assert shortage(cell, "cpu") is None
    with_memory(monkeypatch, free_bytes=999, held_bytes=needed_bytes(cell) - 1000)
    assert shortage(cell, "cpu") is not None
    with_memory(monkeypatch, free_bytes=None)
    assert shortage(cell, "cpu") is None, "what is unknown refuses nothing"


def test_out_of_memory_says_what_was_asked_for(session, monkeypatch):
    with_memory(monkeypatch, free_bytes=12_000_000_000)
    big = replace(cell_of(naive), problem=Problem.parse("T=4096,H=8,d_h=64"))
    assert asked_for(big, "cpu").startswith("it needs about 1.")
    assert "12 GB are free now" in asked_for(big, "cpu")
    session._open = session._opened(cell_of(naive))
    status, (reason,) = session.fail(torch.OutOfMemoryError("tried to allocate 2 GiB"))
    assert status == "oom" and reason.startswith("tried to allocate 2 GiB (it needs about")


def test_a_lost_device_is_told_and_ends_the_session(session, monkeypatch):
    """A CUDA context that a kernel spoiled fails every later call; here, a device that says so."""
    session._open = session._opened(cell_of(naive))
    monkeypatch.setattr(device, "reason_unusable", lambda name: "the device is lost: planted")
    emptied = []
    monkeypatch.setattr(device, "empty_cache", emptied.append)
    status, reasons = session.fail(RuntimeError("an illegal memory access"))
    assert status == "error"
    assert reasons == ["RuntimeError: an illegal memory access", "the device is lost: planted"]
    assert session.lost and not emptied, "nothing more is asked of a lost device"


@pytest.mark.parametrize("stops", [True, False])
def test_pytest_stops_where_nothing_more_can_be_measured(stops):
    lost = "the device is lost: planted" if stops else None
    running = SimpleNamespace(fail=lambda error: ("error", ["x"]), lost=lost)
    item = SimpleNamespace(
        config=SimpleNamespace(stash={wiring.SESSION: running}),
        session=SimpleNamespace(shouldstop=False),
        callspec=SimpleNamespace(params={"cell": cell_of(naive)}),
    )
    call = SimpleNamespace(excinfo=SimpleNamespace(value=RuntimeError("x")))
    report = SimpleNamespace(outcome="failed")
    assert wiring.conclude(item, call, report).outcome == "failed"  # type: ignore[arg-type]  # of fakes
    assert item.session.shouldstop == (lost or False)


def test_a_cpu_is_never_lost():
    assert device.reason_unusable("cpu") is None
    assert device.held_bytes("cpu") > 0
