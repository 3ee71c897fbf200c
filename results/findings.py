"""The few sentences a run bears out: pure functions from a run to a sentence and its cells.

Only comparable cells (ok, no flag) enter a best or a ratio; how many were left out is a finding of
its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from statistics import median

from results.contest import SUITE, absent, broadest_contest, fastest_name, same_work
from results.phrases import where
from results.run import Run
from results.schema import TIMED, Cell
from results.units import digits, si_text, time_text

MOST = 7
# Below these a difference is not worth a sentence.
PAGING_SHARE = 0.20
SKIPS_NOTHING = 0.95
FALL_PERCENT = 10.0


@dataclass(frozen=True)
class Finding:
    """One sentence and the cells it stands on, by `Cell.key`."""

    sentence: str
    cells: tuple[tuple[str, int, str, str], ...] = ()


def findings(run: Run, most: int = MOST) -> tuple[Finding, ...]:
    """The most telling sentences of a run, at most `most`, in the order they should be read."""
    told = [finding(run) for finding in _FINDINGS]
    return tuple(finding for finding in told if finding is not None)[:most]


def failures(run: Run) -> Finding | None:
    """Results that were wrong, cells that crashed, failed or ran out: what needs attention."""
    bad = [c for c in run.cells if c.status in ("wrong", "crashed", "error", "oom", "timeout")]
    if not bad:
        return None
    by_status = Counter(cell.status for cell in bad)
    counts = ", ".join(f"{n} {status}" for status, n in by_status.most_common())
    worst = next((c for c in bad if c.status == "wrong"), bad[0])
    reason = f": {worst.reasons[0]}" if worst.reasons else ""
    cells = "1 cell" if len(bad) == 1 else f"{len(bad)} cells"
    return _finding(f"{cells} gave no usable time ({counts}): {worst.label}{reason}.", bad)


def fastest(run: Run) -> Finding | None:
    """The fastest implementation against the baseline, where the most can be compared."""
    ratios = broadest_contest(run)
    if not ratios:
        return None
    name, best = max(ratios.items(), key=lambda item: item[1].times)
    cell, other = best.cells[0], best.cells[1]
    assert cell.time_s and other.time_s
    place, rest = where(cell, run), ""
    if best.times > 1.0:
        start = f"{name} is the fastest of {len(ratios) + 1} at {place}:"
    elif others := absent(run, cell, {run.baseline, *ratios}):
        start = f"{run.baseline} is the fastest of {len(ratios) + 1} at {place}; {name} runs at"
        rest = f"; not compared there: {', '.join(others)}"
    else:
        start = f"Nothing beats {run.baseline} at {place}: the next, {name}, runs at"
    times = f"{time_text(cell.time_s)} against {time_text(other.time_s)}"
    ratio = digits(best.times, 3 if best.times >= 1.0 else 2)
    sentence = f"{start} {ratio} × {run.baseline} ({times}, {best.spread}){rest}."
    return _finding(sentence, best.cells)


def closest_to_bound(run: Run) -> Finding | None:
    """The cell with the best share of its measured bound, and what binds it."""
    known = [(p, c) for c in run.comparable_cells if (p := c.percent_of_bound) is not None]
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
    return _finding(sentence, [cell])


def baseline_falls(run: Run) -> Finding | None:
    """How the baseline's share of its bound falls with T, and what its memory does meanwhile."""
    best: tuple[float, Cell, Cell] | None = None
    for series in _by_length(c for c in run.comparable_cells if c.implementation == run.baseline):
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
    return _finding(sentence, [peak, last])


