"""The plan: which cells the budget reaches, decided from measured speed before the first cell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from impls.interface import cost
from impls.interface.attention import reasons_against
from impls.interface.problem import SOFTMAX, Problem
from impls.interface.sample import MAX_PAIRS
from suites.session.looks import LOOKS, SHORT_S
from suites.session.memory_needed import needed_bytes, size_text
from suites.session.speeds import Speeds
from suites.session.subject import cost_of
from suites.session.sweep import Cell

COMPILE_S = 6.0
"""What one compilation is planned with; Inductor on two cores takes 3 to 8 s a shape."""
CELL_OVERHEAD_S = 0.05
"""Profile and journal."""
MADE_BYTES_PER_S = 250e6
"""How fast inputs are drawn."""
ANSWERED_FLOP_PER_S, ANSWERED_STEP_FLOP_PER_S = 7e9, 0.3e9
"""How fast they are answered in float64; of one query, keys are widened for each query head."""
SAMPLED_S = 0.5
"""Answering the sample of a large problem."""
CHECKED_BYTES_PER_S = 2e9
"""How fast inputs are compared with what they were, and put back, around a look."""
CALLS_PER_LOOK = 9
"""First call, warm-up, check, and four samples at least."""
SAMPLING_SHARE = 0.7
"""Most cells stop by precision before their sampling budget is spent."""
CALLS_PER_CELL = 17
"""First call, checks, profile, counting, warm-up and ten samples."""
COMPILED_SHARE = 0.25
"""So much of the budget again, for implementations that compile for every problem."""
SHARED = ("default", "full")
"""Budgets that every sweep has a share of."""
MEMORY_SHARE = 0.7
"""A cell may ask for at most this part of what is free."""


@dataclass(frozen=True)
class Budget:
    """How long the cells of a run may take, and one of them at most; `seconds` were asked for."""

    word: str
    total_s: float
    sampling_s: float
    cell_limit_s: float
    seconds: float | None = None

    @classmethod
    def of(cls, word: str, total_s: float, seconds: float | None = None) -> Budget:
        """The budget of a word: four times as long is twice the cells, each twice as long.

        A long budget has more sweeps to share it: half as long a look, and twice the cells.
        """
        sampling_s = min(1.0, max(0.1, math.sqrt(total_s) / (120 if word in SHARED else 60)))
        return cls(word, total_s, sampling_s, max(1.5, total_s / 10), seconds)

    @property
    def longest_s(self) -> float:
        """Seconds of all that is planned, with those that compile."""
        return self.total_s * (1 + COMPILED_SHARE)


@dataclass(frozen=True)
class Planned:
    """One cell of the plan: to be run, or skipped with its reason."""

    cell: Cell
    decision: str
    reason: str | None
    estimate_s: float

    def to_json(self) -> dict[str, Any]:
        """The plan's entry in run.json."""
        return self.cell.identity() | {
            "decision": self.decision,
            "reason": self.reason,
            "estimate_s": round(self.estimate_s, 3),
            # What cannot be measured here may not know what it would need.
            "memory_bytes": needed_bytes(self.cell) if self.estimate_s else None,
        }


def decide(
    cells: Sequence[Cell],
    speeds: Speeds,
    budget: Budget,
    *,
    device: str,
    unavailable: Mapping[str, Sequence[str]],
    free_bytes: int | None,
) -> list[Planned]:
    """The plan, in the order of `cells`.

    Problems are taken in turn from every series, first rungs first, until the budget is spent; a
    cell that alone is too long, or asks for more memory than there is, is skipped. A long budget
    is for every sweep: what is due comes first, then each sweep's equal share of the rest, and
    what that leaves is for all. Those that compile get the largest of the problems so chosen, where
    they tell most. What an implementation cannot do costs nothing and stays in the plan: its cell
    says why.
    """
    plan = {id(c): Planned(c, "run", None, 0.0) for c in cells}
    able = [c for c in cells if not _cannot(c, device, unavailable)]
    in_turn = _in_turn(able, speeds)
    plain = [c for c in in_turn if not c.implementation.needs_compiler]
    chosen = _spend(plain, plan, speeds, budget, budget.total_s, free_bytes)
    compiled = [c for c in in_turn if c.implementation.needs_compiler]
    # Stable: problems of one size keep the order of their turns, whatever the pass.
    compiled.sort(key=lambda c: -cost_of(c.problem, "forward").flop if c.problem in chosen else 0)
    _spend(compiled, plan, speeds, budget, budget.total_s * COMPILED_SHARE, free_bytes)
    return [plan[id(c)] for c in cells]


