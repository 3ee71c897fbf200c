"""Time of each run over the base's, cell by cell, in a row for each implementation."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    log_axis,
    new_figure,
    panel,
)
from reports.comparison import LETTERS, Compared
from reports.owners import part_of
from reports.style import GREY, PALE, looks
from results.verdict import Verdict

TITLE = "Time over the base's"
LEFT, WIDTH, ROW, HEAD, FOOT = 2.2, 6.6, 0.42, 0.4, 0.6  # inches
_TICKS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4, 2.0, 4.0)
_PROVEN = ("regressed", "improved")


def draw(found: Compared) -> Figure | None:
    """A panel for each head; None where no cell was timed in both."""
    panels = [
        (letter, verdicts)
        for letter, comparison in zip(LETTERS[1:], found.comparisons, strict=False)
        if (verdicts := [one for one in comparison.verdicts if one.ratio])
    ]
    if not panels:
        return None
    names = sorted({found.cells[one.name].implementation for _, some in panels for one in some})
    row_in = HEAD + ROW * len(names) + FOOT
    left = max(LEFT, 0.35 + 0.088 * max(map(len, names)))
    width = left + WIDTH + 0.4
    head = heading_height(TITLE, width)
    height = head + row_in * len(panels) + footnote_height(_NOTES, width)
    figure = new_figure(width, height)
    heading(figure, TITLE)
    ratios = [end for _, some in panels for one in some for end in (one.ratio, one.low, one.high)]
    known = [ratio for ratio in ratios if ratio]
    limits = min([*known, 0.93]) / 1.04, max([*known, 1.07]) * 1.04
    for i, (letter, verdicts) in enumerate(panels):
        bottom = height - head - (i + 1) * row_in + FOOT
        axes = panel(figure, left, bottom, WIDTH, ROW * len(names))
        axes.set_title(f"{letter} / A", loc="left", fontsize=10.5)
        axes.set_xlim(*limits)
        _draw_panel(axes, found, verdicts, names)
    footnote(figure, _NOTES)
    return figure


_NOTES = (
    "Right of 1 the run takes longer than A. Full: a difference beyond doubt, with its 95 % "
    "interval; hollow: none was proven. Shaded: within 3 %. Flagged rows have no ratio.",
)


def _draw_panel(
    axes: Axes, found: Compared, verdicts: Sequence[Verdict], names: Sequence[str]
) -> None:
    look = looks(found.implementations)
    numbers = {name: i for i, name in enumerate(found.by_name)}
    log_axis(
        axes, "x", [t for t in _TICKS if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]],
        lambda ratio: f"{ratio:g}",
    )  # fmt: skip
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.axvline(1.0, color=GREY, linewidth=1.2, zorder=1)
    axes.axvspan(1 / 1.03, 1.03, color=PALE, alpha=0.15, linewidth=0, zorder=0)
    axes.set_xlabel("time / time of A")
    by_name: dict[str, list[Verdict]] = {name: [] for name in names}
    for one in verdicts:
        by_name[found.cells[one.name].implementation].append(one)
    for row, (name, own) in enumerate(by_name.items()):
        for i, one in enumerate(own):
            # Side by side within the row, in the order of the table.
            y = row + 0.3 * (2 * (i + 0.5) / len(own) - 1)
            is_proven = one.verdict in _PROVEN
            if is_proven and one.low and one.high:
                bar = axes.plot([one.low, one.high], [y, y], color=look[name].colour)
                bar[0].set(linewidth=1.0, zorder=2, gid=part_of(name, "whiskers"))
            cell = found.cells[one.name]
            at = axes.plot([one.ratio or 1.0], [y], marker=look[name].marker, clip_on=False)
            at[0].set(color=look[name].colour, markersize=5, zorder=3)
            at[0].set(markerfacecolor=look[name].colour if is_proven else "white")
            at[0].set_gid(f"point-{numbers[one.name]}-{cell.suite}")
