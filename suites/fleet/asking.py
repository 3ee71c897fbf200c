"""Asking nodes one thing each before anything is measured: of what kind they are, for a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suites.fleet.engine import Engine, Node, Told
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn

POLL_S = 0.2
TRIES = 3
"""So often a node is asked whose worker was lost, or failed."""


@dataclass
class _Question:
    """What one node is asked, and all that it told so far, by name."""

    node: Node
    tries: int = 0
    told: dict[str, Any] = field(default_factory=dict)


def ask(
    engine: Engine,
    numbers: Iterator[int],
    stopping: Stopping,
    nodes: Sequence[Node],
    order: Mapping[str, Any],
    wanted: str,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """What a task on each of these nodes told, by name, once it told what is `wanted`.

    Empty where a stop was asked for meanwhile. `tell` is given the warnings.

    Raises:
        CannotGoOn: one of them could not, however often it was asked.
    """
    questions = [_Question(node) for node in nodes]
    out: dict[int, _Question] = {}

    def put(question: _Question) -> None:
        question.tries += 1
        question.told = {}
        number = next(numbers)
        out[number] = question
        engine.start(number, question.node, order)

    for question in questions:
        put(question)
    while out:
        if stopping.is_asked:
            engine.cancel()
            return []
        for event in engine.happened(POLL_S):
            question = out[event.task]
            if isinstance(event, Told):
                question.told |= event.what
                if (line := event.what.get("line", "")).startswith("WARNING"):
                    tell(line)
                continue
            del out[event.task]
            if wanted not in question.told:
                _check_is_worth_another_try(question, event.lost)
                put(question)
    return [question.told for question in questions]


def _check_is_worth_another_try(question: _Question, lost: str | None) -> None:
    ended = question.told.get("ended") or {"failure": lost, "is_usage": False}
    if ended["is_usage"] or question.tries == TRIES:
        cause = ended["failure"] or "its task told nothing"
        raise CannotGoOn(f"{question.node.name}: {cause}", is_usage=ended["is_usage"])
