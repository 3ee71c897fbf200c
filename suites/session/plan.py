"""The plan: which cells the budget reaches, decided from measured speed before the first cell."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from impls.interface import cost
from impls.interface.attention import Implementation, attend, reasons_against
from impls.interface.failures import failures
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from suites.session.looks import LOOKS, SHORT_S
from suites.session.subject import cost_of
from suites.session.sweep import Cell

COMPILE_S = 6.0
"""What one compilation is planned with; Inductor on two cores takes 3 to 8 s a shape."""
CELL_OVERHEAD_S = 0.05
"""Inputs, reference and journal."""
CALLS_PER_LOOK = 9
"""First call, warm-up, check, and four samples at least."""
SAMPLING_SHARE = 0.7
"""Most cells stop by precision before their sampling budget is spent."""
CALLS_PER_CELL = 16
"""First call, checks, profile, warm-up and ten samples."""
COMPILED_SHARE = 0.4
"""So much of the budget again, for implementations that compile for every problem."""
MEMORY_SHARE = 0.7
"""A cell may ask for at most this part of what is free."""


@dataclass(frozen=True)
class Budget:
    """How long the cells of a run may take, and one of them at most."""

    word: str
    total_s: float
    sampling_s: float
    cell_limit_s: float

    @classmethod
    def of(cls, word: str, total_s: float) -> Budget:
        """The budget of a word: longer runs also sample each cell longer."""
        sampling_s = min(1.0, max(0.1, total_s / 500))
        return cls(word, total_s, sampling_s, cell_limit_s=max(1.5, total_s / 10))


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
        }


def decide(
    cells: Sequence[Cell],
    speeds: Mapping[str, float],
    budget: Budget,
    *,
    device: str,
    unavailable: Mapping[str, Sequence[str]],
    free_bytes: int | None,
) -> list[Planned]:
    """The plan, in the order of `cells`.

    `speeds` are useful FLOP/s by implementation name. Problems are taken in turn from every
    series, first rungs first, until the budget is spent; a cell that alone is too long, or asks
    for more memory than there is, is skipped. Implementations that compile get the largest of the
    problems so chosen, where they tell most. What an implementation cannot do costs nothing and
    stays in the plan: its cell says why.
    """
    plan = {id(c): Planned(c, "run", None, 0.0) for c in cells}
    able = [c for c in cells if not _cannot(c, device, unavailable)]
    # Fastest first within a problem: what leads goes furthest.
    able.sort(key=lambda c: -speeds.get(c.implementation.name, 0.0))
    plain = [c for c in _in_turn(able) if not c.implementation.needs_compiler]
    chosen = _spend(plain, plan, speeds, budget, budget.total_s, free_bytes)
    compiled = [c for c in _in_turn(able) if c.implementation.needs_compiler]
    # Stable: problems of one size keep the order of their turns.
    compiled.sort(key=lambda c: -cost_of(c.problem, c.pass_).flop if c.problem in chosen else 0)
    _spend(compiled, plan, speeds, budget, budget.total_s * COMPILED_SHARE, free_bytes)
    return [plan[id(c)] for c in cells]


def _cannot(cell: Cell, device: str, unavailable: Mapping[str, Sequence[str]]) -> bool:
    needs = () if cell.pass_ == "forward" else ("backward",)
    is_here = cell.implementation.name not in unavailable
    return not is_here or bool(reasons_against(cell.implementation, cell.problem, device, needs))


def _spend(
    cells: Sequence[Cell],
    plan: dict[int, Planned],
    speeds: Mapping[str, float],
    budget: Budget,
    limit_s: float,
    free_bytes: int | None,
) -> set[Problem]:
    """Enter into `plan` which of `cells`, in this order, fit in `limit_s`; → their problems."""
    spent_s, chosen = 0.0, set()
    for cell in cells:
        estimate_s = _estimate(cell, speeds, budget)
        compile_s = COMPILE_S if cell.implementation.needs_compiler else 0.0
        is_short = estimate_s <= budget.cell_limit_s + compile_s and spent_s + estimate_s <= limit_s
        reason = _too_large(cell, free_bytes) or (None if is_short else _beyond(budget))
        plan[id(cell)] = Planned(cell, "skip" if reason else "run", reason, estimate_s)
        if reason is None:
            spent_s += estimate_s
            chosen.add(cell.problem)
    return chosen


def _beyond(budget: Budget) -> str:
    longer = {"smoke": "quick", "quick": "default", "default": "full"}.get(budget.word)
    advice = f": --budget {longer} goes further" if longer else ""
    return f"beyond the {budget.word} budget{advice}"


def _in_turn(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of one problem together, problems taken in turn from each series."""
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
                taken += rung
        turn += 1
    return taken


def _estimate(cell: Cell, speeds: Mapping[str, float], budget: Budget) -> float:
    """Seconds a cell will take, further looks included (see `looks`)."""
    work = cost_of(cell.problem, cell.pass_).flop
    call_s = work / speeds.get(cell.implementation.name, math.inf)
    once_s = CELL_OVERHEAD_S + SAMPLING_SHARE * budget.sampling_s
    if cell.implementation.needs_compiler:
        return COMPILE_S + once_s + CALLS_PER_CELL * call_s
    if 10 * call_s > SHORT_S:
        return once_s + CALLS_PER_CELL * call_s
    return LOOKS * once_s + (CALLS_PER_CELL + (LOOKS - 1) * CALLS_PER_LOOK) * call_s


def _too_large(cell: Cell, free_bytes: int | None) -> str | None:
    if free_bytes is None:
        return None
    scratch = cell.implementation.scratch_bytes
    needed = cost_of(cell.problem, cell.pass_).compulsory_bytes
    needed += scratch(cell.problem, cell.pass_) if scratch else 0
    if needed <= MEMORY_SHARE * free_bytes:
        return None
    return (
        f"needs about {needed / 1e9:.1f} GB, more than {MEMORY_SHARE:.0%} of the "
        f"{free_bytes / 1e9:.1f} GB that are free"
    )


def probe_speeds(
    implementations: Sequence[Implementation],
    device: str,
    dtype: str,
    synchronize: Callable[[], None],
) -> dict[str, float]:
    """Useful FLOP/s of each implementation on one middling problem, from a warm call.

    Those that compile are not probed, which would cost a compilation, nor can those that fail
    here: they are planned with the slowest of the others, and their own cells tell what is wrong.
    """
    small = Problem(B=1, T_q=512, T_kv=512, H=8, d_h=64, dtype=dtype)
    problem = small if device == "cpu" else small.with_(B=4, T_q=2048, T_kv=2048, H=16)
    inputs = make_inputs(problem, device)
    work = cost.flop(problem, "forward")
    speeds: dict[str, float] = {}
    # On a CPU a neighbour's load must not decide how far the sweep goes.
    clock = time.process_time if device == "cpu" else time.perf_counter
    for implementation in implementations:
        if implementation.needs_compiler or reasons_against(implementation, problem, device):
            continue
        with suppress(*failures()), torch.no_grad():
            durations = []
            for _ in range(3):
                started = clock()
                attend(implementation, inputs.q, inputs.k, inputs.v)
                synchronize()
                durations.append(clock() - started)
            speeds[implementation.name] = work / min(durations)
    slowest = min(speeds.values(), default=1e9)
    return {i.name: speeds.get(i.name, slowest) for i in implementations}
