"""The few sentences a run bears out: pure functions from a run to a sentence and its cells.

Only comparable cells (ok, no flag) enter a best or a ratio, and none of an implementation that was
wrong elsewhere in the run; how many were left out is a finding of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from results.answers import answers
from results.causal import causal_saving
from results.contest import absent, same_sweep, telling_contest
from results.finding import Finding, finding
from results.phrases import where
from results.run import Run
from results.schema import Cell
from results.static_findings import STATIC_FINDINGS
from results.trouble import ceiling_doubt, did_not_run, doubted, exhausted, failures, left_out
from results.units import digits, si_text, time_text

MOST = 7
# Below these a difference is not worth a sentence.
PAGING_SHARE = 0.20
FALL_PERCENT = 10.0


def findings(run: Run, most: int = MOST) -> tuple[Finding, ...]:
    """The most telling sentences of a run, in the order they should be read.

    At most `most` of the whole run, and between them what each of its sweeps answers.
    """
    leading, others = (
        [one for tell in telling if (one := tell(run)) is not None]
        for telling in (_LEADING, _OTHERS)
    )
    leading = leading[:most]
    return (*leading, *answers(run), *others[: most - len(leading)])


def fastest(run: Run) -> Finding | None:
    """The fastest implementation against the baseline, where that tells most."""
    ratios = telling_contest(run)
    if not ratios:
        return None
    name, best = max(ratios.items(), key=lambda item: item[1].times)
    cell, other = best.cells[0], best.cells[1]
    assert cell.time_s and other.time_s
    place, rest = where(cell, run), ""
    if not best.is_certain:
        start = f"Noise hides whether {name} or {run.baseline} is faster at {place}: {name} runs at"
    elif best.times > 1.0:
        start = f"{name} is the fastest of {len(ratios) + 1} at {place}:"
    elif others := absent(run, cell, {run.baseline, *ratios}):
        start = f"{run.baseline} is the fastest of {len(ratios) + 1} at {place}; {name} runs at"
        rest = f"; not compared there: {', '.join(others)}"
    else:
        start = f"Nothing beats {run.baseline} at {place}: the next, {name}, runs at"
    times = f"{time_text(cell.time_s)} against {time_text(other.time_s)}"
    ratio = digits(best.times, 3 if best.times >= 1.0 else 2)
    sentence = f"{start} {ratio} × {run.baseline} ({times}, {best.spread}){rest}."
    return finding(sentence, best.cells, "ratio")


def closest_to_bound(run: Run) -> Finding | None:
    """The cell with the best share of its measured bound, and what binds it.

    Of softmax attention alone: another operator has another bound, and no rank here; of a layer
    the products would be told that no attention has a part in.
    """
    cells = (c for c in run.trusted_cells if c.problem.is_attention)
    known = [(p, c) for c in cells if (p := c.percent_of_bound) is not None]
    if not known:
        return None
    percent, cell = max(known, key=lambda item: item[0])
    assert cell.bound is not None
    roof = ""
    if cell.bound.binds == "compute" and cell.bound.flop_per_s and cell.bound.flop_provider:
        roof = f", {cell.bound.flop_provider} at {si_text(cell.bound.flop_per_s, 'FLOP/s')}"
    elif cell.bound.binds == "memory" and cell.bound.bytes_per_s and cell.bound.bytes_level:
        roof = f", {cell.bound.bytes_level} at {si_text(cell.bound.bytes_per_s, 'B/s')}"
    sentence = (
        f"{cell.implementation} comes closest to its measured bound: {percent:.0f} % at "
        f"{where(cell, run)}; {cell.bound.binds} binds{roof}."
    )
    if doubt := ceiling_doubt(run):
        sentence = f"{sentence[:-1]} ({doubt})."
    return finding(sentence, [cell], "bound")


def baseline_falls(run: Run) -> Finding | None:
    """How the baseline's share of its bound falls with T, and what its memory does meanwhile."""
    best: tuple[float, Cell, Cell] | None = None
    cells = [c for c in run.comparable_cells if c.problem.is_attention]
    for series in _by_length(c for c in cells if c.implementation == run.baseline):
        known = [(p, c) for c in series if (p := c.percent_of_bound) is not None]
        if len(known) < 2:
            continue
        (top, peak), (end, last) = max(known, key=lambda item: item[0]), known[-1]
        if top - end >= FALL_PERCENT and (best is None or top - end > best[0]):
            best = (top - end, peak, last)
    if best is None:
        return None
    _, peak, last = best
    grown = ""
    if (a := _peak_bytes(peak)) and (b := _peak_bytes(last)):
        grown = f", while its peak memory grows from {si_text(a, 'B')} to {si_text(b, 'B')}"
    sentence = (
        f"{run.baseline} falls from {peak.percent_of_bound:.0f} % of its bound at "
        f"T = {peak.problem.T_q} to {last.percent_of_bound:.0f} % at {where(last, run)}{grown}."
    )
    return finding(sentence, [peak, last], "bound")


def paging(run: Run) -> Finding | None:
    """Cells that spend their time in the operating system for fresh memory pages.

    Without a page fault it is something else that took it, of which nothing is known.
    """
    shares = [
        (cell.host.system_share, cell)
        for cell in run.cells
        if cell.status == "ok" and cell.host and cell.host.system_share is not None
        if cell.host.minor_faults_per_call is None or cell.host.minor_faults_per_call >= 1
    ]
    paged = [(share, cell) for share, cell in shares if share > PAGING_SHARE]
    if not paged:
        return None
    share, worst = max(paged, key=lambda item: item[0])
    faults = worst.host.minor_faults_per_call if worst.host else None
    with_faults = "" if faults is None else f", with {_count_text(faults)} page faults a call"
    several = (
        ""
        if len(paged) == 1
        else f"; {len(paged)} cells spend over {100 * PAGING_SHARE:.0f} % there"
    )
    sentence = (
        f"{worst.implementation} spends {100 * share:.0f} % of its CPU time "
        f"in the operating system at {where(worst, run)}{with_faults}: "
        f"that is the allocator, not attention{several}."
    )
    return finding(sentence, [cell for _, cell in paged])


# In the order they should be read; where all nine have something to say, the last are dropped.
# What is wrong comes before what is fast, and what the sweeps answer before what is in doubt. A
# static run has findings of its own.
_LEADING: tuple[Callable[[Run], Finding | None], ...] = (
    failures,
    doubted,
    fastest,
    closest_to_bound,
    causal_saving,
)
_OTHERS: tuple[Callable[[Run], Finding | None], ...] = (
    paging,
    exhausted,
    left_out,
    did_not_run,
    baseline_falls,
    *STATIC_FINDINGS,
)


def _peak_bytes(cell: Cell) -> int | None:
    return cell.memory.peak_bytes if cell.memory else None


def _count_text(count: float) -> str:
    return f"{digits(count / 1000)} thousand" if count >= 1000 else f"{count:.0f}"


def _by_length(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Square dense cells in series of growing T, everything else the same."""
    series: dict[tuple, dict[int, Cell]] = defaultdict(dict)
    for cell in cells:
        if cell.problem.T_q == cell.problem.T_kv and cell.problem.lengths is None:
            series[(*same_sweep(cell), cell.launch)][cell.problem.T_q] = cell
    return [[found[T] for T in sorted(found)] for found in series.values()]
