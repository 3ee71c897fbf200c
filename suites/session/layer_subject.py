"""A part of a layer as the subject of a cell: tokens, weights, a cache, and what they give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from impls.interface import layer_work
from impls.interface.check import Check, check_each, poisoned_empty
from impls.interface.problem import Problem
from impls.layer.part_inputs import PartInputs, make_part_inputs
from impls.layer.part_reference import PartReference, part_reference
from suites.session.layer_call import LayerCall
from suites.session.layer_turn import has_turn, replaced, turn, turned_back
from suites.session.other_inputs import OTHER_SEED
from suites.session.sweep import Cell


class LayerSubject:
    """The tensors of one part of a layer and its float64 reference."""

    def __init__(self, problem: Problem, device: str, backward: bool) -> None:
        """The inputs are made here, outside any clock; the reference when first compared with."""
        self.problem, self._device, self._backward = problem, device, backward
        self._inputs = make_part_inputs(problem, device, gradients=backward)
        self._before = {name: t.clone() for name, t in self._inputs.given.items()}
        self._written: list[str] = []
        self._expected: tuple[list[torch.Tensor], PartReference] | None = None

    def call(self, cell: Cell, seed: int = 0) -> LayerCall:
        """A call with the cell's implementation; another seed is on tensors of its own."""
        inputs = self._inputs
        if seed:
            inputs = make_part_inputs(
                self.problem, self._device, gradients=self._backward, seed=seed
            )
        return LayerCall(cell, inputs, self._device)

    def check(self, call: LayerCall) -> Check:
        """Its outputs against float64, with uninitialised memory poisoned."""
        with _poisoned(self._inputs):
            outputs = call.outputs()
        return _compared(outputs, self._reference(call))

    def check_turned(self, call: LayerCall) -> Check:
        """The check after timing, on other values in the same memory; see `layer_turn`."""
        backward_alone = call.cell.pass_ == "backward"
        # Before anything is turned: the reference is of the inputs as they are.
        self._reference(call)
        if backward_alone or has_turn(self.problem):
            turn(self._inputs, backward_alone)
            try:
                with _poisoned(self._inputs):
                    outputs = call.outputs()
            finally:
                turn(self._inputs, backward_alone)
            back = turned_back(outputs, self._inputs, backward_alone)
            due = self._reference(call)
        else:
            back, due = self._of_others(call)
            outputs = back
        found = _compared(back, due, after_timing=True)
        if not found.ok and _compared(outputs, self._reference(call)).ok:
            why = "it gave the same result when its inputs had changed: a result is kept"
            return replace(found, reasons=(why,))
        return found

    def _of_others(self, call: LayerCall) -> tuple[Mapping[str, torch.Tensor], PartReference]:
        """What it gives of other values in the same memory, and what it should give."""
        others = make_part_inputs(
            self.problem, self._device, gradients=self._backward, seed=OTHER_SEED
        )
        with replaced(self._inputs, others):
            with _poisoned(self._inputs):
                outputs = call.outputs()
            return outputs, part_reference(others, call.masks, gradients=self._backward)

    def put_back(self) -> list[str]:
        """The names of what a call wrote into of x, its cache and d_out; all is as it was again.

        A core is given none of the weights, so it cannot write into them.
        """
        for name, tensor in self._inputs.given.items():
            if not torch.equal(tensor, self._before[name]):
                self._written.append(name)
                # Past autograd, which would call what a graph has saved of it out of date.
                tensor.data.copy_(self._before[name])
        written, self._written = self._written, []
        return written

    def _reference(self, call: LayerCall) -> PartReference:
        """That of the elements dropout kept in the call: once, as checked calls keep the same."""
        kept = self._expected
        if kept is None or not _same(kept[0], call.masks):
            # Made after a call, whose dropout it must know: of what was there before the call.
            self._written = self.put_back()
            found = part_reference(self._inputs, call.masks, gradients=self._backward)
            kept = self._expected = (list(call.masks), found)
        return kept[1]


def _compared(
    outputs: Mapping[str, torch.Tensor], expected: PartReference, *, after_timing: bool = False
) -> Check:
    due = {name: one for name, one in expected.due.items() if name in outputs}
    return check_each(outputs, due, rows=expected.rows, after_timing=after_timing)


@contextmanager
def _poisoned(inputs: PartInputs) -> Iterator[None]:
    """Within it uninitialised memory is NaN, as is the cache's room for new tokens."""
    for rows in inputs.room:
        rows.fill_(torch.nan)
    with poisoned_empty():
        yield


def _same(masks: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(masks) == len(others) and all(map(torch.equal, masks, others))


@dataclass(frozen=True)
class _Layer:
    cost = staticmethod(layer_work.cost)
    subject = LayerSubject


KIND = _Layer()