def paging(run: Run) -> Finding | None:
    """Cells that spend their time in the operating system, mostly for fresh memory pages."""
    shares = [
        (cell.host.system_share, cell)
        for cell in run.cells
        if cell.status in TIMED and cell.host and cell.host.system_share is not None
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
    return _finding(sentence, [cell for _, cell in paged])


def causal_saving(run: Run) -> Finding | None:
    """What causal saves the fastest implementation: its time over full's, along T."""
    full = {_causal_partner(c): c for c in run.comparable_cells if not c.problem.causal}
    sweeps: dict[tuple, dict[int, list[tuple[Cell, Cell]]]] = defaultdict(lambda: defaultdict(list))
    for cell in run.comparable_cells:
        other = full.get(_causal_partner(cell))
        if other and cell.problem.causal and cell.problem.window is None and cell.problem.T_q > 1:
            sweeps[_sweep(cell)][cell.problem.T_q].append((cell, other))
    if not sweeps:
        return None
    winner = fastest_name(run)
    told = max(sweeps.values(), key=lambda by_T: _telling(by_T[max(by_T)][0][0], winner))
    lengths = sorted(told)
    idle = list(takewhile(lambda T: _share(told[T]) > SKIPS_NOTHING, lengths))
    (cell, other), share = told[lengths[-1]][0], _share(told[lengths[-1]])
    if idle == lengths:
        start = f"Causal saves {cell.implementation} nothing: it takes"
    else:
        upto = f" skips nothing up to T = {idle[-1]} and" if idle else ""
        start = f"Causal {cell.implementation}{upto} takes"
    visible = ""
    if cell.counts and other.counts and other.counts.pairs:
        visible = f", where {cell.counts.pairs / other.counts.pairs:.2f} of the pairs are visible"
    launches = len(told[lengths[-1]])
    certainty = "1 launch" if launches == 1 else f"median of {launches} launches"
    place = where(cell, run, tells_masking=False)
    sentence = f"{start} {share:.2f} of full's time at {place}{visible} ({certainty})."
    return _finding(sentence, [c for T in lengths for pair in told[T] for c in pair])


def did_not_run(run: Run) -> Finding | None:
    """The implementations that could run nothing here, and why."""
    ran = {cell.implementation for cell in run.cells if cell.status in TIMED}
    absent = [c for c in run.cells if c.status in ("unavailable", "unsupported")]
    absent = [c for c in absent if c.implementation not in ran]
    if not absent:
        return None
    by_reason: dict[str, list[str]] = defaultdict(list)
    for cell in absent:
        reason = cell.reasons[0].split("; ")[0] if cell.reasons else cell.status
        if cell.implementation not in {n for names in by_reason.values() for n in names}:
            by_reason[reason].append(cell.implementation)
    parts = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    more = f"; and {len(parts) - 3} more reasons" if len(parts) > 3 else ""
    everyone = len({cell.implementation for cell in run.cells})
    names = {cell.implementation for cell in absent}
    sentence = f"{len(names)} of {everyone} implementations cannot run here: {'; '.join(parts[:3])}"
    return _finding(f"{sentence}{more}.", absent)


def left_out(run: Run) -> Finding | None:
    """How many timed rows did not enter a best or a ratio, and why."""
    out = [c for c in run.cells if c.status in TIMED and not c.is_comparable]
    if not out:
        return None
    why = Counter("wrong" if c.status == "wrong" else flag for c in out for flag in _doubts(c))
    parts = ", ".join(f"{n} {word}" for word, n in why.most_common())
    rows = "1 timed row is" if len(out) == 1 else f"{len(out)} timed rows are"
    return _finding(f"{rows} left out of best-of and speed-ups ({parts}).", out)


# In the order they should be read; where all eight have something to say, the last is dropped.
_FINDINGS: tuple[Callable[[Run], Finding | None], ...] = (
    fastest,
    closest_to_bound,
    causal_saving,
    paging,
    failures,
    left_out,
    did_not_run,
    baseline_falls,
)


def _finding(sentence: str, cells: Iterable[Cell]) -> Finding:
    return Finding(sentence, tuple(dict.fromkeys(cell.key for cell in cells)))


def _doubts(cell: Cell) -> tuple[str, ...]:
    return ("wrong",) if cell.status == "wrong" else cell.flags


def _peak_bytes(cell: Cell) -> int | None:
    return cell.memory.peak_bytes if cell.memory else None


def _count_text(count: float) -> str:
    return f"{digits(count / 1000)} thousand" if count >= 1000 else f"{count:.0f}"


def _telling(longest: Cell, winner: str) -> tuple:
    """How much a causal sweep tells, by its longest cell: the winner's, then the largest T."""
    return (
        longest.implementation == winner,
        longest.suite == SUITE,
        longest.pass_ == "forward",
        longest.problem.T_kv,
        -(longest.time_s or 0.0),
    )


def _sweep(cell: Cell) -> tuple:
    """What stays the same along a sweep of T; B may change with it, B·T being constant on GPUs."""
    shape = cell.problem.with_(B=1, T_q=1, T_kv=1, layout="bhtd").id
    sweep = (cell.implementation, shape, cell.problem.layout, cell.suite, cell.series)
    return (*sweep, cell.pass_, cell.cache, cell.clock)


def _causal_partner(cell: Cell) -> tuple:
    problem = cell.problem.with_(causal=False, window=None)
    return (cell.implementation, problem.id, *same_work(cell)[1:], cell.launch)


def _share(pairs: list[tuple[Cell, Cell]]) -> float:
    """Causal time over full time, the median over launches."""
    return median((a.time_s or 0.0) / b.time_s for a, b in pairs if b.time_s)


def _by_length(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Square cells in series of growing T, everything else the same."""
    series: dict[tuple, dict[int, Cell]] = defaultdict(dict)
    for cell in cells:
        if cell.problem.T_q == cell.problem.T_kv:
            series[(*_sweep(cell), cell.launch)][cell.problem.T_q] = cell
    return [[found[T] for T in sorted(found)] for found in series.values()]
