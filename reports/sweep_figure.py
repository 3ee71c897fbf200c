"""Figures of sweeps: panels of time over strips of % of bound, several to a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from reports.facets import Facet
from reports.legend import LEGEND_IN, choose, draw_legend
from reports.points import Point, Undrawn
from reports.style import CLOCK_NAMES, GREY
from reports.sweep import (
    above_note,
    bound_lines,
    draw_share,
    draw_time,
    longest_name,
    name_lines,
    row_mates,
    share_top,
    time_limits,
)
from results.phrases import DTYPE_NAMES
from results.run import Run

WIDTH, TIME, SHARE, GAP = 3.9, 3.0, 1.7, 0.22  # inches
LEFT, HEAD, FOOT = 0.95, 0.4, 0.7
MANY = 12  # series that the margin has room to name; with more, a legend stands outside


@dataclass(frozen=True)
class Beside:
    """What is drawn right of a panel instead of another sweep: `draw(facet, upper, lower)`."""

    title: str
    draw: Callable[[Facet, Axes, Axes], None]


def title_line(what: str, run: Run, found: Sequence[Point], sizes: Sequence[str]) -> str:
    """One line that says what is drawn, of which pass, device, dtype and sizes."""
    parts = [what]
    passes = {point.pass_ for point in found}
    if len(passes) == 1:
        parts.append(passes.pop().replace("_", " + "))
    parts.append(device_line(run))
    dtypes = {point.problem.dtype for point in found}
    if len(dtypes) == 1:
        parts.append(DTYPE_NAMES[dtypes.pop()])
    return " · ".join([*parts, " ".join(sizes)] if sizes else parts)


def device_line(run: Run) -> str:
    """The device's name and its threads, as far as the run knows them."""
    ceilings = run.header.ceilings
    name = (ceilings.device_name if ceilings else None) or run.header.device
    threads = run.header.settings.threads or (ceilings.threads if ceilings else None)
    if run.header.device != "cpu" or not threads:
        return name
    return f"{name} ({threads} thread{'' if threads == 1 else 's'})"


def sweep_figure(
    run: Run,
    panels: Sequence[Facet],
    undrawn: Sequence[Undrawn],
    title: str,
    *,
    beside: Beside | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Two panels to a row (full | causal side by side where both are), names at the line ends.

    `beside` stands right of the first panel, which then has the row for itself; `notes` are
    further lines of the footnote.
    """
    pen = choose(run, panels)
    many = len({s.name for f in panels for s in f.series}) > MANY
    names_in = 0.3 if many else 0.5 + 0.078 * longest_name(panels)
    rows = [*([[panels[0]]] if beside else []), *rows_of(panels[1:] if beside else panels)]
    columns = 2 if beside else max(len(row) for row in rows)
    cell_in = LEFT + WIDTH + names_in
    width = columns * cell_in + (LEGEND_IN if many else 0)
    notes = [*method_notes(run, panels), above_note(panels), undrawn_note(undrawn), *notes]
    row_in = HEAD + TIME + GAP + SHARE + FOOT
    head = heading_height(title, width)
    height = head + len(rows) * row_in + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    top = share_top(panels)
    named: list[tuple[Axes, Axes, Facet]] = []

    def stacked(i: int, j: int, title: str) -> tuple[Axes, Axes]:
        left, bottom = j * cell_in + LEFT, height - head - (i + 1) * row_in + FOOT
        upper = panel(figure, left, bottom + SHARE + GAP, WIDTH, TIME)
        lower = panel(figure, left, bottom, WIDTH, SHARE)
        upper.set_title(title, loc="left", fontsize=10.5)
        return upper, lower

    for i, row in enumerate(rows):
        for j, facet in enumerate(row):
            upper, lower = stacked(i, j, facet.title)
            # Full and causal are to be compared; another sweep beside has an axis of its own.
            draw_time(upper, facet, pen, time_limits([f for f in row if f.row == facet.row]))
            draw_share(lower, facet, pen, top)
            upper.tick_params(labelbottom=False)
            upper.set_ylabel("time (median)")
            lower.set_ylabel("% of roofline bound")
            named.append((upper, lower, facet))
    if beside:
        beside.draw(panels[0], *stacked(0, 1, beside.title))
    for upper, lower, facet in named:
        if not many:
            name_lines(upper, facet, pen, "time", row_mates(facet, panels))
            name_lines(lower, facet, pen, "share")
        _name_bound(upper, facet)
    if many:
        draw_legend(figure, panels, pen, left_in=width - LEGEND_IN)
    footnote(figure, notes)
    return figure


def method_notes(run: Run, panels: Sequence[Facet]) -> list[str]:
    """How the points were made: clock, samples, whiskers, and what a hollow mark means."""
    found = [point for facet in panels for point in facet.points]
    clocks = " and ".join(sorted({CLOCK_NAMES.get(p.clock, p.clock) for p in found}))
    launches = max(p.launches for p in found)
    low, high = min(p.n for p in found), max(p.n for p in found)
    samples = f"n = {low}" if low == high else f"n = {low} to {high}"
    if launches > 1:
        marks = f"Points: median of {launches} launches, bars: fastest and slowest launch"
    else:
        marks = f"Points: median of {samples} samples in one launch, bars: quartiles"
    flags = Counter(flag for point in found for flag in point.flags)
    counted = ", ".join(f"{flag} {count}" for flag, count in sorted(flags.items()))
    hollow = f"Hollow: flagged, left out of every ratio ({counted})." if counted else ""
    caches = "/".join(sorted({point.cache for point in found}))
    shade = (
        "Shaded: faster than the bound, max(FLOP / measured FLOP/s, compulsory bytes / measured "
    )
    return [
        f"{marks}; clock: {clocks}; cache {caches}. {hollow}".strip(),
        f"{shade}bytes/s)." if any(point.bound_s for point in found) else "",
    ]


def rows_of(panels: Sequence[Facet]) -> list[list[Facet]]:
    """Panels by rows of at most two; a full | causal pair always has a row of its own."""
    pairs: dict[tuple[str, str], list[Facet]] = {}
    for facet in panels:
        pairs.setdefault((facet.row, facet.dtype), []).append(facet)
    rows: list[list[Facet]] = []
    for pair in pairs.values():
        if len(pair) == 1 and rows and len(rows[-1]) == 1:
            rows[-1] += pair
        else:
            rows.append(list(pair))
    return rows


def _name_bound(axes: Axes, facet: Facet) -> None:
    """Write "roofline bound" into the shade under its line, where there is room for it."""
    known = max(bound_lines(facet), key=len, default=[])
    box = axes.get_window_extent()
    for x, y in reversed(known):
        x_px, y_px = axes.transData.transform((x, y))
        if x_px < box.x0 + 0.68 * box.width and y_px > box.y0 + 30:
            text = axes.annotate("roofline bound", (x, y), (6, -14), textcoords="offset points")
            text.set(fontsize=8.5, color=GREY, va="top", gid="label")
            return
