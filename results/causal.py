"""What causal masking saves: causal time over full time along T, of the fastest implementation."""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile
from statistics import median

from results.contest import SUITE, fastest_name, same_sweep, same_work
from results.finding import Finding, finding
from results.phrases import where
from results.run import Run
from results.schema import Cell

# Above this share of full's time the difference is not worth a word.
SAVES_NOTHING = 0.95

Pairs = dict[int, list[tuple[Cell, Cell]]]


def causal_saving(run: Run) -> Finding | None:
    """What causal saves the fastest implementation of the T sweep; None of fewer than two T.

    Where the run measures a kernel that was brought, the baseline's saving is nobody's question.
    """
    brought = run.header.settings.all.get("brought")
    told = [
        by_T
        for by_T in _sweeps(run)
        if len(by_T) > 1 and not (brought and _longest(by_T).implementation == run.baseline)
    ]
    if not told:
        return None
    winner = fastest_name(run)
    by_T = max(told, key=lambda by_T: _telling(_longest(by_T), winner))
    lengths = sorted(by_T)
    (cell, other), share = by_T[lengths[-1]][0], _share(by_T[lengths[-1]])
    idle = list(takewhile(lambda T: _share(by_T[T]) > SAVES_NOTHING, lengths))
    visible = ""
    if cell.counts and other.counts and other.counts.pairs:
        visible = f", where {cell.counts.pairs / other.counts.pairs:.2f} of the pairs are visible"
    none = f"; no saving up to T = {idle[-1]}" if idle else ""
    if idle == lengths:
        none = f"; no saving from T = {lengths[0]} to T = {lengths[-1]}"
    launches = len(by_T[lengths[-1]])
    certainty = "1 launch" if launches == 1 else f"median of {launches} launches"
    sentence = (
        f"Causal {cell.implementation} takes {share:.2f} of full's time at "
        f"{where(cell, run, tells_masking=False)}{visible}{none} ({certainty})."
    )
    return finding(sentence, [c for T in lengths for pair in by_T[T] for c in pair], "time")


def _sweeps(run: Run) -> list[Pairs]:
    """The (causal, full) pairs by T of each sweep of square problems in the T sweep."""
    cells = [
        cell
        for cell in run.trusted_cells
        if cell.suite == SUITE and cell.problem.T_q == cell.problem.T_kv > 1
    ]
    full = {_causal_partner(cell): cell for cell in cells if not cell.problem.causal}
    sweeps: dict[tuple, Pairs] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        other = full.get(_causal_partner(cell))
        if other and cell.problem.causal and cell.problem.window is None:
            sweeps[same_sweep(cell)][cell.problem.T_q].append((cell, other))
    return list(sweeps.values())


def _longest(by_T: Pairs) -> Cell:
    return by_T[max(by_T)][0][0]


def _telling(longest: Cell, winner: str) -> tuple:
    """How much a causal sweep tells, by its longest cell: the winner's, then the largest T."""
    return (
        longest.implementation == winner,
        longest.pass_ == "forward",
        longest.problem.T_kv,
        -(longest.time_s or 0.0),
    )


def _causal_partner(cell: Cell) -> tuple:
    problem = cell.problem.with_(causal=False, window=None)
    return (cell.implementation, problem.id, *same_work(cell)[1:], cell.launch)


def _share(pairs: list[tuple[Cell, Cell]]) -> float:
    """Causal time over full time, the median over launches."""
    return median((a.time_s or 0.0) / b.time_s for a, b in pairs if b.time_s)
