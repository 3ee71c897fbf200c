"""Who can be set against the baseline, on which problem the most can, and who is fastest there."""

from __future__ import annotations

from collections import defaultdict

from results.ratios import SpeedUp, baseline_cells, speed_up
from results.run import Run
from results.schema import Cell

# The sweep a reader knows: preferred where several problems compare as many implementations.
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


def broadest_contest(run: Run) -> dict[str, SpeedUp]:
    """Every rival's speed-up on the problem where the baseline meets the most of them.

    Among those the sequence-length suite, forward, full and the most arithmetic come first.
    """
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
        cell = next(iter(group.values()))[0]
        suites = {c.suite for cells in group.values() for c in cells}
        work = (
            cell.pass_ == "forward",
            not cell.problem.causal,
            cell.counts.flop if cell.counts else 0,
        )
        contests.append(((len(ratios), SUITE in suites, *work), ratios))
    return max(contests, key=lambda contest: contest[0], default=((), {}))[1]


def fastest_name(run: Run) -> str:
    """The fastest where the most can be compared; the baseline where none beats it."""
    times = {run.baseline: 1.0}
    times |= {name: ratio.times for name, ratio in broadest_contest(run).items()}
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
