"""Asking nodes one thing each before anything is measured: of what kind they are, for a plan."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suites.fleet.engine import Engine, Node, Told
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn

POLL_S = 0.2
TRIES = 3
"""So often a node is asked whose worker was lost, or failed."""
PATIENCE_S = 10.0
"""So long nobody is told that a node's devices are all in use by others."""


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

    Empty where a stop was asked for meanwhile. `tell` is given the warnings, and what is waited
    for.

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
    patient_until = time.monotonic() + PATIENCE_S
    while out:
        if time.monotonic() > patient_until:
            patient_until = math.inf
            _tell_who_waits(out.values(), tell)
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


def _tell_who_waits(questions: Iterable[_Question], tell: Callable[[str], None]) -> None:
    if idle := sorted({q.node.name for q in questions if "holds" not in q.told}):
        tell(f"waiting for a free device, all are in use: {', '.join(idle)} (Ctrl-C ends it)")


def _check_is_worth_another_try(question: _Question, lost: str | None) -> None:
    ended = question.told.get("ended") or {"failure": lost, "is_usage": False}
    if ended["is_usage"] or question.tries == TRIES:
        cause = ended["failure"] or "its task told nothing"
        raise CannotGoOn(f"{question.node.name}: {cause}", is_usage=ended["is_usage"])
