"""The ceilings of one roofline panel: which lines there are, drawing them and naming them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.text import Text

from reports.facets import Facet
from reports.labels import Board
from reports.style import EXP, GREY, LEVEL_NAMES, PALE, SHADE, plain, quantity
from results.phrases import DTYPE_NAMES
from results.run import Ceilings, Datasheet, Run

_FAR = 1e7  # FLOP/byte: beyond any panel's right edge
_NEAR = 1e-4
_NAME_PX = 18  # a name between two levels needs this much
# An exponential line this far above the highest ceiling would only squeeze the rest.
_EXP_REACH = 2.5
_SHEET_FIELDS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


Corners = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Roof:
    """One line: a level of compute from `start` rightwards, or a slope of bandwidth up to it."""

    kind: str  # "bound", "provider", "slope", "exp" or "datasheet"
    label: str
    corners: Corners


@dataclass(frozen=True)
class Roofs:
    """All lines of a panel; `tops` are heights that must fit, `ridges` intensities by level."""

    lines: tuple[Roof, ...] = ()
    ridges: Mapping[str, float] = field(default_factory=dict)
    peak: float | None = None
    fastest: float | None = None
    tops: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()


def roofs_of(run: Run, facet: Facet) -> Roofs:
    """The lines for the panel's dtype; nothing that was not measured is drawn or guessed."""
    ceilings = run.header.ceilings
    if ceilings is None:
        return Roofs(notes=("No ceilings were measured in this run.",))
    gemm = ceilings.gemm.get(facet.dtype)
    slopes = {name: level.bound_bytes_per_s for name, level in ceilings.bandwidth.items()}
    # A rate of nothing is no roof: nobody reached it, and a logarithm has no place for it.
    slopes = {name: rate for name, rate in slopes.items() if rate > 0}
    if gemm is None or gemm.bound_flop_per_s <= 0:
        name = DTYPE_NAMES.get(facet.dtype, facet.dtype)
        return Roofs(notes=(f"No {name} compute ceiling was measured in this run.",))
    peak = gemm.bound_flop_per_s
    lines = [Roof("bound", _measured(gemm.provider, peak), _level(peak, slopes))]
    for provider, rate in gemm.providers.items():
        value = rate.spaced_flop_per_s or rate.flop_per_s
        if provider != gemm.provider and value > 0:
            lines.append(
                Roof("provider", f"{provider} {quantity(value, 'FLOP/s')}", _level(value, slopes))
            )
    for name, rate in slopes.items():
        label = f"{LEVEL_NAMES.get(name, name)} {quantity(rate, 'B/s')}"
        lines.append(Roof("slope", label, ((_NEAR, peak / rate), (_NEAR * rate, peak))))
    exp_lines, notes = _exp_lines(ceilings, facet, peak, slopes)
    lines += exp_lines
    lines += _datasheet(ceilings.datasheet, facet.dtype)
    return Roofs(
        lines=tuple(lines),
        ridges={name: peak / rate for name, rate in slopes.items()},
        peak=peak,
        fastest=max(slopes.values(), default=None),
        tops=tuple(roof.corners[1][-1] for roof in lines),
        notes=tuple(notes),
    )


def _measured(provider: str, flop_per_s: float) -> str:
    return f"{provider} {quantity(flop_per_s, 'FLOP/s')} (measured)"


