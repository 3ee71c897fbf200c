"""A layer's time by part against T, each part's share stacked, and the core's share of FLOP."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    new_figure,
    panel,
)
from reports.style import GREY, REST, Unit, count_name, unit_for
from reports.sweep_figure import device_line
from results.layer_parts import Breakdown, breakdowns
from results.phrases import DTYPE_NAMES
from results.run import Run

TITLE = "Where a layer's time goes"
SUITE = "layer"
WIDTH, HEIGHT, GAP, HEAD, FOOT, LEFT, NAMES = 3.0, 2.7, 0.35, 0.65, 0.75, 0.95, 1.3  # inches
COLUMNS = 4
_BAR = 0.74
# From the bottom of each bar: the core first, so that its height is its share.
_STACK = (
    ("core", "core", "#0072B2", "white"),
    ("projections", "projections", "#E69F00", "black"),
    ("output", "output projection", "#F3CE85", "black"),
    ("feed_forward", "feed-forward", "#8FCBB6", "black"),
    ("rest", "rest", REST, "black"),
)
_LEAST_NAMED = 0.07


def draw(run: Run) -> Figure | None:
    """A panel for each shape, implementation and pass; None where no layer was measured whole."""
    lines = _lines(run)
    if not lines:
        return None
    columns = min(COLUMNS, len(lines))
    rows = math.ceil(len(lines) / columns)
    width = LEFT + columns * (WIDTH + GAP) + NAMES
    title = f"{TITLE} · {device_line(run)}"
    notes = _notes(lines)
    head, row_in = heading_height(title, width), HEAD + HEIGHT + FOOT
    height = head + rows * row_in + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    for i, line in enumerate(lines):
        left = LEFT + i % columns * (WIDTH + GAP)
        bottom = height - head - (i // columns + 1) * row_in + FOOT
        axes = panel(figure, left, bottom, WIDTH, HEIGHT)
        _draw(axes, line, i)
        axes.set_title(_title(line), loc="left", fontsize=9.5, pad=13)
        if i % columns == 0:
            axes.set_ylabel(f"share of the {line[0].whole}'s time")
        else:
            axes.tick_params(labelleft=False)
        if i % columns == columns - 1 or i == len(lines) - 1:
            _name_parts(axes, line[-1])
    footnote(figure, notes)
    return figure


def _lines(run: Run) -> list[list[Breakdown]]:
    """The layers of each shape, implementation and pass by T."""
    found: dict[tuple, dict[int, Breakdown]] = {}
    for one in breakdowns(run.cells):
        p, cell = one.problem, one.cells["layer"][0]
        key = (p.around, p.dtype, p.causal, cell.cache, cell.clock, one.pass_, one.implementation)
        found.setdefault(key, {})[p.T_kv] = one
    return [[by_T[T] for T in sorted(by_T)] for by_T in found.values()]


def _title(line: Sequence[Breakdown]) -> str:
    one = line[0]
    return f"{_shape(one)}, {DTYPE_NAMES[one.problem.dtype]}\n{one.implementation}, {_pass(one)}"


def _shape(one: Breakdown) -> str:
    p, around = one.problem, one.problem.around
    assert around is not None
    heads = f"H {p.H}" + (f", H_kv {p.H_kv}" if p.H_kv != p.H else "")
    return f"d_model {around.shape.d_model}, {heads}, {'causal' if p.causal else 'full'}"


def _pass(one: Breakdown) -> str:
    return one.pass_.replace("_", " + ")


def _heights(one: Breakdown) -> dict[str, float]:
    """Each part's share; where the parts apart take longer than the whole, of their sum."""
    times = {part: one.time_s(part) for part in one.parts} | {"rest": max(0.0, one.rest_s)}
    total = sum(times.values())
    return {part: time_s / total for part, time_s in times.items()}


