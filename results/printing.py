"""A run and its cells as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from impls.interface.problem import shorten
from results.counters_printing import MEANING as COUNTED
from results.counters_printing import print_counters
from results.disturbance import disturbance
from results.findings import findings
from results.interval import MEANING, half_width_text
from results.list_printing import counts_text
from results.run import Run
from results.schema import TIMED, Cell
from results.static_printing import print_profiles
from results.trouble import advice
from results.units import digits, time_unit


def print_run(
    run: Run, console: Console, *, show_all: bool = False, show_counters: bool = False
) -> None:
    """Head, tables of the cells that have a time, reasons of the others, notes and findings.

    With `show_counters` the tables are of what was counted, not of times.
    """
    header = run.header
    dirty = " (dirty)" if header.dirty else ""
    device = header.ceilings.device_name if header.ceilings else None
    threads = header.settings.threads
    console.print(Text(f"{run.name}{dirty}, {run.state}: {counts_text(run.counts)}"))
    on = f"{device or header.device}, {header.machine_key}"
    console.print(Text(on if threads is None else f"{on}, {threads} thread(s)"))
    if told := disturbance(run):
        console.print(Text(told))
    for note in run.notes:
        console.print(Text(f"note: {note}"))
    if run.running:
        console.print(Text(f"now: {run.running.implementation} {run.running.problem_id}"))
    if run.profiles:
        print_profiles(run.profiles, console)
    shown = [cell for cell in run.cells if show_all or cell.status in TIMED]
    groups: dict[tuple, list[Cell]] = defaultdict(list)
    for cell in shown:
        groups[(cell.suite, cell.pass_, cell.cache, cell.clock, cell.launch)].append(cell)
    for (suite, pass_, cache, clock, launch), cells in groups.items():
        several = f", launch {launch}" if run.launches > 1 else ""
        console.print()
        console.print(Text(f"{suite}: {pass_}, {cache}, {clock}{several}"))
        _print_cells(cells, console, show_counters=show_counters)
    if shown:
        console.print(Text(COUNTED if show_counters else f"{MEANING}."))
    _print_reasons(run, console)
    console.print()
    for finding in findings(run):
        console.print(Text(f"- {finding.sentence}"))
    for line in advice(run):
        console.print(Text(line))


def _print_cells(cells: list[Cell], console: Console, *, show_counters: bool = False) -> None:
    common = common_parts(cells)
    if common:
        console.print(Text(f"all: {', '.join(common)}"))
    cells = sorted(cells, key=_reading_order)
    if show_counters:
        print_counters(cells, [varying_text(cell, common) for cell in cells], console)
        return
    seconds, unit = time_unit(cell.time_s for cell in cells)
    table = Table(box=None, pad_edge=False)
    table.add_column("implementation", overflow="fold")
    table.add_column("problem", overflow="fold")
    table.add_column(f"median {unit}", justify="right")
    table.add_column("±%", justify="right")
    table.add_column("% of bound", justify="right")
    table.add_column("flags", overflow="fold")
    for cell in cells:
        median = digits(cell.time_s / seconds) if cell.time_s else "-"
        percent = cell.percent_of_bound
        table.add_row(
            cell.implementation,
            varying_text(cell, common),
            median,
            half_width_text(cell),
            "-" if percent is None else f"{percent:.0f}",
            ", ".join([*([] if cell.status == "ok" else [_loud(cell.status)]), *cell.flags]),
        )
    console.print(table)


def common_parts(cells: Sequence[Cell]) -> list[str]:
    """The parts of the problems' ids that all of several problems share, in their order."""
    ids = [shorten(cell.problem.id).split(",") for cell in cells]
    if len({tuple(parts) for parts in ids}) < 2:
        return []
    return [part for part in ids[0] if all(part in parts for parts in ids)]


def varying_text(cell: Cell, common: Iterable[str]) -> str:
    """What is left of a problem's id; where nothing is, it is the full one among causal ones."""
    left_out = set(common)
    parts = [part for part in shorten(cell.problem.id).split(",") if part not in left_out]
    return " ".join(parts) or "full"


def _reading_order(cell: Cell) -> tuple:
    problem = cell.problem
    sizes = (problem.T_kv, problem.T_q, problem.H, problem.H_kv, problem.d_h, problem.B)
    # However fast it was: a wrong result never leads.
    time = (cell.status == "wrong", cell.time_s or float("inf"))
    return (problem.dtype, problem.causal, sizes, time, cell.implementation)


def _print_reasons(run: Run, console: Console) -> None:
    """Each reason once, with how many cells it stopped and whose they are."""
    stopped: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in run.cells:
        if cell.status != "ok":
            for reason in cell.reasons or ("no reason was written",):
                stopped[(cell.status, reason)].append(cell)
    if not stopped:
        return
    console.print()
    for (status, reason), cells in stopped.items():
        names = ", ".join(dict.fromkeys(cell.implementation for cell in cells))
        console.print(Text(f"{len(cells)} {_loud(status)}: {reason} ({names})"))


def _loud(status: str) -> str:
    """A wrong result is never passed over."""
    return status.upper() if status == "wrong" else status
