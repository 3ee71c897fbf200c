"""How many times as fast as the baseline: cell against cell of one kind and one launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from impls.interface.problem import SOFTMAX
from results.run import Run
from results.schema import Cell

Kind = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class SpeedUp:
    """Baseline time / time of one implementation on one problem, over the launches it has.

    Attributes:
        times: the median of the launches' ratios; above 1 is faster than the baseline.
        lowest, highest: the range over launches; None where there is one, which has no interval.
        cells: the rows it stands on, both implementations', in launch order.
    """

    times: float
    launches: int
    lowest: float | None
    highest: float | None
    cells: tuple[Cell, ...]

    @property
    def is_certain(self) -> bool:
        """Whether it differs from 1 beyond noise.

        Over launches no ratio lies on the other side; of one launch the middle halves of the two
        rows' samples (quartiles, else the median's interval) do not overlap.
        """
        if self.lowest is not None and self.highest is not None:
            return self.lowest > 1.0 or self.highest < 1.0
        low, high = sorted((_middle(cell) for cell in self.cells), key=sum)
        return low[1] < high[0]

    @property
    def spread(self) -> str:
        """What may be said of its certainty, for a bracket."""
        if self.lowest is None or self.highest is None:
            return "1 launch"
        return f"{self.lowest:.2f} to {self.highest:.2f} over {self.launches} launches"


def _middle(cell: Cell) -> tuple[float, float]:
    """The first and third quartile of a cell's samples, or what is known of them, seconds."""
    timing, time_s = cell.timing, cell.time_s or 0.0
    if timing is None:
        return time_s, time_s
    low, high = timing.q1_s or timing.ci_low_s, timing.q3_s or timing.ci_high_s
    return low or time_s, high or time_s


def kind(cell: Cell) -> Kind:
    """What two cells must share to be set against each other: all but the implementation."""
    return (cell.problem.id, cell.pass_, cell.cache, cell.clock, cell.launch)


def baseline_cells(run: Run, baseline: str | None = None) -> dict[Kind, Cell]:
    """The comparable cells of the baseline (the run's own unless named) by kind."""
    name = baseline or run.baseline
    return {kind(c): c for c in run.comparable_cells if c.implementation == name}


def times_baseline(cell: Cell, baselines: dict[Kind, Cell]) -> float | None:
    """Baseline time / this cell's time; None where either is missing, flagged or not ok."""
    other = baselines.get(kind(cell))
    if other is None or not cell.is_comparable or not cell.time_s or not other.time_s:
        return None
    return other.time_s / cell.time_s


def why_no_ratio(cell: Cell, run: Run) -> str:
    """What the baseline lacks where a row that is not in doubt has no ratio to it, else "".

    "not measured there", or the flags or status it has there; or that it computes something else.
    """
    if not cell.is_comparable:
        return ""
    if cell.problem.operator != SOFTMAX:
        return f"another operator than {cell.problem.operator}"
    same = [c for c in run.cells if c.implementation == run.baseline and kind(c) == kind(cell)]
    if any(other.is_comparable for other in same):
        return ""
    return next((", ".join(c.flags) or c.status for c in same), "not measured")


def speed_up(cells: Iterable[Cell], baselines: dict[Kind, Cell]) -> SpeedUp | None:
    """One implementation's cells of one problem, over launches, against the baseline's."""
    pairs: dict[int, tuple[float, Cell]] = {}
    for cell in cells:
        ratio = times_baseline(cell, baselines)
        if ratio is not None:
            pairs[cell.launch] = (ratio, cell)
    if not pairs:
        return None
    ratios = [ratio for ratio, _ in pairs.values()]
    rows = [row for _, cell in pairs.values() for row in (cell, baselines[kind(cell)])]
    several = len(ratios) > 1
    return SpeedUp(
        times=median(ratios),
        launches=len(ratios),
        lowest=min(ratios) if several else None,
        highest=max(ratios) if several else None,
        cells=tuple(rows),
    )
