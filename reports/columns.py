"""The columns of the one table: what each shows of a cell, in one unit for the whole report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from impls.interface.problem import SOFTMAX, Problem
from reports.bars import histogram
from reports.style import CLOCK_NAMES, LEVEL_NAMES, Unit, plural, unit_for
from results.interval import MEANING, half_width_text
from results.measured import Timing
from results.phrases import DTYPE_NAMES, lengths_of
from results.ratios import baseline_cells, times_baseline, why_no_ratio
from results.run import Run
from results.schema import Cell

NOTHING = "–"
_BINS = 12
_PERCENT = "100 is the least time that the measured ceilings allow"
_FLOP = "useful FLOP/s: the problem's FLOP, the same for every implementation"
_RATIO = "how many times as fast as the baseline; unflagged ok rows only"
_ERROR = "largest distance of any output to float64, in the same run"
_NAIVE = "the plain formula's distance to float64 at this dtype, on the same inputs"
_BYTES = "compulsory bytes (each tensor once) a second; not read from counters"
_STOP = "why sampling ended: the median precise, the budget spent, or max_samples"
_SAMPLES = "how many lie where between the fastest and the slowest"
_FIRST = "the first call, with whatever it compiles; in no other figure"
_REPEATS = "whether a second call on equal inputs gave the same gradients, bit by bit"
_PREPARE = "work that depends on the problem alone, done once outside the clock"
_FAULTS = "pages of memory that the operating system had to hand out in one call"
_FOREIGN = "share of the machine that other programs used meanwhile"


@dataclass(frozen=True)
class Column:
    """One column: the unit is in its header; `show` gives a cell's text, a dash for unknown.

    `is_first` columns stand before the others, where a page shows them without scrolling.
    """

    key: str
    header: str
    is_number: bool
    show: Callable[[Cell], str]
    help: str = ""
    is_first: bool = False
    in_markdown: bool = False


def columns(run: Run) -> dict[str, Column]:
    """All columns by key, in order; every unit is chosen once, over all cells of the run.

    No column of ratios where none are wanted.
    """
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

    def first(key: str, header: str, show: Callable[[Cell], str], explained: str = "") -> Column:
        is_number = key not in ("implementation", "problem", "flags")
        return Column(key, header, is_number, show, explained, is_first=True, in_markdown=True)

    found = [
        first("implementation", "implementation", lambda c: c.implementation),
        first("problem", "problem", lambda c: c.problem.id),
        first("time", f"time {time.name}", lambda c: time.show(c.time_s), "median"),
        first("half_width", "±%", half_width_text, MEANING),
        first("flop_per_s", flop.name, lambda c: flop.show(c.flop_per_s), _FLOP),
        first("times_baseline", ratio_header, times, _RATIO),
        first("percent_of_bound", "% of bound", _percent, _PERCENT),
        first("flags", "flags", lambda c: ", ".join(marks(c)) or NOTHING, "why it is in doubt"),
        first("error", "max error", _error, _ERROR),
        Column("naive_error", "naive error", True, _naive_error, _NAIVE, in_markdown=True),
        Column("status", "status", False, lambda c: c.status),
        Column("binds", "bound by", False, _binds, in_markdown=True),
        Column("bytes_per_s", band.name, True, lambda c: band.show(c.bytes_per_s), _BYTES),
        Column("peak_bytes", f"peak {peak.name}", True, lambda c: peak.show(_peak(c))),
        Column("interval", f"interval {time.name}", False, lambda c: _interval(c, time)),
        Column("n", "n", True, _timed(lambda t: str(t.n)), "samples", in_markdown=True),
        Column("samples", "samples", False, _timed(_strip), _SAMPLES),
        Column("stop", "stopped", False, _timed(lambda t: t.stop or NOTHING), _STOP),
        Column(
            "first_call", f"first call {time.name}", True, _seconds(time, "first_call_s"), _FIRST
        ),
        Column("prepare", f"prepare {time.name}", True, _seconds(time, "prepare_s"), _PREPARE),
        Column("faults", "faults a call", True, _faults, _FAULTS),
        Column("foreign_load", "foreign load %", True, _foreign_load, _FOREIGN),
        Column("clock", "clock", False, _clock, in_markdown=True),
        Column("pass", "pass", False, lambda c: c.pass_.replace("_", " + "), in_markdown=True),
        Column("ran", "ran", False, lambda c: ", ".join(c.ran) or NOTHING, "operators it ran"),
        Column("reason", "reason", False, lambda c: "; ".join(c.reasons) or NOTHING),
    ]
    if any(cell.repeats for cell in cells):
        found.append(Column("repeats", "repeats", False, repeats, _REPEATS, in_markdown=True))
    if several:
        found.insert(2, first("launch", "launch", lambda c: str(c.launch)))
    left_out = set() if run.has_baseline else {"times_baseline"}
    return {column.key: column for column in found if column.key not in left_out}


def marks(cell: Cell) -> list[str]:
    """The status where it is not ok, WRONG in capitals, then the flags."""
    status = cell.status.upper() if cell.status == "wrong" else cell.status
    return [*([] if cell.status == "ok" else [status]), *cell.flags]


def repeats(cell: Cell) -> str:
    """ "yes" where the gradients came out the same twice, else those that did not: "not dq"."""
    if not cell.repeats:
        return NOTHING
    differing = [name for name, is_same in cell.repeats.items() if not is_same]
    return f"not {', '.join(differing)}" if differing else "yes"


def missing_ratios(run: Run, cells: Iterable[Cell]) -> list[tuple[Cell, str]]:
    """The rows whose dash in the baseline's column is the baseline's doing, each with why."""
    return [(cell, why) for cell in cells if (why := why_no_ratio(cell, run))]


def ratio_notes(run: Run) -> list[str]:
    """One line that tells why rows without a flag have no ratio; none where all have one."""
    why = Counter(why for _, why in missing_ratios(run, run.cells))
    if not why or not run.has_baseline:
        return []
    told = "; ".join(f"{words} ({plural(n, 'row')})" for words, n in why.most_common())
    return [f"× {run.baseline} is – without a flag where {run.baseline} is {told}."]


def shared_parts(cells: Sequence[Cell]) -> str:
    """What all cells' problems share, in the paper's letters: "B=1 H=8 d_h=64 fp32"."""
    problems = [cell.problem for cell in cells]
    named: list[str] = []
    for name in ("B", "T", "H", "H_kv", "d_h"):
        if name == "T":
            named += _shared_lengths(problems)
            continue
        values = {getattr(p, name) for p in problems}
        twins = {p.H for p in problems} if name == "H_kv" else set()
        if len(values) == 1 and values != twins:
            named.append(f"{name}={values.pop()}")
    arounds = {p.around for p in problems}
    if len(arounds) == 1 and (around := arounds.pop()) is not None:
        named.append(f"d_model={around.shape.d_model}")
        named += [f"d_ff={around.d_ff}"] if around.d_ff else []
    dtypes = {p.dtype for p in problems}
    if len(dtypes) == 1:
        named.append(DTYPE_NAMES[dtypes.pop()])
    operators = {p.operator for p in problems}
    if len(operators) == 1 and operators != {SOFTMAX}:
        named.append(f"operator={operators.pop()} (not softmax)")
    return " ".join(named)


def _shared_lengths(problems: Sequence[Problem]) -> list[str]:
    """ "T=512", or of T_q and T_kv what all share; of several sequences "T=37…512"."""
    texts = [lengths_of(p) for p in problems]
    names = ("T",) if all("T" in one for one in texts) else ("T_q", "T_kv")
    values = {n: {one.get(n, one.get("T")) for one in texts} for n in names}
    return [f"{n}={found.pop()}" for n, found in values.items() if len(found) == 1]


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
    if bound is None or cell.status == "wrong":
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


def _naive_error(cell: Cell) -> str:
    if cell.check is None:
        return NOTHING
    known = [output.naive_max_error for output in cell.check.outputs.values()]
    finite = [error for error in known if error is not None]
    return f"{max(finite):.1e}" if finite else NOTHING


def _timed(show: Callable[[Timing], str]) -> Callable[[Cell], str]:
    return lambda cell: show(cell.timing) if cell.timing else NOTHING


def _strip(timing: Timing) -> str:
    return histogram(timing.samples_s, _BINS) or NOTHING


def _seconds(unit: Unit, field: str) -> Callable[[Cell], str]:
    return _timed(lambda timing: unit.show(getattr(timing, field)))


def _faults(cell: Cell) -> str:
    faults = cell.host.minor_faults_per_call if cell.host else None
    return NOTHING if faults is None else f"{faults:.0f}"


def _foreign_load(cell: Cell) -> str:
    load = cell.host.foreign_load if cell.host else None
    return NOTHING if load is None else f"{100 * load:.0f}"