def _level(
    flop_per_s: float, slopes: Mapping[str, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    start = flop_per_s / max(slopes.values()) if slopes else _NEAR
    return (start, _FAR), (flop_per_s, flop_per_s)


def _exp_lines(
    ceilings: Ceilings, facet: Facet, peak: float, slopes: Mapping[str, float]
) -> tuple[list[Roof], list[str]]:
    """4·d_h·R useful FLOP/s for each head size; one far above the roof becomes a note."""
    rate = ceilings.exp.get(facet.dtype)
    if rate is None or rate.exp_per_s <= 0:
        return [], []
    lines: list[Roof] = []
    far: list[str] = []
    for d_h in sorted({point.problem.d_h for point in facet.points}):
        value = 4 * d_h * rate.exp_per_s
        label = f"exp, d_h={d_h}: {quantity(value, 'FLOP/s')}"
        if value > _EXP_REACH * peak:
            far.append(label)
        else:
            lines.append(Roof("exp", label, _level(value, slopes)))
    told = "what exponentials alone would allow, 4·d_h·R, R being the measured exponentials per"
    note = f"Not in the plot, far above it: {told} second ({'; '.join(far)})."
    return lines, [note] if far else []


def _datasheet(sheet: Datasheet | None, dtype: str) -> list[Roof]:
    """The published peak and bandwidth of the device, dashed and never mixed into a bound."""
    if sheet is None or dtype not in _SHEET_FIELDS:
        return []
    peak: float | None = getattr(sheet, f"{_SHEET_FIELDS[dtype]}_flop_per_s")
    if not peak:
        return []
    label = f"datasheet {quantity(peak, 'FLOP/s')}"
    if not sheet.bytes_per_s:
        return [Roof("datasheet", label, ((_NEAR, _FAR), (peak, peak)))]
    ridge = peak / sheet.bytes_per_s
    label += f", {quantity(sheet.bytes_per_s, 'B/s')}"
    return [
        Roof("datasheet", label, ((_NEAR, ridge, _FAR), (_NEAR * sheet.bytes_per_s, peak, peak)))
    ]


_LINES = {
    "bound": {"color": GREY, "linewidth": 2.4, "linestyle": "-"},
    "provider": {"color": PALE, "linewidth": 1.0, "linestyle": "-"},
    "slope": {"color": GREY, "linewidth": 1.8, "linestyle": "-"},
    "exp": {"color": EXP, "linewidth": 1.2, "linestyle": ":"},
    "datasheet": {"color": GREY, "linewidth": 1.3, "linestyle": (0, (6, 3))},
}


def draw_roofs(axes: Axes, roofs: Roofs) -> None:
    """The lines, the shade over what cannot be reached, and a mark at each ridge."""
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    for roof in roofs.lines:
        axes.plot(*roof.corners, zorder=2, gid=f"roof-{roof.kind}", **_LINES[roof.kind])
    if roofs.peak is None:
        return
    ridge = roofs.peak / roofs.fastest if roofs.fastest else left
    start = max(low, min(roofs.peak, left * (roofs.fastest or math.inf)))
    xs, ys = [left, max(left, ridge), right], [start, roofs.peak, roofs.peak]
    axes.fill_between(xs, ys, high, color=SHADE, linewidth=0, zorder=0)
    for name, x in roofs.ridges.items():
        mark = axes.plot([x], [roofs.peak], marker="v", color=GREY, markersize=6, zorder=3)
        mark[0].set_gid(f"ridge-{name}")


def name_roofs(board: Board, roofs: Roofs) -> None:
    """Each line's name and value on the line, and the ridge of the slowest memory in numbers."""
    axes = board.axes
    left, right = axes.get_xlim()
    for name, x in roofs.ridges.items():
        if roofs.peak is not None and x == max(roofs.ridges.values()):
            board.add_mark(x, roofs.peak, 5)
            spots = board.around([(x, roofs.peak)], gaps=(7, 12))
            words = f"ridge {plain(x, 2)} ({LEVEL_NAMES.get(name, name)})"
            ridge = board.put(words, spots[:1] + spots[2:], color=GREY, fontsize=8.5)
            _match_shade(board, ridge, roofs)
    for roof in roofs.lines:
        if roof.kind == "slope":
            _name_slope(board, roof, GREY)
    for stack in _stacks(board, roofs):
        # Of levels too near to be told apart the names stand above the highest, in their order.
        roof = stack[0]
        label = "\n".join(member.label for member in stack)
        kinds = {member.kind for member in stack}
        colour = EXP if kinds == {"exp"} else GREY
        start = max(left, roof.corners[0][-2])
        spots = []
        for share in (0.04, 0.3, 0.5, 0.7, 0.98, 0.15, 0.85):
            x = start * (right / start) ** share
            px, py = board.pixels(x, roof.corners[1][-1])
            side = "right" if share > 0.9 else "left"
            spots.append((px, py + 3, side, "bottom"))
            if len(stack) == 1:
                spots.append((px, py - 4, side, "top"))
        name = board.put(label, spots, color=colour, fontsize=8.5)
        _match_shade(board, name, roofs)


def _match_shade(board: Board, label: Text, roofs: Roofs) -> None:
    """Paper of the shade's colour behind a name that stands in it."""
    patch, height = label.get_bbox_patch(), label.get_position()[1] * board.axes.figure.dpi
    if patch is not None and roofs.peak and height > board.pixels(1.0, roofs.peak)[1]:
        patch.set_facecolor(SHADE)


def _stacks(board: Board, roofs: Roofs) -> list[list[Roof]]:
    """The levels from the highest down, those without room for a name between them together."""
    levels = sorted(
        (roof for roof in roofs.lines if roof.kind != "slope"),
        key=lambda roof: -roof.corners[1][-1],
    )
    stacks: list[list[Roof]] = []
    for roof in levels:
        height = board.pixels(1.0, roof.corners[1][-1])[1]
        last = stacks[-1][-1].corners[1][-1] if stacks else math.inf
        if stacks and board.pixels(1.0, last)[1] - height < _NAME_PX:
            stacks[-1].append(roof)
        else:
            stacks.append([roof])
    return stacks


def _name_slope(board: Board, roof: Roof, colour: str) -> None:
    """The name along a slope of bandwidth, at its upper end, as far as it is in sight."""
    axes = board.axes
    low, _ = axes.get_ylim()
    left, _ = axes.get_xlim()
    end_x, end_y = roof.corners[0][1], roof.corners[1][1]
    rate = end_y / end_x
    x0, y0 = board.pixels(max(left, low / rate), max(low, left * rate))
    x1, y1 = board.pixels(end_x, end_y)
    angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
    length = math.hypot(x1 - x0, y1 - y0)
    if board.along(roof.label, (x0, y0), angle, length, color=colour, fontsize=8.5) is None:
        spots = board.around([(end_x, end_y)], gaps=(8, 14, 22))
        board.put(roof.label, spots, (x1, y1), color=colour, fontsize=8.5)
