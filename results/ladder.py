"""One implementation along one series: its comparable cells by the size that the series sweeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from impls.interface.problem import Problem
from results.phrases import where
from results.run import Run
from results.schema import Cell
from results.units import digits


@dataclass(frozen=True)
class Ladder:
    """The cells of one implementation that differ in one size alone, `rungs[size][launch]`."""

    implementation: str
    series: str
    rungs: Mapping[float, Mapping[int, Cell]]

    @property
    def sizes(self) -> list[float]:
        """The sizes it was measured at, in rising order."""
        return sorted(self.rungs)

    @property
    def problems(self) -> list[Problem]:
        """The problem of each size."""
        return [self.cell(size).problem for size in self.sizes]

    def cell(self, size: float) -> Cell:
        """The cell of a size; of several launches the first."""
        return next(iter(self.rungs[size].values()))

    def time_s(self, size: float) -> float:
        """The median over launches."""
        return median(cell.time_s or 0.0 for cell in self.rungs[size].values())

    def times(self, size: float, base: float) -> float | None:
        """How many times the time at `base` it takes: the median of launches that have both."""
        ratios = [
            (cell.time_s or 0.0) / other.time_s
            for launch, cell in self.rungs[size].items()
            if (other := self.rungs[base].get(launch)) and other.time_s
        ]
        return median(ratios) if ratios else None

    def cells(self, *sizes: float) -> list[Cell]:
        """All cells of these sizes."""
        return [cell for size in sizes for cell in self.rungs[size].values()]

    def certainty(self, size: float) -> str:
        """What may be said of it, for a bracket: "1 launch"."""
        launches = len(self.rungs[size])
        return "1 launch" if launches == 1 else f"median of {launches} launches"


def ladders(run: Run, suite: str, size: Callable[[Problem], float]) -> list[Ladder]:
    """Every implementation along every series of a suite, of forward; doubtful cells left out.

    What else tells two cells apart, dtype, cache or clock, makes ladders of their own.
    """
    found: dict[tuple, dict[float, dict[int, Cell]]] = defaultdict(lambda: defaultdict(dict))
    for cell in run.trusted_cells:
        if cell.suite == suite and cell.pass_ == "forward" and cell.time_s:
            key = (cell.implementation, cell.series, cell.problem.dtype, cell.cache, cell.clock)
            found[key][size(cell.problem)][cell.launch] = cell
    return [Ladder(key[0], key[1], dict(rungs)) for key, rungs in found.items()]


def longest(found: list[Ladder], base: float) -> Ladder | None:
    """Who was measured at the most sizes, `base` among them; of several the fastest there.

    So nobody leads by the sizes it cannot do. None where nobody has `base` and another size.
    """
    able = [one for one in found if base in one.rungs and len(one.rungs) > 1]
    return min(able, key=lambda one: (-len(one.rungs), one.time_s(base)), default=None)


def longest_full(found: list[Ladder]) -> Ladder | None:
    """Of those whose queries see every key: the most sizes, the largest of all among them."""
    full = [
        one
        for one in found
        if len(one.rungs) > 1 and not any(problem.causal for problem in one.problems)
    ]
    return longest(full, max((one.sizes[-1] for one in full), default=0))


def beside(line: Ladder, size: float, base: float, run: Run) -> str:
    """ "at T = 256, full (H 8, …) flash takes 1.90 × as long as with H 4, for 2 × the FLOP"."""
    cell, other = line.cell(size), line.cell(base)
    work = ""
    if cell.counts and other.counts and other.counts.flop:
        more = cell.counts.flop / other.counts.flop
        work = ", for the same FLOP" if more == 1 else f", for {more:.3g} × the FLOP"
    times = digits(line.times(size, base) or 0.0)
    return (
        f"at {where(cell, run)} {line.implementation} takes {times} × as long as with "
        f"{_differing(cell.problem, other.problem)}{work} ({line.certainty(size)})"
    )


def _differing(one: Problem, other: Problem) -> str:
    """The sizes of the other problem that this one has not: "H 4, d_h 256"."""
    named = {"B": other.B, "T": other.T_q, "H": other.H, "d_h": other.d_h}
    mine = {"B": one.B, "T": one.T_q, "H": one.H, "d_h": one.d_h}
    if one.H == other.H:
        named["H_kv"], mine["H_kv"] = other.H_kv, one.H_kv
    return ", ".join(f"{name} {size}" for name, size in named.items() if size != mine[name])
