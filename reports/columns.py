"""The columns of the one table: what each shows of a cell, in one unit for the whole report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reports.style import CLOCK_NAMES, LEVEL_NAMES, Unit, unit_for
from results.phrases import DTYPE_NAMES
from results.ratios import baseline_cells, times_baseline
from results.run import Run
from results.schema import Cell

NOTHING = "–"
_INTERVAL = "95 % interval of the median within its launch; it says nothing of other launches"
_PERCENT = "100 is the least time that the measured ceilings allow"
_FLOP = "useful FLOP/s: the problem's FLOP, the same for every implementation"
_RATIO = "how many times as fast as the baseline; unflagged ok rows only"
_ERROR = "largest distance of any output to float64, in the same run"
_BYTES = "compulsory bytes (each tensor once) a second; not read from counters"


@dataclass(frozen=True)
class Column:
    """One column: the unit is in its header; `show` gives a cell's text, a dash for unknown."""

    key: str
    header: str
    is_number: bool
    show: Callable[[Cell], str]
    help: str = ""


def columns(run: Run) -> dict[str, Column]:
    """All columns by key, in order; every unit is chosen once, over all cells of the run."""
    cells = run.cells
    time = unit_for([cell.time_s for cell in cells], "s")
    flop = unit_for([cell.flop_per_s for cell in cells], "FLOP/s")
    # By the largest: where arithmetic binds, the bandwidths are low and say little.
    band = unit_for([max((cell.bytes_per_s or 0.0 for cell in cells), default=0.0)], "B/s")
    peak = unit_for([_peak(cell) for cell in cells], "B")
    baselines = baseline_cells(run)
    several = run.launches > 1
    ratio_header = f"× {run.baseline}" + ("" if several else " (1 launch)")

    def times(cell: Cell) -> str:
        ratio = times_baseline(cell, baselines)
        return NOTHING if ratio is None else f"{ratio:.2f}"

    found = [
        Column("implementation", "implementation", False, lambda c: c.implementation),
        Column("problem", "problem", False, lambda c: c.problem.id),
        Column("status", "status", False, lambda c: c.status),
        Column("flags", "flags", False, lambda c: ", ".join(c.flags) or NOTHING),
        Column("time", f"time {time.name}", True, lambda c: time.show(c.time_s), "median"),
        Column("interval", f"interval {time.name}", False, lambda c: _interval(c, time), _INTERVAL),
        Column("percent_of_bound", "% of bound", True, _percent, _PERCENT),
        Column("binds", "bound by", False, _binds),
        Column("flop_per_s", flop.name, True, lambda c: flop.show(c.flop_per_s), _FLOP),
        Column("times_baseline", ratio_header, True, times, _RATIO),
        Column("error", "max error", True, _error, _ERROR),
        Column("bytes_per_s", band.name, True, lambda c: band.show(c.bytes_per_s), _BYTES),
        Column("peak_bytes", f"peak {peak.name}", True, lambda c: peak.show(_peak(c))),
        Column("n", "n", True, lambda c: str(c.timing.n) if c.timing else NOTHING, "samples"),
        Column("clock", "clock", False, _clock),
        Column("pass", "pass", False, lambda c: c.pass_.replace("_", " + ")),
        Column("ran", "ran", False, lambda c: ", ".join(c.ran) or NOTHING, "operators it ran"),
        Column("reason", "reason", False, lambda c: "; ".join(c.reasons) or NOTHING),
    ]
    if several:
        found.insert(2, Column("launch", "launch", True, lambda c: str(c.launch)))
    return {column.key: column for column in found}


def shared_parts(cells: list[Cell]) -> str:
    """What all cells' problems share, in the paper's letters: "B=1 H=8 d_h=64 fp32"."""
    named: list[str] = []
    for name, short in (("B", "B"), ("T_kv", "T"), ("H", "H"), ("H_kv", "H_kv"), ("d_h", "d_h")):
        values = {getattr(cell.problem, name) for cell in cells}
        twins = {cell.problem.H for cell in cells} if name == "H_kv" else set()
        if len(values) == 1 and values != twins:
            named.append(f"{short}={values.pop()}")
    dtypes = {cell.problem.dtype for cell in cells}
    if len(dtypes) == 1:
        named.append(DTYPE_NAMES[dtypes.pop()])
    return " ".join(named)


def _peak(cell: Cell) -> int | None:
    return None if cell.memory is None else cell.memory.peak_bytes


def _interval(cell: Cell, unit: Unit) -> str:
    timing = cell.timing
    if timing is None or timing.ci_low_s is None or timing.ci_high_s is None:
        return NOTHING
    return f"{unit.show(timing.ci_low_s, 4)} … {unit.show(timing.ci_high_s, 4)}"


def _clock(cell: Cell) -> str:
    return f"{CLOCK_NAMES.get(cell.clock, cell.clock)}, {cell.cache}"


def _percent(cell: Cell) -> str:
    return NOTHING if cell.percent_of_bound is None else f"{cell.percent_of_bound:.1f}"


def _binds(cell: Cell) -> str:
    bound = cell.bound
    if bound is None:
        return NOTHING
    if bound.binds == "memory" and bound.bytes_level:
        return f"memory ({LEVEL_NAMES.get(bound.bytes_level, bound.bytes_level)})"
    return bound.binds


def _error(cell: Cell) -> str:
    """The largest error of any output; an output whose error is not finite is said so."""
    if cell.check is None or not cell.check.outputs:
        return NOTHING
    errors = [output.max_error for output in cell.check.outputs.values()]
    finite = [error for error in errors if error is not None]
    return f"{max(finite):.1e}" if len(finite) == len(errors) else "not finite"
