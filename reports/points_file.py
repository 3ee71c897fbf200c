"""Every plotted point as CSV, seconds and counts raw."""

from __future__ import annotations

import csv
import io

from reports.points import Point, points
from results.run import Run

_PROBLEM = ("B", "T_q", "T_kv", "H", "H_kv", "d_h", "d_v", "dtype", "causal", "window", "layout")
_MEASURED = ("time_s", "low_s", "high_s", "n", "launches", "flop", "algorithmic_bytes")
_DERIVED = ("flop_per_s", "intensity", "bound_s", "share", "binds")


def points_csv(run: Run) -> str:
    """One line a point; empty where something is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("suite", "series", "implementation", "problem", *_PROBLEM, "pass", "cache", "clock")
    writer.writerow([*names, *_MEASURED, *_DERIVED, "flags", "cell"])
    for point in points(run.cells)[0]:
        writer.writerow(_line(point))
    return text.getvalue()


def _line(point: Point) -> list[object]:
    line: list[object] = [point.suite, point.series, point.implementation, point.problem.id]
    line += [getattr(point.problem, name) for name in _PROBLEM]
    line += [point.pass_, point.cache, point.clock]
    line += [getattr(point, name) for name in (*_MEASURED, *_DERIVED)]
    return [*line, " ".join(point.flags), point.cell]
