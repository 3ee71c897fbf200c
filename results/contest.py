"""Who can be set against the baseline, on which problem that tells most, and who wins there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from results.ratios import SpeedUp, baseline_cells, speed_up
from results.run import Run
from results.schema import Cell

# The sweep a reader knows: preferred where several problems have a certain winner.
SUITE = "sequence_length"


def same_work(cell: Cell) -> tuple:
    """What cells must share to be rows of one contest, over launches."""
    return (cell.problem.id, cell.pass_, cell.cache, cell.clock)


def same_sweep(cell: Cell) -> tuple:
    """What stays the same along a sweep of T.

    B may change with T, B·T being constant on GPUs.
    """
    shape = cell.problem.joined.with_(B=1, T_q=1, T_kv=1, layout="bhtd").id
    sweep = (cell.implementation, shape, cell.problem.layout, cell.suite, cell.series)
    return (*sweep, cell.pass_, cell.cache, cell.clock)


@dataclass(frozen=True)
class _Contest:
    """One problem's speed-ups over the baseline by rival, and what ranks it among the others."""

    ratios: dict[str, SpeedUp]
    kind: tuple[bool, bool, bool]
    flop: int

    @property
    def winner(self) -> str:
        return max(self.ratios, key=lambda name: self.ratios[name].times)

    @property
    def is_won(self) -> bool:
        """Whether a rival beats the baseline by more than their noise."""
        best = self.ratios[self.winner]
        return best.is_certain and best.times > 1.0


def telling_contest(run: Run) -> dict[str, SpeedUp]:
    """Every rival's speed-up on the problem that tells most of who is fastest.

    One where a rival beats the baseline for certain, else one where none does, before one within
    the noise. Among those the sequence-length suite, forward and full come first, then where most
    of those who win anywhere meet, then the most arithmetic, the most rivals, the largest effect.
    """
    contests = _contests(run)
    winners = {contest.winner for contest in contests if contest.is_won}

    def rank(contest: _Contest) -> tuple:
        best = contest.ratios[contest.winner]
        meeting, rivals = len(winners & {*contest.ratios}), len(contest.ratios)
        certainty = (contest.is_won, best.is_certain)
        return (*certainty, *contest.kind, meeting, contest.flop, rivals, best.times)

    return max(contests, key=rank).ratios if contests else {}


def _contests(run: Run) -> list[_Contest]:
    baselines = baseline_cells(run)
    groups: dict[tuple, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in run.trusted_cells:
        groups[same_work(cell)][cell.implementation].append(cell)
    contests = []
    for group in groups.values():
        ratios = {
            name: ratio
            for name, cells in group.items()
            if name != run.baseline and (ratio := speed_up(cells, baselines)) is not None
        }
        if ratios:
            cell = next(iter(group.values()))[0]
            suites = {c.suite for cells in group.values() for c in cells}
            kind = (SUITE in suites, cell.pass_ == "forward", not cell.problem.causal)
            contests.append(_Contest(ratios, kind, cell.counts.flop if cell.counts else 0))
    return contests


def fastest_name(run: Run) -> str:
    """The fastest where it tells most; the baseline where none beats it."""
    times = {run.baseline: 1.0}
    times |= {name: ratio.times for name, ratio in telling_contest(run).items()}
    return max(times, key=lambda name: times[name])


def absent(run: Run, cell: Cell, compared: set[str]) -> list[str]:
    """Who can run on this machine and might on this cell's work, but has no time to compare."""
    cannot = ("unavailable", "unsupported")
    able = {c.implementation for c in run.cells if c.status not in cannot}
    refused = {
        c.implementation
        for c in run.cells
        if c.status in cannot and same_work(c) == same_work(cell)
    }
    return sorted(able - refused - compared)