def _draw(axes: Axes, line: Sequence[Breakdown], i: int) -> None:
    axes.set_xlim(-0.6, len(line) - 0.4)
    axes.set_ylim(0.0, 1.0)
    axes.grid(False)
    for x, one in enumerate(line):
        share = one.flop("core") / one.flop(one.whole)
        heights, bottom = _heights(one), 0.0
        for part, _, colour, ink in _STACK:
            height = heights.get(part, 0.0)
            axes.bar(x, height, _BAR, bottom, color=colour, gid=f"part-{part}-{i}-{x}", lw=0)
            if height >= _LEAST_NAMED:
                y = _clear_of(share, bottom, bottom + height)
                text = axes.text(x, y, f"{100 * height:.0f}", ha="center")
                text.set(va="center", fontsize=8.5, color=ink)
            bottom += height
        ends = [x - _BAR / 2 - 0.06, x + _BAR / 2 + 0.06]
        axes.plot(ends, [share, share], color="black", lw=1.8, gid=f"flop-{i}-{x}", zorder=4)
    unit = unit_for([one.time_s(one.whole) for one in line], "s")
    axes.set_xticks(range(len(line)), [_tick(one, unit) for one in line], fontsize=8.5)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel(f"T, and the {line[0].whole}'s time", fontsize=9, color=GREY)
    _draw_crossing(axes, line, i)


def _clear_of(line: float, low: float, high: float) -> float:
    """The middle of a part, or of the larger piece where the line would go through a number."""
    middle = (low + high) / 2
    if abs(middle - line) >= _LEAST_NAMED / 2:
        return middle
    return (low + line) / 2 if line > middle else (line + high) / 2


def _draw_crossing(axes: Axes, line: Sequence[Breakdown], i: int) -> None:
    """A mark above the T at which the core's FLOP equal the projections', where it is shown."""
    if (at := _crossing_at(line)) is not None:
        mark = axes.plot([at], [1.03], "v", color="black", ms=5, gid=f"crossing-{i}")
        mark[0].set_clip_on(False)


def _crossing_at(line: Sequence[Breakdown]) -> float | None:
    """Where among the bars that T stands; None where it is beyond them."""
    T, lengths = line[-1].crossing_T, [one.problem.T_kv for one in line]
    for x, (low, high) in enumerate(itertools.pairwise(lengths)):
        if low <= T < high:
            return x + math.log(T / low) / math.log(high / low)
    return None


def _tick(one: Breakdown, unit: Unit) -> str:
    return f"{count_name(one.problem.T_kv)}\n{unit.show(one.time_s(one.whole))} {unit.name}"


def _name_parts(axes: Axes, last: Breakdown) -> None:
    """The parts' names beside the last bar, apart enough to be read."""
    heights, bottom, lowest = _heights(last), 0.0, 0.0
    x = axes.get_xlim()[1] + 0.05
    for part, name, _, _ in _STACK:
        height = heights.get(part, 0.0)
        if part in heights and (height > 0.0 or part != "rest"):
            y = max(bottom + height / 2, lowest)
            axes.text(x, y, name, fontsize=9, va="center", clip_on=False, gid="label")
            lowest = y + 0.065
        bottom += height


def _notes(lines: Sequence[Sequence[Breakdown]]) -> list[str]:
    """What the marks mean, where FLOP cross, dropout, and what is in doubt."""
    whole = lines[0][0].whole
    crossings: dict[str, float] = {}
    for line in lines:
        if not math.isnan(line[-1].crossing_T):
            crossings[f"{_shape(line[-1])}, {_pass(line[-1])}"] = line[-1].crossing_T
    told = "; ".join(f"T = {T:.0f} ({words})" for words, T in crossings.items())
    start = "Triangle: the" if any(_crossing_at(line) is not None for line in lines) else "The"
    doubted = {
        c.key
        for line in lines
        for one in line
        for some in one.cells.values()
        for c in some
        if c.flags
    }
    return [
        f"Black line: the core's share of the {whole}'s FLOP. Grey, the rest: what the {whole} "
        "takes beyond its parts measured apart (norms, residual sums, copies); none is drawn where "
        "it takes less, and the parts are shares of their sum.",
        f"{start} core's FLOP equal those of the projections at {told}." if told else "",
        _dropout_note(lines),
        f"{len(doubted)} of the cells are flagged (see the table)." if doubted else "",
    ]


def _dropout_note(lines: Sequence[Sequence[Breakdown]]) -> str:
    added = [
        one.time_s("dropout") / one.time_s("block") - 1.0
        for line in lines
        for one in line
        if "dropout" in one.cells
        and one.has_block
        # A small difference of two times: neither may be in doubt.
        and all(c.is_comparable for name in ("dropout", "block") for c in one.cells[name])
    ]
    if not added:
        return ""
    # A share that rounds to nothing has no sign.
    shares = sorted({round(100 * share) for share in (min(added), max(added))})
    return f"Dropout, off in the bars, adds {' to '.join(map(str, shares))} % of the block's time."
