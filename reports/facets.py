"""How a run's points are laid out: panels, the series in each, and the size on the x axis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from impls.interface.problem import Problem
from reports.points import Point
from reports.style import CLOCK_NAMES, count_name
from results.phrases import DTYPE_NAMES

SWEPT = ("T", "T_q", "T_kv", "H", "H_kv", "d_h", "d_v", "B", "window", "layout")
# Not a size of its own: the share of a layer's heads that pruning left, in %.
KEPT = "kept"
# Nor this: the share of real tokens in a batch padded to its longest sequence, in %.
FILLED = "filled"


_NAMES = (*SWEPT, KEPT, FILLED)


@dataclass(frozen=True)
class Series:
    """The points of one implementation in one facet, in numeric order of what is swept.

    `setting` names the sizes that tell its problems from those of other series, "" for none.
    """

    name: str
    implementation: str
    setting: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Facet:
    """One panel's series. `swept` names the size on its x axis; `title` what tells it apart."""

    row: str
    column: str
    swept: str
    dtype: str
    series: tuple[Series, ...]

    @property
    def title(self) -> str:
        """What the panel shows that its neighbours do not."""
        return " · ".join(part for part in (self.column, self.row) if part)

    @property
    def n_sizes(self) -> int:
        """How many values of the swept size have a point."""
        return len({size_of(point.problem, self.swept) for point in self.points})

    def sizes_of(self, setting: str) -> list[Any]:
        """Every swept size that a series of this setting has a point at, in order."""
        own = [series for series in self.series if series.setting == setting]
        return sorted({size_of(p.problem, self.swept) for series in own for p in series.points})

    @property
    def points(self) -> list[Point]:
        """All points of the panel."""
        return [point for series in self.series for point in series.points]


def size_of(problem: Problem, name: str) -> Any:
    """A field of the problem; along `T` a problem that is not square stands at its T_kv."""
    if name == KEPT and problem.around is not None:
        return 100 * problem.H * problem.d_h / problem.around.shape.d_model
    if name == FILLED:
        return 100 * problem.filled
    return problem.T_kv if name == "T" else getattr(problem, name)


def size_name(size: float, swept: str) -> str:
    """A swept size as it is written: 4k, or the share that it is."""
    return f"{size:.3g} %" if swept in (KEPT, FILLED) else count_name(int(size))


def swept_name(found: Sequence[Point], swept: str) -> str:
    """What the swept size is called on these points: T only where T_q = T_kv = T."""
    is_square = all(point.problem.T_q == point.problem.T_kv for point in found)
    return "T_kv" if swept == "T" and not is_square else swept


def swept_size(found: Sequence[Point], prefer: str | None = None) -> str:
    """The size that the points vary: the first word of their series' name when it does.

    When nothing varies, a single point of a sweep was measured, and the name still tells.
    """
    words = [re.split(r"[ ,]", point.series)[0] for point in found[:1]]
    named = [name for name in ([prefer] if prefer else []) + words if name in _NAMES]
    for name in [*named, "T", "H", "d_h", "H_kv", "T_q", "d_v", "B"]:
        if len({size_of(point.problem, name) for point in found}) > 1:
            return name
    return named[0] if named else "T"


def facets(found: Sequence[Point], prefer: str | None = None, max_rows: int = 6) -> list[Facet]:
    """The points as panels: rows by series of sizes, dtype, pass and cache; full | causal.

    More rows than `max_rows` would be a wall of panels: then only dtype and pass make rows and
    what else differs goes into the series' names.
    """
    rows = _rows(found, by_shape=True)
    if len(rows) > max_rows:
        rows = _rows(found, by_shape=False)
    panels: list[Facet] = []
    for name, members in rows.items():
        swept = swept_size(members, prefer)
        for is_causal in (False, True):
            column = "causal" if is_causal else "full"
            here = [point for point in members if point.problem.causal is is_causal]
            if here:
                dtype = here[0].problem.dtype
                panels.append(Facet(name, column, swept, dtype, _series(here, swept)))
    return panels


