"""Who is measured when: launches of two sides in turn, and the cells of each in a drawn order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from impls.interface.problem import Problem

SIDES = ("base", "head")


@dataclass(frozen=True)
class Turn:
    """One launch of one side: a process of its own."""

    side: str
    launch: int


def turns(first: int, launches: int) -> list[Turn]:
    """So many launches of either side, from number `first` on: base, head, head, base.

    A machine that gets slower does so for both alike.
    """
    return [
        Turn(side, launch)
        for launch in range(first, first + launches)
        for side in (SIDES if launch % 2 else SIDES[::-1])
    ]


def name_of(entry: Mapping[str, Any], *, is_anonymous: bool = False) -> str:
    """The name of a plan's entry as `python -m results gate` has it.

    Anonymous is "*" in place of the implementation, where two of them are set against each other.
    """
    who = "*" if is_anonymous else entry["implementation"]
    problem = Problem.from_json(entry["problem"]).id
    return " ".join((who, problem, entry["pass"], entry["cache"], entry["clock"]))


def ordered(names: Iterable[str], seed: int, launch: int) -> list[str]:
    """The names in the order of this launch: drawn anew for each, and the same on both sides.

    What another side lacks does not change the order of the rest.
    """

    def drawn(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {launch} {name}".encode()).digest()

    return sorted(names, key=drawn)
