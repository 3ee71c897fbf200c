"""Further looks: pooled samples, and what a look may and may not change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suites.measure import host_load
from suites.measure.pace import Pace
from suites.measure.samples import Samples, Settings, pooled
from suites.session.cell import measure_cell
from suites.session.looks import LEAST_LOOKS, LOOKS, MOST_LOOKS, Looks
from suites.session.subject import SubjectMemory
from tests.test_cell import CONDITIONS, NAIVE, cell_of, fake

BRIEF = replace(CONDITIONS, settings=Settings(budget_s=0.02, min_span_s=0.0))
QUIET = host_load.HostLoad(0.0, 0.0, 0, 0.0)
FIRST = Samples(
    clock="cpu_time",
    cache="hot",
    samples_s=(1.0, 2.0, 3.0),
    wall_samples_s=(1.0, 2.0, 3.0),
    stop="budget",
    first_call_s=9.0,
    warmup_n=2,
    floor_s=1e-6,
    calls_per_sample=1,
    host=QUIET,
    flags=("low_n", "contended"),
)


@pytest.fixture
def naive(fake_time):
    """Naive attention that takes a millisecond."""
    return taking(1e-3, fake_time)


def taking(seconds, fake_time):
    def forward(q, k, v, **arguments):
        fake_time.compute(seconds)
        return NAIVE.forward(q, k, v, **arguments)

    return fake(forward)


class Sink:
    def __init__(self) -> None:
        self.samples_s: list[float] = []

    def record(self, samples_s, **named) -> None:
        self.samples_s += samples_s

    def replace(self, samples_s) -> None:
        self.samples_s = list(samples_s)


def test_pooled_samples_are_those_of_both_looks_and_flags_are_judged_anew():
    again = replace(FIRST, samples_s=(2.0,) * 9, wall_samples_s=(2.0,) * 9, flags=())
    both = pooled([FIRST, again], Settings())
    assert both.samples_s == (1.0, 2.0, 3.0, *(2.0,) * 9) and both.warmup_n == 4
    assert both.first_call_s == 9.0
    assert both.flags == (), "twelve samples are enough, and one look was quiet"


@pytest.mark.parametrize(("clock", "kept"), [("cpu_time", False), ("wall", True)])
def test_one_contended_look_counts_on_the_wall_clock_alone(clock, kept):
    first = replace(FIRST, clock=clock)
    both = pooled([first, replace(first, flags=())], Settings(min_samples=1, least_samples=1))
    assert ("contended" in both.flags) == kept


def looks_at(kernel):
    cell, memory, sink, written = cell_of(kernel), SubjectMemory(), Sink(), []
    fields = measure_cell(cell, BRIEF, memory)
    looks = Looks()
    looks.add(cell, {"cell": cell.key}, fields, sink)
    wrong = looks.again(BRIEF, memory, write=written.append, tell=lambda _: None)
    return fields, written, wrong, sink


def test_every_look_writes_the_cell_anew_with_more_samples(naive):
    fields, written, wrong, sink = looks_at(naive)
    assert len(written) == LOOKS - 1 and wrong == []
    counts = [fields["timing"]["n"], *(record["timing"]["n"] for record in written)]
    assert counts == sorted(counts) and counts[0] < counts[-1]
    assert counts[-1] == len(sink.samples_s)
    assert written[-1]["host"]["looks"] == LOOKS and written[-1]["host"]["looks_set_aside"] == 0
    assert written[-1]["timing"]["first_call_s"] == fields["timing"]["first_call_s"]
    assert all("samples" not in record for record in written)


@pytest.mark.parametrize(
    ("seconds", "n_looks"), [(-1.0, LEAST_LOOKS), (1e-9, LEAST_LOOKS), (60.0, LOOKS)]
)
def test_looks_end_with_the_time_planned_but_not_before_the_least(naive, seconds, n_looks):
    cell, memory, told, written = cell_of(naive), SubjectMemory(), [], []
    looks = Looks()
    looks.add(cell, {"cell": cell.key}, measure_cell(cell, BRIEF, memory), Sink())
    looks.end_after(seconds)
    assert looks.due_s() <= max(seconds, LEAST_LOOKS)
    assert looks.again(BRIEF, memory, write=written.append, tell=told.append) == []
    assert written[-1]["host"]["looks"] == n_looks
    assert ("time planned is spent" in told[-1]) == (n_looks < LOOKS)


def test_a_cell_whose_samples_span_a_second_is_not_looked_at_again(fake_time):
    _, written, wrong, _ = looks_at(taking(0.5, fake_time))
    assert (written, wrong) == ([], [])


def test_a_kernel_that_turns_wrong_later_is_caught_by_a_look(naive):
    calls = [0]

    def turning(q, k, v, **arguments):
        calls[0] += 1
        return naive.forward(q, k, v, **arguments) * (1.0 if calls[0] <= first_calls else 1.1)

    first_calls = 10**9
    cell, memory = cell_of(fake(turning)), SubjectMemory()
    fields = measure_cell(cell, BRIEF, memory)
    first_calls = calls[0]
    looks = Looks()
    looks.add(cell, {}, fields, Sink())
    written: list = []
    wrong = looks.again(BRIEF, memory, write=written.append, tell=lambda _: None)
    assert wrong == [cell] and [record["status"] for record in written] == ["wrong"]


def test_a_look_that_raises_changes_nothing(naive):
    calls = [0]

    def tiring(q, k, v, **arguments):
        calls[0] += 1
        if calls[0] > limit:
            raise RuntimeError("no more")
        return naive.forward(q, k, v, **arguments)

    limit = 10**9
    cell, memory = cell_of(fake(tiring)), SubjectMemory()
    fields = measure_cell(cell, BRIEF, memory)
    limit = calls[0]
    looks = Looks()
    looks.add(cell, {}, fields, Sink())
    written: list = []
    assert looks.again(BRIEF, memory, write=written.append, tell=lambda _: None) == []
    assert written == []


class Scripted(Pace):
    """A machine whose pace is told beforehand, two readings a look."""

    def __init__(self, paces_s) -> None:
        super().__init__()
        self._paces_s = iter(paces_s)

    def read(self) -> float:
        pace_s = next(self._paces_s)
        self.best_s = min(self.best_s, pace_s)
        return pace_s


@pytest.mark.parametrize(
    ("disturbed", "n_looks", "n_aside"),
    [
        ([], LOOKS, 0),
        ([2], LOOKS, 1),
        ([1, 2, 3], LOOKS + 1, 3),
        (range(1, 40), MOST_LOOKS, 0),
    ],
)
def test_disturbed_looks_are_set_aside_and_taken_again(naive, disturbed, n_looks, n_aside):
    """Disturbed is a look beside which a fixed work took longer, before it or after it."""
    paces_s = [1.0, 1.0]
    for look in range(1, MOST_LOOKS):
        paces_s += [1.03, 1.2 if look in disturbed else 1.0]
    conditions = replace(BRIEF, pace=Scripted(paces_s))
    cell, memory, sink = cell_of(naive), SubjectMemory(), Sink()
    fields = measure_cell(cell, conditions, memory)
    looks, written = Looks(), []
    looks.add(cell, {"cell": cell.key}, fields, sink)
    looks.again(conditions, memory, write=written.append, tell=lambda _: None)
    host = written[-1]["host"]
    assert (host["looks"], host["looks_set_aside"]) == (n_looks, n_aside)
    assert written[-1]["timing"]["n"] == len(sink.samples_s)


def test_a_reading_is_the_steady_time_of_the_work():
    now = iter([0.0, 0.004, 0.008, 0.112, 0.116, 0.12])
    pace = Pace(clock=lambda: next(now))
    assert pace.read() == pytest.approx(0.004) and pace.best_s == pytest.approx(0.004)
    assert not pace.is_disturbed(0.00415) and pace.is_disturbed(0.00417)
    assert not pace.is_disturbed(None)
