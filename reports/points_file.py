"""Every plotted point as CSV, seconds and counts raw."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from reports.columns import NOTHING, repeats
from reports.points import Point, points
from results.interval import half_width_percent
from results.measured import OutputCheck
from results.run import Run
from results.schema import Cell

_PROBLEM = ("B", "T_q", "T_kv", "H", "H_kv", "d_h", "d_v", "dtype", "causal", "window", "layout")
_MEASURED = ("time_s", "low_s", "high_s", "n", "launches", "flop", "algorithmic_bytes")
_MEASURED += ("cache_bytes",)
_DERIVED = ("flop_per_s", "intensity", "cache_intensity", "bound_s", "share", "binds")


def _of_timing(name: str) -> Callable[[Cell], float | None]:
    return lambda cell: getattr(cell.timing, name)


def _of_host(name: str) -> Callable[[Cell], float | None]:
    return lambda cell: getattr(cell.host, name) if cell.host else None


def _of_check(read: Callable[[OutputCheck], float | None]) -> Callable[[Cell], float | None]:
    def largest(cell: Cell) -> float | None:
        outputs = cell.check.outputs.values() if cell.check else ()
        known = [error for output in outputs if (error := read(output)) is not None]
        return max(known, default=None)

    return largest


# Beside a point's own fields; of several launches the median.
_OF_CELL: dict[str, Callable[[Cell], float | None]] = {
    "ci_low_s": _of_timing("ci_low_s"),
    "ci_high_s": _of_timing("ci_high_s"),
    "half_width_percent": half_width_percent,
    "first_call_s": _of_timing("first_call_s"),
    "prepare_s": _of_timing("prepare_s"),
    "wall_median_s": _of_timing("wall_median_s"),
    "max_error": _of_check(lambda output: output.max_error),
    "naive_max_error": _of_check(lambda output: output.naive_max_error),
    "peak_bytes": lambda cell: cell.memory.peak_bytes if cell.memory else None,
    "minor_faults_per_call": _of_host("minor_faults_per_call"),
    "foreign_load": _of_host("foreign_load"),
}


def points_csv(run: Run) -> str:
    """One line a point; empty where something is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("suite", "series", "implementation", "problem", *_PROBLEM, "pass", "cache", "clock")
    writer.writerow([*names, *_MEASURED, *_DERIVED, *_OF_CELL, "repeats", "stop", "flags", "cell"])
    behind: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in run.cells:
        if cell.timing is not None:
            behind.setdefault((cell.cell, cell.suite, cell.series), []).append(cell)
    for point in points(run.cells)[0]:
        writer.writerow(_line(point, behind[(point.cell, point.suite, point.series)]))
    return text.getvalue()


def _line(point: Point, cells: Sequence[Cell]) -> list[object]:
    line: list[object] = [point.suite, point.series, point.implementation, point.problem.id]
    line += [getattr(point.problem, name) for name in _PROBLEM]
    line += [point.pass_, point.cache, point.clock]
    line += [getattr(point, name) for name in (*_MEASURED, *_DERIVED)]
    line += [_middle(read(cell) for cell in cells) for read in _OF_CELL.values()]
    said = {repeats(cell) for cell in cells} - {NOTHING}
    line.append("; ".join(sorted(said)))
    stops = {cell.timing.stop for cell in cells if cell.timing and cell.timing.stop}
    return [*line, " ".join(sorted(stops)), " ".join(point.flags), point.cell]


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