def _rows(found: Sequence[Point], by_shape: bool) -> dict[str, list[Point]]:
    """The points by row title, which names only what differs between the rows."""
    keys: dict[tuple[str, ...], list[Point]] = {}
    for point in found:
        words = [w for w in re.split(r"\s*,\s*", point.series) if w not in ("full", "causal")]
        label = ", ".join(words) if by_shape else ""
        clock = CLOCK_NAMES.get(point.clock, point.clock)
        dtype = DTYPE_NAMES.get(point.problem.dtype, point.problem.dtype)
        key = (dtype, label, point.pass_, point.cache, clock)
        keys.setdefault(key, []).append(point)
    differing = [i for i in range(5) if len({key[i] for key in keys}) > 1]
    return {" · ".join(key[i] for i in differing): members for key, members in keys.items()}


def _series(here: Sequence[Point], swept: str) -> tuple[Series, ...]:
    """One series for each implementation and each setting of the sizes that are not swept.

    A line joins what differs in the swept size alone, or in "B·T = 16384" and "H·d_h = 512" in a
    second size as well, their product being the same as long as it can. A decode step is no point
    of a line of T.
    """
    is_square = all(p.problem.T_q == p.problem.T_kv for p in here)
    lengths = ("T_q", "T_kv") if is_square else ("T",)
    all_lengths = ("T", "T_q", "T_kv")
    together = {"T": all_lengths, KEPT: ("H", "H_kv", *lengths), FILLED: all_lengths}
    together = together.get(swept, (swept, *lengths))
    others = [name for name in SWEPT if name not in together]
    fixed = [n for n in others if len({size_of(p.problem, n) for p in here}) > 1]
    fixed = [n for n in fixed if not _moves_along(here, n, swept)]
    for twin, name in (("H_kv", "H"), ("d_v", "d_h")):
        if twin in fixed and all(
            size_of(p.problem, twin) == size_of(p.problem, name) for p in here
        ):
            fixed.remove(twin)
    grouped: dict[tuple[str, str], list[Point]] = {}
    for p in here:
        parts = [f"{n} {size_of(p.problem, n)}" for n in fixed]
        if swept == "T" and p.problem.T_q != p.problem.T_kv:
            parts.insert(0, f"T_q {p.problem.T_q}")
        grouped.setdefault((p.implementation, " ".join(parts)), []).append(p)
    return tuple(
        Series(
            f"{name} {label}".strip(),
            name,
            label,
            tuple(sorted(members, key=lambda p: size_of(p.problem, swept))),
        )
        for (name, label), members in grouped.items()
    )


def _moves_along(here: Sequence[Point], name: str, swept: str) -> bool:
    """Whether the size moves against the swept one: B with T, or H (and H_kv) with d_h.

    Their product stays; where the size has come down to 1, it can only grow.
    """
    partner = {"B": "T", "T": "B", "H": "d_h", "d_h": "H", "H_kv": "d_h", "d_v": "H"}
    if partner.get(name) != swept:
        return False
    sizes = [(size_of(p.problem, name), size_of(p.problem, swept)) for p in here]
    products = {size * other for size, other in sizes if size > 1}
    return len(products) == 1 and all(other >= max(products) for size, other in sizes if size == 1)


def constants(found: Sequence[Point]) -> list[str]:
    """The sizes that all points share, as "B=1", in the paper's order; what varies is absent."""
    named: list[str] = []
    is_square = all(point.problem.T_q == point.problem.T_kv for point in found)
    lengths = ("T",) if is_square else ("T_q", "T_kv")
    for name in ("B", *lengths, "H", "H_kv", "d_h", "d_v"):
        values = {size_of(point.problem, name) for point in found}
        if len(values) == 1:
            (value,) = values
            twin = {"H_kv": "H", "d_v": "d_h"}.get(name)
            if twin and values == {size_of(point.problem, twin) for point in found}:
                continue
            named.append(f"{name}={value}")
    return named


def of_suite(found: Sequence[Point], suite: str) -> list[Point]:
    """The suite's points; when the run has none of it, all those of softmax attention alone."""
    alone = [point for point in found if point.problem.is_attention]
    return [point for point in found if point.suite == suite] or alone
