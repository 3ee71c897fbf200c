"""Backward: how many times its forward it takes, and whether gradients repeat bit by bit."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from results.contest import fastest_name
from results.finding import Finding, finding
from results.phrases import where
from results.run import Run
from results.schema import Cell
from results.units import digits, time_text

SUITE = "backward"

Pair = tuple[Cell, Cell]


def answer(run: Run) -> Finding | None:
    """Backward over forward of one implementation and of the baseline, and what repeats."""
    ratio, repeats = _ratio(run), _repeats(run)
    parts = [part for part in (ratio, repeats) if part is not None]
    if not parts:
        return None
    cells = [cell for _, some in parts for cell in some]
    words = "; ".join(words for words, _ in parts)
    return finding(f"{words[0].upper()}{words[1:]}.", cells)


def _ratio(run: Run) -> tuple[str, list[Cell]] | None:
    """The backward in forwards, where the most implementations have both."""
    by_problem = _pairs(run)
    if not by_problem:
        return None
    pairs = by_problem[max(by_problem, key=lambda key: _telling(by_problem[key]))]
    name = fastest_name(run)
    name = name if name in pairs else min(pairs, key=lambda n: pairs[n][0][1].time_s or 0.0)
    forward, backward = pairs[name][0]
    work = ""
    if forward.counts and backward.counts and forward.counts.flop:
        work = f", for {digits(backward.counts.flop / forward.counts.flop, 2)} × the FLOP"
    words = (
        f"The backward of {name} takes {digits(_times(pairs[name]))} × its forward at "
        f"{where(forward, run)} ({time_text(_median_s(pairs[name], 1))} against "
        f"{time_text(_median_s(pairs[name], 0))}{work}"
    )
    shown = [name]
    if run.baseline in pairs and run.baseline != name:
        words += f"; {run.baseline} takes {digits(_times(pairs[run.baseline]))} ×"
        shown.append(run.baseline)
    launches = len(pairs[name])
    words += f"; {'1 launch' if launches == 1 else f'median of {launches} launches'})"
    return words, [cell for n in shown for pair in pairs[n] for cell in pair]


def _repeats(run: Run) -> tuple[str, list[Cell]] | None:
    """Whose gradients a second call on equal inputs gave again, bit by bit."""
    tried = [cell for cell in run.cells if cell.status == "ok" and cell.repeats]
    if not tried:
        return None
    differing: dict[str, set[str]] = defaultdict(set)
    for cell in tried:
        names = {name for name, is_same in (cell.repeats or {}).items() if not is_same}
        if names:
            differing[cell.implementation] |= names
    if not differing:
        count = len({cell.implementation for cell in tried})
        every = "the one that was tried" if count == 1 else f"all {count}"
        return f"the gradients of {every} repeat bit by bit", tried
    told = [f"{name} ({', '.join(sorted(found))})" for name, found in sorted(differing.items())]
    return f"gradients that do not repeat bit by bit: {', '.join(told)}", tried


def _pairs(run: Run) -> dict[tuple, dict[str, list[Pair]]]:
    """(forward, backward) of the sweep's problems by problem, and implementation, launches."""
    forwards = {_same(c): c for c in run.trusted_cells if c.pass_ == "forward"}
    found: dict[tuple, dict[str, dict[int, Pair]]] = defaultdict(lambda: defaultdict(dict))
    for cell in run.trusted_cells:
        forward = forwards.get(_same(cell))
        if cell.suite == SUITE and cell.pass_ == "backward" and forward is not None:
            where_ = (cell.problem.id, cell.cache, cell.clock)
            # By launch: two series may have measured the same cell.
            found[where_][cell.implementation][cell.launch] = (forward, cell)
    return {
        where_: {name: list(launches.values()) for name, launches in pairs.items()}
        for where_, pairs in found.items()
    }


def _same(cell: Cell) -> tuple:
    return (cell.implementation, cell.problem.id, cell.cache, cell.clock, cell.launch)


def _telling(pairs: dict[str, list[Pair]]) -> tuple:
    problem = next(iter(pairs.values()))[0][0].problem
    return (len(pairs), not problem.causal, problem.H_kv == problem.H, problem.T_kv)


def _times(pairs: list[Pair]) -> float:
    return median((b.time_s or 0.0) / f.time_s for f, b in pairs if f.time_s)


def _median_s(pairs: list[Pair], which: int) -> float:
    return median(pair[which].time_s or 0.0 for pair in pairs)
