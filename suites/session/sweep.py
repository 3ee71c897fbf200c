"""Sweeps: the series a bench file declares, turned into the cells pytest runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from impls.interface.attention import Implementation
from impls.interface.problem import Problem
from suites.measure.clocks import clock_for
from suites.measure.journal import row_of
from suites.measure.samples import SETTINGS_VERSION

BRIEF, LONGER = ("smoke", "quick"), ("default", "full")
"""Budgets with room for a few telling cells of a sweep, and for the sweep."""
TELLING = ("naive", "sdpa_flash")
"""The formula and the best fused kernel of a CPU: a few problems with both answer a question."""


@dataclass(frozen=True)
class Series:
    """One line of a sweep: a label people read and its problems, the most telling first.

    The plan goes down the list as far as the budget allows, so a ladder over T is in rising order
    and a sweep over H starts with its middle and ends. Series take turns, `rungs_per_turn` problems
    of each. `budgets` are those the series takes part in; None: all that its bench file does.
    `implementations` are those it is measured with where the user names none; None: all. A series
    that `is_due` is one row of a table that wants all of them, and comes before the sweeps' shares
    of a long budget; it may do without the further looks at short cells (see `looks`).
    """

    label: str
    problems: tuple[Problem, ...]
    rungs_per_turn: int = 1
    budgets: tuple[str, ...] | None = None
    implementations: tuple[str, ...] | None = None
    is_looked_at_again: bool = True
    is_due: bool = False


@dataclass(frozen=True)
class Cell:
    """What is measured once: implementation × problem × pass × cache state × clock."""

    implementation: Implementation
    problem: Problem
    pass_: str
    cache: str
    clock: str
    suite: str
    series: str
    rungs_per_turn: int = 1
    is_looked_at_again: bool = True
    is_due: bool = False

    @property
    def key(self) -> str:
        """The identity by content, never by a test's name: 16 hexadecimal digits."""
        content = [
            self.implementation.name,
            self.problem.to_json(),
            self.pass_,
            self.cache,
            self.clock,
            SETTINGS_VERSION,
        ]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def row(self) -> str:
        """Its row of the run's plan: the cell as one series of one suite measures it."""
        return row_of(self.identity())

    @property
    def id(self) -> str:
        """The ASCII id pytest shows; `-k` can match any part of it."""
        return f"{self.implementation.name}-{self.pass_}-{self.problem.id}".replace("=", "")

    def identity(self) -> dict[str, Any]:
        """The fields that name this cell in run files."""
        return {
            "cell": self.key,
            "implementation": self.implementation.name,
            "problem": self.problem.to_json(),
            "pass": self.pass_,
            "cache": self.cache,
            "clock": self.clock,
            "suite": self.suite,
            "series": self.series,
        }


def cells(
    suite: str,
    series: Iterable[Series],
    implementations: Sequence[Implementation],
    *,
    passes: Sequence[str],
    cache: str,
    device: str,
    threads: int,
) -> list[Cell]:
    """All cells of a sweep, problem by problem, so that what is compared is measured together."""
    return [
        Cell(
            implementation,
            problem,
            pass_,
            cache,
            clock_for(device, threads, implementation.synchronize),
            suite,
            line.label,
            line.rungs_per_turn,
            line.is_looked_at_again,
            line.is_due,
        )
        for line in series
        for problem in line.problems
        for pass_ in passes
        for implementation in _measured_with(line, problem, implementations)
    ]


def _measured_with(
    line: Series, problem: Problem, implementations: Sequence[Implementation]
) -> list[Implementation]:
    """Those that the series names; of a part of a layer without a core the first alone.

    There is no attention in it: all of them would measure the same products.
    """
    named = line.implementations
    found = [one for one in implementations if named is None or one.name in named]
    return found if problem.has_core else found[:1]


def masked_both_ways(
    label: str,
    problems: Sequence[Problem],
    rungs_per_turn: tuple[int, int] = (1, 1),
    budgets: tuple[str, ...] | None = None,
) -> list[Series]:
    """The same ladder twice: full and causal, with the rungs each takes a turn."""
    return [
        Series(
            f"{label}, {'causal' if causal else 'full'}",
            tuple(p.with_(causal=causal) for p in problems),
            rungs,
            budgets,
        )
        for causal, rungs in zip((False, True), rungs_per_turn, strict=True)
    ]


def briefly_then_whole(label: str, problems: Sequence[Problem], device: str) -> list[Series]:
    """The first two full and, on a CPU, with few implementations; with time, all both ways."""
    telling = None if device == "cuda" else TELLING
    brief = Series(f"{label}, full", tuple(problems[:2]), 3, BRIEF, telling)
    return [brief, *masked_both_ways(label, problems, (3, 1), LONGER)]