def _cannot(cell: Cell, device: str, unavailable: Mapping[str, Sequence[str]]) -> bool:
    needs = () if cell.pass_ == "forward" else ("backward",)
    is_here = cell.implementation.name not in unavailable
    return not is_here or bool(reasons_against(cell.implementation, cell.problem, device, needs))


def _spend(
    cells: Sequence[Cell],
    plan: dict[int, Planned],
    speeds: Speeds,
    budget: Budget,
    limit_s: float,
    free_bytes: int | None,
) -> set[Problem]:
    """Enter into `plan` which of `cells`, in this order, fit in `limit_s`; → their problems."""
    spent_s, chosen = 0.0, set()
    if budget.word in SHARED:
        cells = _in_shares(
            cells,
            limit_s,
            budget.cell_limit_s,
            lambda cell, is_first: whole_s(cell, is_first, speeds, budget),
        )
    for cell in cells:
        estimate_s = whole_s(cell, cell.problem not in chosen, speeds, budget)
        compile_s = _compile_s(cell)
        is_short = estimate_s <= budget.cell_limit_s + compile_s and spent_s + estimate_s <= limit_s
        reason = _too_large(cell, free_bytes) or (None if is_short else _beyond(budget))
        plan[id(cell)] = Planned(cell, "skip" if reason else "run", reason, estimate_s)
        if reason is None:
            spent_s += estimate_s
            chosen.add(cell.problem)
    return chosen


def _in_shares(
    cells: Sequence[Cell],
    limit_s: float,
    cell_limit_s: float,
    estimate: Callable[[Cell, bool], float],
) -> list[Cell]:
    """What is due, the cells that an equal share for each sweep has room for, then the others."""
    due = [cell for cell in cells if cell.is_due]
    others = [cell for cell in cells if not cell.is_due]
    due_s = sum(estimate(cell, True) for cell in due)
    share_s = max(0.0, limit_s - due_s) / max(1, len({cell.suite for cell in others}))
    spent_s: dict[str, float] = defaultdict(float)
    chosen: set[Problem] = set()
    within, beyond = due, []
    for (suite, _, problem), rung in groupby(others, key=_rung):
        found = list(rung)
        # Whole: with half of a problem's cells nothing is compared.
        estimates = [
            estimate(cell, n == 0 and problem not in chosen) for n, cell in enumerate(found)
        ]
        rung_s = sum(s for s in estimates if s <= cell_limit_s)
        if spent_s[suite] + rung_s <= share_s:
            spent_s[suite] += rung_s
            chosen.add(problem)
            within += found
        else:
            beyond += found
    return within + beyond


def _rung(cell: Cell) -> tuple[str, str, Problem]:
    return cell.suite, cell.series, cell.problem


def _beyond(budget: Budget) -> str:
    if budget.seconds is not None:
        return f"beyond the {budget.seconds:g} s of --seconds: a larger number goes further"
    longer = {"smoke": "quick", "quick": "default", "default": "full"}.get(budget.word)
    advice = f": --budget {longer} goes further" if longer else ""
    return f"beyond the {budget.word} budget{advice}"


