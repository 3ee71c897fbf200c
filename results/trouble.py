"""What went wrong in a run: wrong results, failures, what could not run and what is in doubt."""

from __future__ import annotations

from collections import Counter, defaultdict

from results.finding import Finding, finding
from results.phrases import where
from results.run import Run
from results.schema import TIMED, Cell

# The worst first: a fast wrong result misleads, a crash only lacks.
BROKEN = ("wrong", "crashed", "error")
_EXHAUSTED = ("oom", "timeout")
_WHAT_HAPPENED = {
    "wrong": "gives a wrong result",
    "crashed": "crashed",
    "error": "failed",
    "oom": "ran out of memory",
    "timeout": "ran out of time",
}
# With more rows in doubt than this, measuring again tells more than reading on.
DOUBTFUL_SHARE = 0.25
_ADVICE = {
    "swapped": "stop what fills the memory, or measure smaller problems",
    "contended": "stop other programs, or measure again",
    "unsteady": "measure again on a quiet machine, or longer (--budget default)",
}


def has_wrong(run: Run) -> bool:
    """Whether a result of the run was wrong: commands that read it then end with 1."""
    return any(cell.status == "wrong" for cell in run.cells)


def failures(run: Run) -> Finding | None:
    """Results that were wrong and cells that crashed or failed: to be read before any time."""
    return _told(run, BROKEN)


def doubted(run: Run) -> Finding | None:
    """Brought kernels that are wrong at what no cell asked."""
    if not run.header.doubts:
        return None
    told = "; ".join(f"{name} is {what}" for name, what in run.header.doubts.items())
    cells = [c for c in run.cells if c.implementation in run.header.doubts and c.status in TIMED]
    return finding(f"{told}.", cells)


def exhausted(run: Run) -> Finding | None:
    """Cells that ran out of memory or time."""
    return _told(run, _EXHAUSTED)


def _told(run: Run, statuses: tuple[str, ...]) -> Finding | None:
    bad = sorted(
        (cell for cell in run.cells if cell.status in statuses),
        key=lambda cell: statuses.index(cell.status),
    )
    if not bad:
        return None
    first, *rest = bad
    reason = f": {first.reasons[0]}" if first.reasons else ""
    counts = Counter(cell.status for cell in rest)
    others = ", ".join(f"{n} {status}" for status, n in counts.items())
    more = f"; {'1 more cell' if len(rest) == 1 else f'{len(rest)} more cells'}: {others}"
    sentence = f"{first.implementation} {_WHAT_HAPPENED[first.status]} at {where(first, run)}"
    return finding(f"{sentence}{reason}{more if rest else ''}.", bad)


def did_not_run(run: Run) -> Finding | None:
    """The implementations that could run nothing of this run's problems, and why.

    Where some of them are not here at all, those alone: the others have other problems.
    """
    ran = {cell.implementation for cell in run.cells if cell.status in TIMED}
    absent = [c for c in run.cells if c.status in ("unavailable", "unsupported")]
    absent = [c for c in absent if c.implementation not in ran]
    if not absent:
        return None
    are_here = all(c.status == "unsupported" for c in absent)
    absent = absent if are_here else [c for c in absent if c.status == "unavailable"]
    by_reason: dict[str, list[str]] = defaultdict(list)
    for cell in absent:
        reason = cell.reasons[0].split("; ")[0] if cell.reasons else cell.status
        if cell.implementation not in {n for names in by_reason.values() for n in names}:
            by_reason[reason].append(cell.implementation)
    parts = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    others = len(parts) - 3
    more = f"; and {others} more reason{'s' * (others > 1)}" if others > 0 else ""
    everyone = len({cell.implementation for cell in run.cells})
    names = {cell.implementation for cell in absent}
    cannot = "do none of these problems" if are_here else "cannot run here"
    sentence = f"{len(names)} of {everyone} implementations {cannot}: {'; '.join(parts[:3])}"
    return finding(f"{sentence}{more}.", absent)


def left_out(run: Run) -> Finding | None:
    """How many timed rows did not enter a best or a ratio, and why."""
    trusted = {cell.key for cell in run.trusted_cells}
    out = [c for c in run.cells if c.status in TIMED and c.key not in trusted]
    if not out:
        return None
    why = Counter(word for cell in out for word in _doubts(cell))
    parts = ", ".join(f"{n} {word}" for word, n in why.most_common())
    rows = "1 timed row is" if len(out) == 1 else f"{len(out)} timed rows are"
    return finding(f"{rows} left out of best-of and speed-ups ({parts}).", out)


def ceiling_doubt(run: Run) -> str:
    """Why every % of bound may read high: the ceilings were measured beside others; else ""."""
    ceilings = run.header.ceilings
    if ceilings is None or not ceilings.contended:
        return ""
    load = f"{ceilings.foreign_load:.0%} of" if ceilings.foreign_load else "a part of"
    return (
        f"% of bound may read high: other programs took {load} the machine while the ceilings "
        "were measured"
    )


def advice(run: Run) -> list[str]:
    """What to do about a run of which more than a quarter is in doubt for one reason."""
    timed = [cell for cell in run.cells if cell.status in TIMED]
    lines = []
    for flag, todo in _ADVICE.items():
        count = sum(flag in cell.flags for cell in timed)
        if count > DOUBTFUL_SHARE * len(timed):
            are = "row is" if len(timed) == 1 else "rows are"
            lines.append(f"{count} of {len(timed)} {are} {flag}: {todo}.")
    return lines


def _doubts(cell: Cell) -> tuple[str, ...]:
    if cell.status == "wrong":
        return ("wrong",)
    return cell.flags or (f"right, but {cell.implementation} is wrong elsewhere",)
