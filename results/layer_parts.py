"""A layer's time by its parts: the cells of one size, put together from what was measured apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from impls.interface.problem import Problem
from results.schema import Cell

SUITE = "layer"
# In the order in which a token meets them; a block has the last one as well.
PARTS = ("projections", "core", "output", "feed_forward")
_OF_LAYER = PARTS[:3]


@dataclass(frozen=True)
class Breakdown:
    """One layer at one T, of one implementation and pass; the cells of each part, by launch.

    `cells` has "projections", "core", "output" and "layer", and where they were measured
    "feed_forward", "block" and "dropout" (the block with dropout).
    """

    implementation: str
    pass_: str
    cells: dict[str, list[Cell]]

    @property
    def problem(self) -> Problem:
        """The problem of the whole layer."""
        return self.cells["layer"][0].problem

    @property
    def has_block(self) -> bool:
        """Whether the block and its feed-forward part were measured too."""
        return "block" in self.cells and "feed_forward" in self.cells

    @property
    def whole(self) -> str:
        """What the parts are parts of: "block" where it was measured, else "layer"."""
        return "block" if self.has_block else "layer"

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the whole."""
        return PARTS if self.has_block else _OF_LAYER

    def time_s(self, name: str) -> float:
        """The time of a part or whole, over launches their median."""
        return median(cell.time_s or 0.0 for cell in self.cells[name])

    def flop(self, name: str) -> int:
        """The FLOP of a part or whole."""
        counts = self.cells[name][0].counts
        return counts.flop if counts else 0

    @property
    def rest_s(self) -> float:
        """What the whole takes beyond its parts apart: norms, residual sums, copies.

        Below 0 where it takes less: one part may leave in a cache what the next one reads.
        """
        return self.time_s(self.whole) - sum(map(self.time_s, self.parts))

    @property
    def core_time_share(self) -> float:
        """The core's part of the layer's time."""
        return self.time_s("core") / self.time_s("layer")

    @property
    def core_flop_share(self) -> float:
        """The core's part of the layer's FLOP."""
        return self.flop("core") / self.flop("layer")

    @property
    def crossing_T(self) -> float:
        """The T at which the core's FLOP are those of the projections, by how both grow with T.

        A token's projections cost the same at any T, its core T keys, or causal (T + 1)/2. A
        window, which T soon exceeds, has no such T.
        """
        p = self.problem
        ratio = (self.flop("projections") + self.flop("output")) / self.flop("core")
        if p.window is not None:
            return float("nan")
        return (p.T_kv + 1) * ratio - 1 if p.causal else p.T_kv * ratio


def breakdowns(cells: Iterable[Cell]) -> list[Breakdown]:
    """Every layer of the sweep whose three parts were measured, in the order of its cells.

    Parts without a core are measured once, whatever the implementation.
    """
    found: dict[tuple, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.suite == SUITE and cell.status == "ok" and cell.time_s:
            found[_layer_of(cell)][_name(cell)].append(cell)
    together = []
    for (whose, *size), parts in found.items():
        every = {**found.get((None, *size), {}), **parts}
        if "layer" in parts and set(_OF_LAYER) <= set(every):
            together.append(Breakdown(whose, parts["layer"][0].pass_, every))
    return together


def _name(cell: Cell) -> str:
    around = cell.problem.around
    if around is None:
        return "core"
    return "dropout" if around.dropout else around.part


def _layer_of(cell: Cell) -> tuple:
    """Whose core it is, None for parts without one; then what all parts of one layer share.

    The series name the shape, as "T, base, core" does: a core alone knows no d_model.
    """
    shape = cell.series.rpartition(",")[0]
    p = cell.problem.with_(around=None)
    whose = cell.implementation if cell.problem.has_core else None
    return (whose, shape, p, cell.pass_, cell.cache, cell.clock)
