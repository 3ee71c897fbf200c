"""What of a run gets a row, in which order, and what is told in one line instead."""

from __future__ import annotations

from collections.abc import Iterable

from impls.interface.problem import SOFTMAX
from reports.columns import Column, columns
from reports.style import plural
from results.run import Run
from results.schema import STATUSES, Cell

# From what a reader must see first to what only explains an absence.
_URGENCY = ("ok", "wrong", "crashed", "error", "oom", "timeout", "unsupported", "unavailable")
_URGENCY += ("skipped",)
# Rows whose status alone tells all: told once a reason, with counts, instead of rows of dashes.
_ROWLESS = ("unavailable", "unsupported", "skipped")


def in_reading_order(cells: Iterable[Cell]) -> list[Cell]:
    """Timed cells by sweep, size and time; then the others, the most urgent status first."""

    def order(cell: Cell) -> tuple:
        problem = cell.problem
        sizes = (problem.T_kv, problem.T_q, problem.H, problem.H_kv, problem.d_h, problem.B)
        sweep = (cell.suite != "sequence_length", cell.suite, problem.causal, cell.series)
        # What computes something else stands apart, whatever its time.
        sweep += (problem.operator != SOFTMAX, problem.operator)
        time_s = cell.time_s if cell.time_s is not None else float("inf")
        kind = (cell.pass_, problem.dtype, cell.cache, cell.clock, cell.launch)
        urgency = 0 if cell.timing else _URGENCY.index(cell.status)
        # However fast it was: a wrong result never leads.
        is_wrong = cell.status == "wrong"
        return (urgency, sweep, kind, sizes, is_wrong, time_s, cell.implementation)

    return sorted(cells, key=order)


def reasons(cells: Iterable[Cell]) -> list[str]:
    """One line a reason, urgent ones first: "2 unavailable: xformers_cutlass (needs CUDA)".

    A wrong result is written in capitals, since it stands among things that only lack.
    """
    stopped: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.status != "ok":
            why = "; ".join(cell.reasons) or "no reason was written"
            stopped.setdefault((cell.status, why), []).append(cell.implementation)
    ranked = sorted(stopped.items(), key=lambda item: (_URGENCY.index(item[0][0]), item[0][1]))
    return [
        f"{len(names)} {_loud(status)}: {', '.join(dict.fromkeys(names))} ({why})"
        for (status, why), names in ranked
    ]


def _loud(status: str) -> str:
    return status.upper() if status == "wrong" else status


def status_counts(run: Run) -> list[tuple[str, int]]:
    """Every status with its count, zeros too: what did not happen is said as well."""
    return [(status, run.counts.get(status, 0)) for status in STATUSES]


def left_out(run: Run) -> str:
    """How many rows stay out of every ratio and best-of, and why; empty when all enter."""
    flagged = sum(1 for cell in run.cells if cell.status == "ok" and cell.flags)
    others = [f"{n} {status}" for status, n in run.counts.items() if status != "ok"]
    parts = ([f"{flagged} flagged"] if flagged else []) + others
    total = len(run.cells) - len(run.comparable_cells)
    if not total:
        return ""
    return f"{plural(total, 'row')} left out of every ratio and best-of: {', '.join(parts)}."


def html_rows(run: Run) -> tuple[list[Column], list[tuple[Cell, list[str]]]]:
    """Columns and, for each cell that has a row, in reading order, its texts, not yet escaped."""
    found = list(columns(run).values())
    cells = [cell for cell in run.cells if cell.status not in _ROWLESS]
    return found, [(c, [column.show(c) for column in found]) for c in in_reading_order(cells)]
