"""What a call holds at most against T, with fusion and without, beside the KV cache of its keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from impls.interface.cost import kv_cache_bytes
from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    log_axis,
    new_figure,
    panel,
    round_ticks,
    undrawn_note,
)
from reports.cost.line_ends import End, length_axis, margin_in, name_ends
from reports.facets import constants
from reports.legend import looks_of
from reports.owners import part_of
from reports.points import Point, points
from reports.style import GREY, Look, count_name, quantity, unit_for
from reports.sweep_figure import title_line
from results.phrases import DTYPE_NAMES
from results.run import Run

TITLE = "Peak memory of one call"
ABOUT = "memory"
SUITES = ("sequence_length", "backward")
WIDTH, HEIGHT, LEFT, HEAD, FOOT, BESIDE = 4.2, 3.4, 0.95, 0.4, 0.65, 2  # inches
CACHE = "KV cache"
_CACHE_LOOK = Look(GREY, GREY, "", (0, (6, 3)))
_NOTES = (
    "Peak: the most that one call holds beyond its inputs, its output included. Unfused, all "
    "scores are in memory, T² for each head: four times as many where T doubles.",
    f"{CACHE}: what K and V take, 2·B·H_kv·T·d_h elements for one layer.",
)


@dataclass(frozen=True)
class _Panel:
    """The full square problems of one series, dtype and pass."""

    title: str
    points: tuple[Point, ...]

    def line(self, implementation: str) -> list[Point]:
        """Its points, the shortest T first."""
        own = [p for p in self.points if p.implementation == implementation]
        return sorted(own, key=lambda p: p.problem.T_kv)

    @property
    def implementations(self) -> list[str]:
        """All that have a point."""
        return sorted({p.implementation for p in self.points})

    @property
    def cache(self) -> list[tuple[int, int]]:
        """(T, bytes of K and V) at each T."""
        problems = {p.problem.T_kv: p.problem for p in self.points}
        return [
            (T, kv_cache_bytes(L=1, T=T, H_kv=p.H_kv, d_h=p.d_h, dtype=p.dtype, B=p.B))
            for T, p in sorted(problems.items())
        ]


def draw(run: Run) -> Figure | None:
    """A panel for each dtype and pass with more than one T; None without known peaks."""
    peaks = {c.cell: c.memory.peak_bytes for c in run.cells if c.memory and c.memory.peak_bytes}
    drawn, undrawn = points(run.cells)
    panels = _panels([p for p in drawn if p.cell in peaks])
    if not panels:
        return None
    shown = [p for one in panels for p in one.points]
    title = title_line(TITLE, run, shown, [*constants(shown), "full"])
    ends = [_ends(one, peaks, run) for one in panels]
    cell_in = LEFT + WIDTH + margin_in(end.words for some in ends for end in some)
    columns = min(BESIDE, len(panels))
    width = columns * cell_in
    notes = [*_NOTES, _how(run, peaks), undrawn_note([u for u in undrawn if u.suite in SUITES])]
    top = heading_height(title, width)
    row_in = HEAD + HEIGHT + FOOT
    height = top - (-len(panels) // columns) * row_in + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    known = [end.y for some in ends for end in some] + [peaks[p.cell] for p in shown]
    known += [n_bytes for one in panels for _, n_bytes in one.cache]
    for i, one in enumerate(panels):
        row, column = divmod(i, columns)
        low = height - top - (row + 1) * row_in + FOOT
        axes = panel(figure, column * cell_in + LEFT, low, WIDTH, HEIGHT)
        axes.set_ylim(min(known) / 1.6, max(known) * 1.6)
        _draw_panel(axes, one, peaks, ends[i])
        axes.set_ylabel("peak bytes of a call")
    footnote(figure, notes)
    return figure


def _panels(found: Sequence[Point]) -> list[_Panel]:
    """Forward, and both passes together, where the size T varies; the narrowest sweep names."""
    kinds: dict[tuple[str, str, str, str], list[Point]] = {}
    for p in found:
        is_square = p.problem.T_q == p.problem.T_kv and not p.problem.causal
        if p.suite in SUITES and is_square and p.pass_ != "backward" and p.series.startswith("T"):
            dtype = DTYPE_NAMES.get(p.problem.dtype, p.problem.dtype)
            series = p.series.removesuffix(", full").removeprefix("T").removeprefix(" at ")
            kinds.setdefault((series, dtype, p.pass_, p.suite), []).append(p)
    return [
        _Panel(" · ".join(w for w in (pass_.replace("_", " + "), dtype, series) if w), tuple(own))
        for (series, dtype, pass_, _), own in sorted(kinds.items(), key=lambda one: one[0][2:])
        if len({p.problem.T_kv for p in own}) > 1
    ]


def _ends(one: _Panel, peaks: Mapping[str, int], run: Run) -> list[End]:
    """The name and last value of each line, in one unit; of one that ends early its T as well."""
    known, (longest, n_bytes) = looks_of(run), one.cache[-1]
    lasts = {name: one.line(name)[-1] for name in one.implementations}
    unit = unit_for([n_bytes, *(peaks[last.cell] for last in lasts.values())], "B")

    def words(name: str, n_bytes: int, T: int) -> str:
        at = f" at {count_name(T)}" if longest > T else ""
        return f"{name}  {unit.show(n_bytes)} {unit.name}{at}"

    ends = []
    for name, last in lasts.items():
        T, peak = last.problem.T_kv, peaks[last.cell]
        ends.append(End(T, peak, words(name, peak, T), known[name], name))
    return [*ends, End(longest, n_bytes, words(CACHE, n_bytes, longest), _CACHE_LOOK)]


def _draw_panel(axes: Axes, one: _Panel, peaks: Mapping[str, int], ends: Sequence[End]) -> None:
    axes.set_title(one.title, loc="left", fontsize=10.5)
    log_axis(axes, "y", round_ticks(*axes.get_ylim()), lambda y: quantity(y, "B", 1))
    lengths = [T for T, _ in one.cache]
    length_axis(axes, lengths, WIDTH)
    axes.set_xlabel("sequence length T")
    axes.plot(*zip(*one.cache, strict=True), color=GREY, linestyle=_CACHE_LOOK.dash, zorder=1)
    for name, end in zip(one.implementations, ends, strict=False):
        line = one.line(name)
        xs, ys = [p.problem.T_kv for p in line], [peaks[p.cell] for p in line]
        # A line over a gap would tell of lengths that nobody measured.
        known = dict(zip(xs, ys, strict=True))
        broken = [known.get(T, math.nan) for T in lengths]
        drawn = axes.plot(lengths, broken, color=end.look.colour, linewidth=1.5)
        drawn[0].set(linestyle=end.look.dash, zorder=2, gid=part_of(name))
        for x, y, p in zip(xs, ys, line, strict=True):
            mark = axes.plot([x], [y], marker=end.look.marker, color=end.look.colour, markersize=6)
            mark[0].set(zorder=4, clip_on=False, gid=p.mark)
    name_ends(axes, ends)


def _how(run: Run, peaks: Mapping[str, int]) -> str:
    found = {c.memory.how for c in run.cells if c.cell in peaks and c.memory and c.memory.how}
    return f"Peaks by {' and '.join(sorted(found))}." if found else ""
