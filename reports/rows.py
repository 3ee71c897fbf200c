"""What of a run gets a row, in which order, and what is told in one line instead."""

from __future__ import annotations

import re
from collections.abc import Iterable

from impls.interface.problem import SOFTMAX
from reports.columns import Column, columns
from reports.style import plural
from results.run import Run
from results.schema import STATUSES, Cell

# From what a reader must see first to what only explains an absence.
_URGENCY = ("ok", "wrong", "crashed", "error", "oom", "timeout", "unsupported", "unavailable")
_URGENCY += ("skipped",)
# A size, a time, an error: what differs from cell to cell in one kind of reason.
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_BEYOND = "beyond the "
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


def has_row(cell: Cell) -> bool:
    """Whether a cell has a row of its own: not where its status alone tells all."""
    return cell.status not in _ROWLESS


def worst_first(cells: Iterable[Cell]) -> list[Cell]:
    """Those with a row: failures, the flagged, the others by how little of the bound is kept.

    What has no bound stands after what has one; equals are in reading order.
    """

    def badness(cell: Cell) -> tuple[int, float]:
        if cell.status != "ok":
            return _URGENCY.index(cell.status), 0.0
        percent = cell.percent_of_bound
        kept = float("inf") if percent is None else percent
        return len(_URGENCY) + (not cell.flags), kept

    return sorted(filter(has_row, in_reading_order(cells)), key=badness)


def reasons(cells: Iterable[Cell]) -> list[str]:
    """One line a reason, urgent ones first: "2 unavailable: xformers_cutlass (needs CUDA)".

    Of one implementation, reasons that differ in their numbers alone are one, told by the first. A
    wrong result is written in capitals, since it stands among things that only lack.
    """
    by_name: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.status != "ok":
            by_name.setdefault((cell.status, cell.implementation, _kind(cell)), []).append(cell)
    told: dict[tuple[str, str], list[Cell]] = {}
    for (status, _, _), found in by_name.items():
        told.setdefault((status, _reason_text(found)), []).extend(found)
    ranked = sorted(told.items(), key=lambda item: (_URGENCY.index(item[0][0]), item[0][1]))
    return [_reason_line(status, text, found) for (status, text), found in ranked]


def _reason_line(status: str, text: str, cells: list[Cell]) -> str:
    names = ", ".join(dict.fromkeys(cell.implementation for cell in cells))
    return f"{len(cells)} {_loud(status)}: {names} ({text})"


def _reason_text(cells: list[Cell]) -> str:
    """The first cell's reason, and how many others differ from it in their numbers."""
    first, *others = dict.fromkeys(_why(cell) for cell in cells)
    is_counted = others and not first.startswith(_BEYOND)
    return f"{first}; and {len(others)} more like it" if is_counted else first


def _why(cell: Cell) -> str:
    return "; ".join(cell.reasons) or "no reason was written"


def _kind(cell: Cell) -> str:
    why = _why(cell)
    return _BEYOND if why.startswith(_BEYOND) else _NUMBER.sub("0", why)


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
    cells = [cell for cell in run.cells if has_row(cell)]
    return found, [(c, [column.show(c) for column in found]) for c in in_reading_order(cells)]
