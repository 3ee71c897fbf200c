"""Panels of a sweep: time against a size, and under it the part of the bound that was reached."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from impls.interface.problem import shorten
from reports.axes import draw_whiskers, log_axis, round_ticks, spaced_out
from reports.facets import FILLED, KEPT, Facet, Series, size_name, size_of, swept_name
from reports.labels import spread
from reports.owners import part_of
from reports.points import Point
from reports.style import GREY, PALE, REST, SHADE, Look, Unit, quantity, unit_for

SHARE_TOP = 1.3  # of the bound; what lies above is drawn at the edge and named in the footnote
X_NAMES = {"T": "sequence length T", "T_q": "queries T_q", "T_kv": "keys T_kv", "H": "heads H"}
X_NAMES |= {"H_kv": "key/value heads H_kv", "d_h": "head size d_h", "B": "batch B"}
X_NAMES |= {KEPT: "share of the heads kept", FILLED: "share of the padded batch that is filled"}


@dataclass(frozen=True)
class Pen:
    """Which series are in colour and named, the fastest first; the rest are thin and grey."""

    looks: Mapping[str, Look]
    named: tuple[str, ...]

    def look(self, series: Series) -> Look | None:
        """The series' look, None when it is one of the rest."""
        return self.looks.get(series.name) if series.name in self.named else None


def draw_time(axes: Axes, facet: Facet, pen: Pen, limits: tuple[float, float]) -> None:
    """Median time against the swept size, log-log, above the shaded reach of the bound."""
    _x_axis(axes, facet)
    axes.set_ylim(*limits)
    log_axis(axes, "y", round_ticks(*limits, at_most=9), lambda value: quantity(value, "s", 1))
    left, right = axes.get_xlim()
    for bound in bound_lines(facet):
        xs, ys = [x for x, _ in bound], [y for _, y in bound]
        if len(bound) == 1:
            (x,) = xs
            # One size alone: as far as the panel where it has no other, else a short stroke.
            reach = 1.0 if facet.n_sizes == 1 else 0.06
            xs, ys = [x * (left / x) ** reach, x * (right / x) ** reach], ys * 2
        axes.fill_between(xs, limits[0], ys, color=SHADE, linewidth=0, zorder=0)
        axes.plot(xs, ys, color=PALE, linewidth=1.6, zorder=1, gid=f"bound-{facet.title}")
    for series in facet.series:
        xs = [_x(p, facet) for p in series.points]
        _line(axes, facet, series, pen, [p.time_s for p in series.points], limits)
        if look := pen.look(series):
            lows, highs = [p.low_s for p in series.points], [p.high_s for p in series.points]
            draw_whiskers(axes, xs, lows, highs, look.colour, series.implementation)


def draw_share(axes: Axes, facet: Facet, pen: Pen, top: float) -> None:
    """The part of the roofline bound that was reached, in %, against the swept size."""
    _x_axis(axes, facet)
    axes.set_xlabel(_x_name(facet))
    axes.set_ylim(0, 100 * top)
    axes.set_yticks(range(0, round(100 * top) + 1, 20))
    axes.axhline(100, color=PALE, linewidth=1.6, zorder=1)
    if all(point.share is None for point in facet.points):
        words = "no bound: no ceiling was measured for it"
        said = axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center")
        said.set(color=GREY, fontsize=8.5)
    for series in facet.series:
        known = [(p, p.share) for p in series.points if p.share is not None]
        ys = [100 * min(share, top) for _, share in known]
        part = replace(series, points=tuple(p for p, _ in known))
        _line(axes, facet, part, pen, ys, (0, 100 * top))


def name_lines(
    axes: Axes, facet: Facet, pen: Pen, value: str, beside: Sequence[Facet] = ()
) -> None:
    """Each line's name and last value in the right margin, spread so that none touch.

    `value` is "time" or "share". A thin line leads from the last point to its name. Times have one
    unit with those of the panels `beside`: 500 ms under 1.5 s is misread.
    """
    unit = _unit([facet, *beside])
    box = axes.get_window_extent()
    figure = axes.get_figure(root=True)
    assert figure is not None
    # Places are kept in inches: pixels would move when a figure is saved at another dpi.
    dpi, inches = figure.dpi, figure.dpi_scale_trans
    line_px = 0.135 * dpi
    ends: list[tuple[float, float, Series, Look, str]] = []
    for series in facet.series:
        look, end = pen.look(series), _end(facet, series, value, unit)
        if look is not None and end is not None:
            point, y, shown = end
            x_px, y_px = axes.transData.transform((_x(point, facet), min(y, axes.get_ylim()[1])))
            ends.append((float(x_px), float(y_px), series, look, shown))
    places = spread([end[1] for end in ends], line_px, box.y0 + 4, box.y1 - 4)
    for (x_px, y_px, series, look, shown), place in zip(ends, places, strict=True):
        left = box.x1 + 12
        xs = [x / dpi for x in (x_px + 4, left - 10, left - 2)]
        ys = [y / dpi for y in (y_px, y_px, place)]
        lead = axes.plot(xs, ys, color=look.colour, transform=inches, clip_on=False, zorder=1)
        lead[0].set(linewidth=0.6, alpha=0.55, gid=part_of(series.implementation))
        text = axes.text(left / dpi, place / dpi, f"{series.name}  {shown}", transform=inches)
        text.set(color=look.ink, fontsize=8.5)
        text.set(va="center_baseline", fontweight="bold", clip_on=False)
        text.set_gid(part_of(series.implementation, "label"))


