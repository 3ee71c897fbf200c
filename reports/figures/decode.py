"""Time and GB/s against kv heads, and GB/s against T_kv under the read roofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    new_figure,
    panel,
    undrawn_note,
)
from reports.cost.line_ends import margin_in
from reports.facets import Facet, constants, facets
from reports.legend import choose
from reports.points import Point, points
from reports.rates import Line, draw_rates, rate_limits, read_roofs, words_of
from reports.style import Look, count_name
from reports.sweep import Pen, draw_time, longest_name, name_lines, time_limits
from reports.sweep_figure import method_notes, title_line
from results.phrases import DTYPE_NAMES
from results.run import Run

TITLE = "Decoding: what fewer kv heads save, and how fast the cache is read"
SUITE = "decode"
LEFT, HEAD, FOOT, WIDTH, HEIGHT = 0.85, 0.4, 0.65, 3.6, 3.0  # inches
SMALL_WIDTH, SMALL_HEIGHT, BESIDE = 2.6, 2.2, 3
# One for each H_kv, the most heads first, in the panels where the colour is the implementation's.
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class _Cache:
    """A panel over T_kv: one implementation, a line for each H_kv."""

    title: str
    lines: tuple[Line, ...]


def draw(run: Run) -> Figure | None:
    """Rows of time | GB/s over H_kv, by dtype; then GB/s over T_kv, by implementation."""
    drawn, undrawn = points(run.cells)
    steps = [p for p in drawn if p.suite == SUITE and p.problem.T_q == p.problem.B == 1]
    # Two series may have measured the same step.
    steps = list({(p.cell, p.problem.id): p for p in reversed(steps)}.values())[::-1]
    if not steps:
        return None
    heads = _over_heads(steps)
    pen = choose(run, heads)
    caches = _over_length(steps, pen)
    shown = [p for facet in heads for p in facet.points]
    shown += [p for cache in caches for line in cache.lines for p in line.points]
    notes = [
        *method_notes(run, heads),
        *_NOTES[: 2 if caches else 1],
        undrawn_note([u for u in undrawn if u.suite == SUITE]),
    ]
    cell_in = LEFT + WIDTH + 0.5 + 0.078 * longest_name(heads)
    small_in = (
        LEFT + SMALL_WIDTH + margin_in([words_of(x) for c in caches for x in c.lines] or [""])
    )
    # A panel's title goes on over what stands beside the panel, not into the next one.
    small_in = max([small_in, *(0.2 + 0.092 * len(cache.title) for cache in caches)])
    width = max(2 * cell_in, min(BESIDE, len(caches)) * small_in)
    title = title_line("Decoding", run, shown, constants(shown))
    top = heading_height(title, width)
    rows_of_caches = -(-len(caches) // BESIDE)
    height = top + len(heads) * (HEAD + HEIGHT + FOOT) + footnote_height(notes, width)
    height += rows_of_caches * (HEAD + SMALL_HEIGHT + FOOT)
    figure = new_figure(width, height)
    heading(figure, title)
    bottom = height - top
    for facet in heads:
        bottom -= HEAD + HEIGHT + FOOT
        left = panel(figure, LEFT, bottom + FOOT, WIDTH, HEIGHT)
        right = panel(figure, cell_in + LEFT, bottom + FOOT, WIDTH, HEIGHT)
        _draw_heads(run, (left, right), facet, pen)
    found = [p for cache in caches for line in cache.lines for p in line.points]
    for i, cache in enumerate(caches):
        row, column = divmod(i, BESIDE)
        low = bottom - (row + 1) * (HEAD + SMALL_HEIGHT + FOOT) + FOOT
        axes = panel(figure, column * small_in + LEFT, low, SMALL_WIDTH, SMALL_HEIGHT)
        roofs = read_roofs(run, found)
        draw_rates(axes, cache.lines, roofs, lambda p: p.T_kv, rate_limits(found, roofs))
        axes.set_title(cache.title, loc="left", fontsize=10.5)
        axes.tick_params(axis="x", labelsize=8.5)
        axes.set_xlabel("keys T_kv")
        axes.set_ylabel("GB/s of compulsory bytes")
    footnote(figure, notes)
    return figure


_NOTES = (
    "GB/s: compulsory bytes, each tensor once with its H_kv heads, a second. Grey: reading memory, "
    "as measured on this machine. A time that stays while H_kv falls is GB/s lost.",
    "Below, a line for each H_kv: where they lie on one another, fewer heads save all their bytes.",
)


def _over_heads(steps: Sequence[Point]) -> list[Facet]:
    """A panel for each dtype, at the T_kv that has the most kv head counts."""
    counts = Counter(T for T, _ in {(p.problem.T_kv, p.problem.H_kv) for p in steps})
    T_kv = max(counts, key=lambda T: (counts[T], T))
    found = facets([p for p in steps if p.problem.T_kv == T_kv], prefer="H_kv")
    return [
        replace(f, column=f"{_dtype_name(f.dtype)} · T_kv = {count_name(T_kv)}", row="")
        for f in found
    ]


def _draw_heads(run: Run, both: tuple[Axes, Axes], facet: Facet, pen: Pen) -> None:
    left, right = both
    draw_time(left, facet, pen, time_limits([facet]))
    name_lines(left, facet, pen, "time")
    for axes in both:
        axes.set_title(facet.title, loc="left", fontsize=10.5)
    left.set_ylabel("time (median)")
    sizes = tuple(sorted({p.problem.H_kv for p in facet.points}))
    lines = [
        Line(series.name, look, series.points, sizes)
        for series in facet.series
        if (look := pen.look(series)) is not None
    ]
    roofs = read_roofs(run, facet.points)
    draw_rates(right, lines, roofs, lambda p: p.H_kv, rate_limits(facet.points, roofs))
    right.set_ylabel("GB/s of compulsory bytes")
    for axes in both:
        axes.set_xlabel("key/value heads H_kv")


def _over_length(steps: Sequence[Point], pen: Pen) -> list[_Cache]:
    """A panel for each implementation with more than one T_kv, of the narrowest dtype there is."""
    kinds: dict[tuple[str, str], dict[int, list[Point]]] = {}
    for p in steps:
        by_H_kv = kinds.setdefault((p.problem.dtype, p.implementation), {})
        by_H_kv.setdefault(p.problem.H_kv, []).append(p)
    kinds = {
        kind: lines
        for kind, by_H_kv in kinds.items()
        if (lines := {n: line for n, line in by_H_kv.items() if len(line) > 1})
    }
    dtypes = sorted({dtype for dtype, _ in kinds}, key=lambda dtype: dtype == "float32")
    every = sorted({H_kv for lines in kinds.values() for H_kv in lines}, reverse=True)
    lengths = {
        n: tuple(sorted({p.problem.T_kv for lines in kinds.values() for p in lines.get(n, ())}))
        for n in every
    }
    caches = []
    for (dtype, name), lines in kinds.items():
        if dtype == dtypes[0] and name in pen.looks:
            drawn = [
                Line(
                    f"H_kv {H_kv}",
                    _look(pen.looks[name], every.index(H_kv)),
                    tuple(sorted(lines[H_kv], key=lambda p: p.problem.T_kv)),
                    lengths[H_kv],
                )
                for H_kv in every
                if H_kv in lines
            ]
            caches.append(_Cache(f"{name} · {_dtype_name(dtype)}", tuple(drawn)))
    return caches


def _look(look: Look, rank: int) -> Look:
    return replace(look, dash=_DASHES[rank % len(_DASHES)], marker=_MARKERS[rank % len(_MARKERS)])


def _dtype_name(dtype: str) -> str:
    return DTYPE_NAMES.get(dtype, dtype)
