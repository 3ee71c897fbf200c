"""The fastest implementation at each T and d_h, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from impls.interface.problem import PASSES
from reports.axes import (
    footnote,
    footnote_height,
    heading,
    heading_height,
    new_figure,
    panel,
)
from reports.legend import looks_of
from reports.owners import part_of
from reports.points import mark_of
from reports.style import CLOCK_NAMES, GREY, SHADE, Look, count_name, shortened
from reports.sweep_figure import device_line
from results.phrases import DTYPE_NAMES
from results.run import Run
from results.schema import Cell

TITLE = "Who wins where"
ABOUT = "winner"
BOX, TALL, LEFT, HEAD, FOOT, GAP = 1.16, 0.52, 0.8, 0.4, 0.6, 0.35  # inches
ACROSS = 12.5
LETTER = 0.08  # of a title
_CLEAR = 1.03  # below this nobody is called a winner


@dataclass(frozen=True)
class Contest:
    """Who ran one problem, the fastest first; all are comparable rows of one launch."""

    cells: tuple[Cell, ...]

    @property
    def margin(self) -> float | None:
        """The second's time / the winner's; None where nobody else ran."""
        times = [cell.time_s for cell in self.cells if cell.time_s]
        return times[1] / times[0] if len(times) > 1 else None


def draw(run: Run) -> Figure | None:
    """A panel for each mask, dtype and pass; None without two places and two implementations."""
    panels = [(title, grid) for title, grid in contests(run).items() if _tells(grid)]
    if not panels:
        return None
    look = looks_of(run)
    sizes = [_size_in(name, grid) for name, grid in panels]
    rows = _in_rows(panels, [size[0] for size in sizes])
    width = max(6.5, *(sum(sizes[i][0] for i in row) for row in rows))
    title = f"{TITLE} · {device_line(run)}"
    notes = _notes(run)
    heights = [max(sizes[i][1] for i in row) for row in rows]
    head = heading_height(title, width)
    height = head + sum(heights) + footnote_height(notes, width)
    figure = new_figure(width, height)
    heading(figure, title)
    top = height - head
    for row, row_in in zip(rows, heights, strict=True):
        left = 0.0
        for i in row:
            name, grid = panels[i]
            tall = TALL * len(_ds(grid))
            axes = panel(figure, left + LEFT, top - HEAD - tall, BOX * len(_Ts(grid)), tall)
            axes.set_title(name, loc="left", fontsize=10.5)
            _draw_panel(axes, grid, look)
            left += sizes[i][0]
        top -= row_in
    footnote(figure, notes)
    return figure


def contests(run: Run) -> dict[str, dict[tuple[int, int], Contest]]:
    """By panel and then by (T, d_h) the contest there; of several problems the most contested."""
    found: dict[str, dict[tuple[int, int], dict[str, dict[str, Cell]]]] = {}
    # Forward before backward, and full before causal.
    for cell in sorted(
        run.trusted_cells, key=lambda c: (c.problem.causal, PASSES.index(c.pass_), _panel_name(c))
    ):
        p = cell.problem
        is_square = p.T_q == p.T_kv and p.lengths is None
        if p.is_attention and is_square and cell.launch == 1:
            where = found.setdefault(_panel_name(cell), {}).setdefault((p.T_kv, p.d_h), {})
            where.setdefault(f"{p.id} {cell.cache}", {})[cell.implementation] = cell
    return {
        name: {
            place: Contest(tuple(sorted(best.values(), key=lambda c: c.time_s or 0.0)))
            for place, problems in grid.items()
            for best in [max(problems.values(), key=len)]
        }
        for name, grid in found.items()
    }


def _panel_name(cell: Cell) -> str:
    p = cell.problem
    mask = "causal" if p.causal else "full"
    mask += f", window {p.window}" if p.window else ""
    dtype = DTYPE_NAMES.get(p.dtype, p.dtype)
    clock = CLOCK_NAMES.get(cell.clock, cell.clock)
    return f"{cell.pass_.replace('_', ' + ')}, {mask} · {dtype} · {clock}"


def _tells(grid: dict[tuple[int, int], Contest]) -> bool:
    return sum(contest.margin is not None for contest in grid.values()) > 1


def _Ts(grid: dict[tuple[int, int], Contest]) -> list[int]:
    return sorted({T for T, _ in grid})


def _ds(grid: dict[tuple[int, int], Contest]) -> list[int]:
    return sorted({d_h for _, d_h in grid})


def _size_in(name: str, grid: dict[tuple[int, int], Contest]) -> tuple[float, float]:
    """Inches across and down that a panel takes, its title as well."""
    across = max(BOX * len(_Ts(grid)), LETTER * len(name))
    return LEFT + across + GAP, HEAD + TALL * len(_ds(grid)) + FOOT


def _in_rows(panels: Sequence[object], widths: Sequence[float]) -> list[list[int]]:
    """The panels' numbers in rows that are not wider than a page."""
    rows: list[list[int]] = []
    for i in range(len(panels)):
        if rows and sum(widths[j] for j in rows[-1]) + widths[i] <= ACROSS:
            rows[-1].append(i)
        else:
            rows.append([i])
    return rows


def _draw_panel(axes: Axes, grid: dict[tuple[int, int], Contest], look: dict[str, Look]) -> None:
    Ts, ds = _Ts(grid), _ds(grid)
    axes.set_xlim(-0.5, len(Ts) - 0.5)
    axes.set_ylim(-0.5, len(ds) - 0.5)
    axes.grid(False)
    axes.set_xticks(range(len(Ts)), [count_name(T) for T in Ts])
    axes.set_yticks(range(len(ds)), [str(d_h) for d_h in ds])
    axes.set_xlabel("sequence length T")
    axes.set_ylabel("head size d_h" if len(ds) > 1 else "d_h")
    axes.tick_params(length=0)
    for place, contest in grid.items():
        _draw_box(axes, Ts.index(place[0]), ds.index(place[1]), contest, look)


def _draw_box(axes: Axes, x: int, y: int, contest: Contest, look: dict[str, Look]) -> None:
    """The winner's name and margin in its colour; grey where nobody else ran or none is ahead."""
    first, margin = contest.cells[0], contest.margin
    is_won = margin is not None and margin >= _CLEAR
    own = look[first.implementation]
    box = Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=own.colour if is_won else SHADE)
    box.set(linewidth=0, alpha=min(1.0, 0.12 + 0.25 * ((margin or 1.0) - 1.0)) if is_won else 1.0)
    box.set_gid(mark_of(first.cell, first.suite, first.series))
    axes.add_patch(box)
    name = shortened(first.implementation, 14)
    words = (
        "alone"
        if margin is None
        else f"{margin:.2f} × {shortened(contest.cells[1].implementation, 12)}"
    )
    if not is_won and margin is not None:
        name, words = "level", f"within {100 * (_CLEAR - 1):.0f} %"
    ink = "black" if is_won else GREY
    for text, dy, weight, size in ((name, 0.17, "bold", 7.5), (words, -0.2, "normal", 7)):
        written = axes.text(x, y + dy, text, ha="center", va="center", fontsize=size, color=ink)
        written.set(fontweight=weight, gid=part_of(first.implementation, "label"))


def _notes(run: Run) -> list[str]:
    launches = "Of the first launch. " if run.launches > 1 else ""
    return [
        f"{launches}In each box the fastest of the comparable rows of one problem, and how many "
        "times as fast as the second it is. At one T and d_h the problem that most ran. Alone: "
        "nobody else had a comparable row. One launch: no interval.",
    ]