def longest_name(panels: Sequence[Facet]) -> int:
    """Characters of the longest label that `name_lines` would write."""
    labels = [
        f"{series.name}  {end[2]}"
        for facet in panels
        for series in facet.series
        for value in ("time", "share")
        if (end := _end(facet, series, value, _unit(row_mates(facet, panels))))
    ]
    return max(map(len, labels), default=0)


def row_mates(facet: Facet, panels: Sequence[Facet]) -> list[Facet]:
    """The panels that are to be compared with this one, itself with them: full and causal."""
    return [one for one in panels if (one.row, one.dtype) == (facet.row, facet.dtype)]


def _unit(panels: Sequence[Facet]) -> Unit:
    return unit_for([s.points[-1].time_s for facet in panels for s in facet.series], "s")


def _end(facet: Facet, series: Series, value: str, unit: Unit) -> tuple[Point, float, str] | None:
    """A line's last point, its height there, and the value as it is written."""
    known = [p for p in series.points if value == "time" or p.share is not None]
    if not known:
        return None
    point = known[-1]
    share = 100 * (point.share or 0.0)
    shown = f"{unit.show(point.time_s)} {unit.name}" if value == "time" else f"{share:.0f} %"
    # A line that ends early gives the size its last value belongs to.
    if (size := _x(point, facet)) < max(_x(p, facet) for p in facet.points):
        shown += f" at {size_name(size, facet.swept)}"
    return point, point.time_s if value == "time" else share, shown


def time_limits(panels: Sequence[Facet]) -> tuple[float, float]:
    """Limits of time that hold all points and bounds of the panels, with some air."""
    times = [t for f in panels for p in f.points for t in (p.time_s, p.bound_s) if t and t > 0]
    return (min(times) / 1.6, max(times) * 1.6) if times else (1e-6, 1.0)


def share_top(panels: Sequence[Facet]) -> float:
    """Where the strip of % of bound ends: just above 100 %, more only where points need it."""
    shares = [p.share for f in panels for p in f.points if p.share is not None]
    return SHARE_TOP if any(share > 1.05 for share in shares) else 1.05


def above_note(panels: Sequence[Facet]) -> str:
    """Names the points that stand at the strip's upper edge because they lie above it."""
    above = [p for f in panels for p in f.points if p.share is not None and p.share > SHARE_TOP]
    named = [
        f"{p.implementation} {shorten(p.problem.id)} at {100 * (p.share or 0):.0f} %"
        for p in above[:3]
    ]
    if len(above) > 3:
        named.append(f"and {len(above) - 3} more")
    return f"Above the strip, drawn at its edge: {'; '.join(named)}." if above else ""


def _x_name(facet: Facet) -> str:
    """Words for the x axis; where decode steps stand among squares, T is not all there is."""
    names = {swept_name(series.points, facet.swept) for series in facet.series}
    if len(names) > 1:
        return "sequence length T; T_kv where a name has T_q"
    (name,) = names
    return X_NAMES.get(name, name)


def _x(point: Point, facet: Facet) -> float:
    return float(size_of(point.problem, facet.swept))


def bound_lines(facet: Facet) -> list[list[tuple[float, float]]]:
    """The least time at each size, a line for each setting: unrelated problems are not joined."""
    lowest: dict[str, dict[float, float]] = {}
    for series in facet.series:
        line = lowest.setdefault(series.setting, {})
        for point in series.points:
            if point.bound_s:
                x = _x(point, facet)
                line[x] = min(point.bound_s, line.get(x, point.bound_s))
    return [sorted(line.items()) for line in lowest.values() if line]


def _x_axis(axes: Axes, facet: Facet) -> None:
    values = sorted({_x(p, facet) for p in facet.points})
    width_in = axes.get_window_extent().width / axes.figure.dpi
    stretch = (values[-1] / values[0]) ** 0.05 if values[0] > 0 and values[-1] > values[0] else 1.5
    axes.set_xlim(values[0] / stretch, values[-1] * stretch)
    ticks = spaced_out(values, width_in / 1.1)
    log_axis(axes, "x", ticks, lambda value: size_name(value, facet.swept))


def _line(
    axes: Axes,
    facet: Facet,
    series: Series,
    pen: Pen,
    ys: Sequence[float],
    limits: tuple[float, float],
) -> None:
    look, part = pen.look(series), part_of(series.implementation)
    xs = [_x(p, facet) for p in series.points]
    broken = _broken_at_gaps(facet, series, xs, ys)
    if look is None:
        axes.plot(*broken, color=REST, linewidth=0.7, zorder=1, gid=part)
        return
    axes.plot(*broken, color=look.colour, linewidth=1.5, linestyle=look.dash, zorder=2, gid=part)
    for x, y, point in zip(xs, ys, series.points, strict=True):
        axes.plot(
            [x],
            [y],
            marker="^" if y >= limits[1] else look.marker,
            markersize=6,
            markerfacecolor="white" if point.flags else look.colour,
            markeredgecolor=look.colour,
            markeredgewidth=1.2 if point.flags else 0.6,
            linestyle="none",
            clip_on=False,
            zorder=4,
            gid=point.mark,
        )


def _broken_at_gaps(
    facet: Facet, series: Series, xs: Sequence[float], ys: Sequence[float]
) -> tuple[list[float], list[float]]:
    """The line's corners, with none where others of its setting have a point and it has not."""
    known = dict(zip(xs, ys, strict=True))
    every = [float(size) for size in facet.sizes_of(series.setting)]
    return every, [known.get(x, math.nan) for x in every]
