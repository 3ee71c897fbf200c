"""What a cell measures: a problem's inputs, the calls made of them, what is expected of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from impls.interface.check import Check
from impls.interface.cost import Cost
from impls.interface.problem import SOFTMAX, Problem
from suites.session import core_subject, layer_subject, operator_subject
from suites.session.sweep import Cell


class Call(Protocol):
    """One pass over one problem as a zero-argument call: what stands inside the clock."""

    prepare_s: float
    """How long it took to make, outside any clock."""

    def run(self) -> Any:
        """What is timed."""

    def wait(self) -> None:
        """Until all that was called has been computed."""


class Subject(Protocol):
    """One problem on one device: its inputs and the float64 answers, for all implementations."""

    problem: Problem

    def call(self, cell: Cell, seed: int = 0) -> Any:
        """A `Call` of the cell's implementation and pass; another seed is on inputs of its own."""

    def check(self, call: Any) -> Check:
        """Whether what a call of it gives is right."""
        ...

    def check_turned(self, call: Any) -> Check:
        """The same after timing, on other values in the same memory.

        A kernel that keeps a result, or its weights, was not timed computing them.
        """
        ...

    def put_back(self) -> list[str]:
        """The names of the inputs that a call wrote into; they have their values again."""
        ...


class Kind(Protocol):
    """A kind of problem: how its work is counted, and how it is set up."""

    cost: Callable[[Problem, str, str], Cost]
    """`cost(problem, pass_, flop_convention)`: pure arithmetic."""
    subject: Callable[[Problem, str, bool], Any]
    """`subject(problem, device, backward)`: a `Subject`, with answers for gradients if asked."""


def kind_of(problem: Problem) -> Kind:
    """How problems such as this one are counted and measured."""
    if problem.around is not None:
        return layer_subject.KIND
    return core_subject.KIND if problem.operator == SOFTMAX else operator_subject.KIND


def cost_of(problem: Problem, pass_: str, convention: str = "exact") -> Cost:
    """What the problem costs, whatever its kind."""
    return kind_of(problem).cost(problem, pass_, convention)


class SubjectMemory:
    """The subject of the last problem: one for all implementations.

    No more are kept. Each look then makes the inputs anew in memory that was let go, so that no
    problem keeps the luck of one placement, and calls find the heap as every other look did: with
    half a GB of subjects kept, 77 to 89 % of the cells of two runs agreed within 5 %, not 100 %.
    """

    def __init__(self) -> None:
        """None yet."""
        self._kept: tuple[tuple[Problem, str, bool], Subject] | None = None

    def of(self, problem: Problem, device: str, backward: bool) -> Subject:
        """The subject of `problem`; that of the problem before is let go first."""
        key = (problem, device, backward)
        if self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        self._kept = None
        subject: Subject = kind_of(problem).subject(*key)
        self._kept = (key, subject)
        return subject
