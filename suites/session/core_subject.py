"""Attention itself as the subject of a cell: q, k and v, and what they should give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from impls.interface import cost
from impls.interface.check import Check, check_output, poisoned_empty
from impls.interface.inputs import Inputs, copy_of, make_inputs, put_back
from impls.interface.problem import Problem
from impls.interface.reference import Reference, reference
from suites.session.call import Call
from suites.session.other_inputs import OTHER_SEED, has_turn, replaced, turned, turned_back
from suites.session.sweep import Cell


class CoreSubject:
    """The inputs of one attention problem and their float64 reference."""

    def __init__(self, problem: Problem, device: str, backward: bool) -> None:
        """Both are made here, outside any clock."""
        self.problem, self._device, self._backward = problem, device, backward
        self._inputs = make_inputs(problem, device)
        self._expected = self.expected_of(self._inputs, backward)
        self._expected_of_others: Reference | None = None
        self._before = copy_of(self._inputs)

    def expected_of(self, inputs: Inputs, backward: bool) -> Reference:
        """What a call should give of these inputs, in float64."""
        return reference(inputs, self.problem, gradients=backward)

    def call(self, cell: Cell, seed: int = 0) -> Call:
        """A call of the cell's implementation; another seed is on inputs of its own."""
        inputs = make_inputs(self.problem, self._device, seed=seed) if seed else self._inputs
        return Call(cell, inputs, self._device)

    def check(self, call: Call) -> Check:
        """Its outputs against float64, with uninitialised memory poisoned."""
        return _checked(call, _poisoned_outputs(call), self._expected)

    def check_turned(self, call: Call) -> Check:
        """The check after timing, on other values in the same memory."""
        backward_alone = call.cell.pass_ == "backward"
        if backward_alone or has_turn(self.problem):
            with turned(call.inputs, self.problem, backward_alone):
                outputs = _poisoned_outputs(call)
            back, expected = turned_back(outputs, backward_alone), self._expected
        else:
            back, expected = self._of_others(call)
            outputs = back
        found = _checked(call, back, expected, after_timing=True)
        if not found.ok and _checked(call, outputs, self._expected).ok:
            why = "it gave the same result when its inputs had changed: a result is kept"
            return replace(found, reasons=(why,))
        return found

    def _of_others(self, call: Call) -> tuple[Mapping[str, torch.Tensor], Reference]:
        """What it gives of other values in the same memory, and what it should give."""
        others = make_inputs(self.problem, self._device, seed=OTHER_SEED)
        with replaced(call.inputs, others):
            outputs = _poisoned_outputs(call)
        if self._expected_of_others is None:
            self._expected_of_others = self.expected_of(others, self._backward)
        return outputs, self._expected_of_others

    def put_back(self) -> list[str]:
        """The names of the inputs that a call wrote into; they have their values again."""
        return put_back(self._inputs, self._before)


def _poisoned_outputs(call: Call) -> Mapping[str, torch.Tensor]:
    try:
        with poisoned_empty():
            return call.outputs()
    except RuntimeError as error:
        if "use_deterministic_algorithms" not in str(error):
            raise
    # A compiled backward refuses the switch that fills memory where its forward ran without it.
    return call.outputs()


def _checked(
    call: Call,
    outputs: Mapping[str, torch.Tensor],
    expected: Reference,
    after_timing: bool = False,
) -> Check:
    gradients = [outputs[n] for n in ("dq", "dk", "dv")] if "dq" in outputs else None
    return check_output(
        *(outputs["out"], None, gradients, expected),
        allowed_error=call.cell.implementation.allowed_error,
        after_timing=after_timing,
    )


@dataclass(frozen=True)
class _Core:
    cost = staticmethod(cost.cost)
    subject = CoreSubject


KIND = _Core()
