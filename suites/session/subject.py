"""What a cell measures: a problem's inputs, the calls made of them, what is expected of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from impls.interface.check import Check
from impls.interface.cost import Cost
from impls.interface.problem import SOFTMAX, Problem
from suites.session import core_subject, layer_subject, operator_subject
from suites.session.sweep import Cell

KEPT_BYTES = 512 * 2**20
"""What the subjects that are kept between looks may take together."""


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


def held_bytes(problem: Problem, pass_: str) -> int:
    """What its inputs take, and the copy that tells what a call wrote into."""
    return 2 * cost_of(problem, pass_).compulsory_bytes


class SubjectMemory:
    """The subjects of problems, each made once for all implementations and looks.

    Those that fit together in `KEPT_BYTES` stay; of the others only the last one does.
    """

    def __init__(self) -> None:
        """None yet."""
        self._kept: dict[tuple[Problem, str, bool], Subject] = {}
        self._kept_bytes = 0
        self._last: tuple[tuple[Problem, str, bool], Subject] | None = None

    def of(self, problem: Problem, device: str, backward: bool) -> Subject:
        """The subject of `problem`; that of the problem before may be let go first."""
        key = (problem, device, backward)
        if key in self._kept:
            return self._kept[key]
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None
        subject: Subject = kind_of(problem).subject(*key)
        n_bytes = held_bytes(problem, "backward" if backward else "forward")
        if self._kept_bytes + n_bytes <= KEPT_BYTES:
            self._kept_bytes += n_bytes
            self._kept[key] = subject
        else:
            self._last = (key, subject)
        return subject
