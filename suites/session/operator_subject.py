"""Another operator than softmax attention as the subject of a cell, held to its own formula."""

from __future__ import annotations

from dataclasses import dataclass

from impls.interface.cost import Cost
from impls.interface.inputs import Inputs
from impls.interface.problem import Problem
from impls.interface.reference import Reference
from impls.layer.lineage import operator_of
from impls.layer.operator_reference import operator_reference
from suites.session.core_subject import CoreSubject


class OperatorSubject(CoreSubject):
    """The inputs of one problem of an operator, and its formula on them.

    The checks are those of attention: an operator's output is linear in v and the same rule in
    every head, so that turned inputs have a known answer here too.
    """

    def expected_of(self, inputs: Inputs, backward: bool) -> Reference:
        """The output in float64; an operator's gradients are not asked for."""
        return operator_reference(inputs, self.problem)


def cost(problem: Problem, pass_: str, convention: str) -> Cost:
    """The forward's counts, exact: nobody publishes these under another convention.

    Whatever the pass: no implementation has a backward, and a cell that asks for one is refused
    before any count of it is used.
    """
    return operator_of(problem).cost(problem)


@dataclass(frozen=True)
class _Operators:
    cost = staticmethod(cost)
    subject = OperatorSubject


KIND = _Operators()
