"""Dealing a plan to shards: every machine deals alike, and each part takes about as long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from impls.interface.attention import reasons_against
from impls.interface.problem import Problem
from suites.session.plan import Budget, Planned, whole_s
from suites.session.shard import Shard
from suites.session.speeds import Speed
from suites.session.sweep import Cell

NOMINAL = Speed(flop_per_s=50e9, step_flop_per_s=5e9, step_bytes_per_s=10e9)
"""Nobody's own: it puts problems in the order of their length. What two machines reach differs,
and they would not cut a sweep alike."""

_Group = tuple[Problem, str, str]


def part_of(plan: Sequence[Planned], shard: Shard, budget: Budget, device: str) -> list[Planned]:
    """A shard of a plan, in its order.

    What is compared stays together: all implementations on a problem, pass and cache state.
    Groups are dealt from the longest on, to and fro: wherever the budget ends, each part has had
    its turns.

    Raises:
        ValueError: there are fewer groups than parts.
    """
    estimates: dict[_Group, float] = defaultdict(float)
    for planned in plan:
        estimates[_group(planned.cell)] += _estimate(planned.cell, budget, device)
    if len(estimates) < shard.count:
        raise ValueError(
            f"--shard {shard}: {len(estimates)} problems cannot be dealt to {shard.count} parts: "
            f"give {max(1, len(estimates))} at most"
        )
    # Equally long ones by name: the order of collection is no matter.
    dealt = sorted(estimates, key=lambda group: (-estimates[group], repr(group)))
    mine = {group for turn, group in enumerate(dealt) if shard.has(turn)}
    return [planned for planned in plan if _group(planned.cell) in mine]


def _group(cell: Cell) -> _Group:
    return cell.problem, cell.pass_, cell.cache


def _estimate(cell: Cell, budget: Budget, device: str) -> float:
    """Seconds of the cell at the nominal speed; 0 where the implementation declares it cannot."""
    needs = () if cell.pass_ == "forward" else ("backward",)
    if reasons_against(cell.implementation, cell.problem, device, needs):
        return 0.0
    speeds = {(cell.implementation.name, cell.problem.dtype): NOMINAL}
    return whole_s(cell, False, speeds, budget)