def _in_turn(cells: Sequence[Cell], speeds: Speeds) -> list[Cell]:
    """The cells of one problem together, problems taken in turn from each series.

    Those of a problem fastest first: what leads goes furthest.
    """
    by_series: dict[tuple[str, str, str], dict[Problem, list[Cell]]] = {}
    steps: dict[tuple[str, str, str], int] = {}
    for cell in cells:
        # A second dtype is a ladder of its own: behind the first it would never get a turn.
        name = (cell.suite, cell.series, cell.problem.dtype)
        by_series.setdefault(name, {}).setdefault(cell.problem, []).append(cell)
        steps[name] = cell.rungs_per_turn
    # The series that takes the most rungs a turn goes first.
    ladders = sorted(by_series, key=lambda name: -steps[name])
    taken: list[Cell] = []
    turn = 0
    while any(turn * steps[name] < len(by_series[name]) for name in ladders):
        for name in ladders:
            step = steps[name]
            for rung in list(by_series[name].values())[turn * step : (turn + 1) * step]:
                taken += sorted(rung, key=lambda cell: _call_s(cell, speeds))
        turn += 1
    return taken


def _call_s(cell: Cell, speeds: Speeds) -> float:
    """Seconds of one call: what its arithmetic, one query of it, or its bytes alone would take."""
    speed = speeds.get((cell.implementation.name, cell.problem.dtype))
    if speed is None:
        return math.inf
    work = cost_of(cell.problem, cell.pass_)
    return max(
        work.flop / speed.flop_per_s,
        _step_flop(cell) / speed.step_flop_per_s,
        work.compulsory_bytes / speed.step_bytes_per_s,
    )


def _step_flop(cell: Cell) -> int:
    """The FLOP of one query: who reads keys for each query head pays by them, not by bytes."""
    one = cell.problem.joined.with_(T_q=1, layout="bhtd", operator=SOFTMAX, around=None)
    return cost.flop(one, cell.pass_)


def whole_s(cell: Cell, is_first: bool, speeds: Speeds, budget: Budget) -> float:
    """Seconds a cell will take, with inputs and answers where it `is_first` of its problem."""
    if not is_first:
        return _estimate(cell, speeds, budget)
    is_looked_at = _is_looked_at_again(cell, _call_s(cell, speeds))
    setup_s = _setup_s(cell) * (LOOKS if is_looked_at else 1)
    return _estimate(cell, speeds, budget) + setup_s


def _estimate(cell: Cell, speeds: Speeds, budget: Budget) -> float:
    """Seconds a cell will take, further looks included (see `looks`)."""
    call_s = _call_s(cell, speeds)
    once_s = CELL_OVERHEAD_S + SAMPLING_SHARE * budget.sampling_s
    once_s += cost_of(cell.problem, cell.pass_).compulsory_bytes / CHECKED_BYTES_PER_S
    if cell.implementation.needs_compiler:
        return _compile_s(cell) + once_s + CALLS_PER_CELL * call_s
    if _is_looked_at_again(cell, call_s):
        return LOOKS * once_s + (CALLS_PER_CELL + (LOOKS - 1) * CALLS_PER_LOOK) * call_s
    return once_s + CALLS_PER_CELL * call_s


def _is_looked_at_again(cell: Cell, call_s: float) -> bool:
    return cell.is_looked_at_again and 10 * call_s <= SHORT_S


def _compile_s(cell: Cell) -> float:
    if not cell.implementation.needs_compiler:
        return 0.0
    return COMPILE_S if cell.pass_ == "forward" else 2 * COMPILE_S


def _setup_s(cell: Cell) -> float:
    """Seconds to make a problem's inputs and its float64 answers."""
    p, work = cell.problem.joined, cost_of(cell.problem, cell.pass_)
    answer_s = work.flop / ANSWERED_FLOP_PER_S + _step_flop(cell) / ANSWERED_STEP_FLOP_PER_S
    if p.B * p.H * p.T_q * p.T_kv > MAX_PAIRS:
        answer_s = SAMPLED_S
    return work.compulsory_bytes / MADE_BYTES_PER_S + answer_s


def _too_large(cell: Cell, free_bytes: int | None) -> str | None:
    if free_bytes is None:
        return None
    needed = needed_bytes(cell)
    if needed <= MEMORY_SHARE * free_bytes:
        return None
    return (
        f"needs about {size_text(needed)}, more than {MEMORY_SHARE:.0%} of the "
        f"{size_text(free_bytes)} that are free"
    )
