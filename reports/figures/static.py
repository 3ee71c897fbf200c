"""What compiled kernels cost on each architecture: bounds, what limits, registers and spills."""

from __future__ import annotations

from collections.abc import Sequence
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
)
from reports.style import GREY, PALE, REST, plural
from results.run import Run
from results.static_findings import PIPE_WORDS
from results.static_profile import StaticProfile
from results.static_promises import breaches
from results.static_table import (
    arch_order,
    block_text,
    compilers_text,
    constants_text,
    notes,
    reading_order,
    varying_constants,
)

TITLE = "Static profile"
MOST_ROWS = 48
# Inches.
LABELS, BAR, FIGURES, GAP, ROW, HEAD, FOOT = 2.6, 2.2, 1.15, 0.22, 0.27, 0.52, 0.5
_WORD = 28  # % of a panel that the longest word takes, "shuffle"
RED = "#B3261E"
# Okabe and Ito's colours again, one for each pipe; the second is dark enough for letters.
_PIPES = {
    "mma": ("#0072B2", "#0072B2"),
    "mufu": ("#D55E00", "#B85000"),
    "shared": ("#009E73", "#00795A"),
    "alu": ("#CC79A7", "#A84B80"),
    "issue": ("#E69F00", "#946500"),
    "fp32": ("#56B4E9", "#1F78AD"),
    "shuffle": ("#8C8C8C", "#5A5A5A"),
    "dram": ("#333333", "#333333"),
}
_READ = (
    "Each bar goes from the bound with nothing overlapped to the bound with all pipes at work at "
    "once, of the architecture's peak; its colour and the word beside it name the fullest pipe. "
    "Bounds, not predictions: nothing can be right of a bar, and good kernels end within it."
)
_MARKS = (
    "Beside it: registers of a thread; ▼ spill stores + loads of the kernel, red where some are in "
    "the hot loop; ! where the code breaks what its author promises of it."
)


@dataclass(frozen=True)
class Row:
    """One kernel, size and block over all architectures."""

    kernel: str
    label: str
    profiles: dict[str, StaticProfile]


def draw(run: Run) -> Figure | None:
    """A panel for each architecture, a row for each kernel and size; None without profiles."""
    rows, left_out = _rows(run.profiles)
    if not rows:
        return None
    archs = arch_order(arch for row in rows for arch in row.profiles)
    lines = _lines(rows)
    labels_in = _labels_in(rows)
    width = labels_in + len(archs) * (BAR + FIGURES + GAP)
    dtypes = sorted({p.dtype for p in run.profiles if p.dtype})
    by = compilers_text(run.profiles).replace(", ptxas", " · ptxas")
    title = " · ".join(["Kernels as compiled, not run", *dtypes, by])
    told = [_READ, _words_used(rows), _MARKS, _of_dram(rows), left_out]
    head, foot = heading_height(title, width), footnote_height(told, width)
    body = len(lines) * ROW
    figure = new_figure(width, head + HEAD + body + FOOT + foot)
    heading(figure, title)
    bottom = foot + FOOT
    _draw_labels(panel(figure, 0, bottom, labels_in, body), lines, labels_in)
    for i, arch in enumerate(archs):
        left = labels_in + i * (BAR + FIGURES + GAP)
        axes = panel(figure, left, bottom, BAR, body)
        _draw_panel(axes, arch, lines)
    footnote(figure, told)
    return figure


def _rows(profiles: Sequence[StaticProfile]) -> tuple[list[Row], str]:
    """The rows in reading order, and a sentence on those there was no room for."""
    varying = varying_constants(profiles)
    dtypes = {p.dtype for p in profiles if p.dtype}
    several = _with_several_blocks(profiles)
    rows: dict[tuple, Row] = {}
    for p in reading_order(profiles):
        words = [p.dtype or ""] if len(dtypes) > 1 else []
        words += [f"d_h={p.d_h}"] if p.d_h else []
        words += [constants_text(p, varying)]
        words += [block_text(p)] if p.subject in several else []
        label = " ".join(filter(None, words)) or block_text(p)
        rows.setdefault((p.kernel, label), Row(p.kernel, label, {})).profiles[p.arch] = p
    found = list(rows.values())
    if len(found) <= MOST_ROWS:
        return found, ""
    # What most readers look for first; the table has all.
    found.sort(key=lambda row: not _is_usual(next(iter(row.profiles.values()))))
    kept = {id(row) for row in found[:MOST_ROWS]}
    rest = len(found) - MOST_ROWS
    shown = [row for row in rows.values() if id(row) in kept]
    return shown, f"{plural(rest, 'more row')} in the table: {MOST_ROWS} are drawn."


def _is_usual(profile: StaticProfile) -> bool:
    return profile.is_default and profile.dtype == "bf16" and profile.d_h in (64, 128)


def _with_several_blocks(profiles: Sequence[StaticProfile]) -> set[tuple]:
    blocks: dict[tuple, set[str]] = {}
    for p in profiles:
        blocks.setdefault(p.subject, set()).add(block_text(p))
    return {subject for subject, found in blocks.items() if len(found) > 1}


def _lines(rows: Sequence[Row]) -> list[Row | str]:
    """The rows with their kernel's name above the first of it."""
    lines: list[Row | str] = []
    for i, row in enumerate(rows):
        if i == 0 or rows[i - 1].kernel != row.kernel:
            lines.append(row.kernel)
        lines.append(row)
    return lines


def _labels_in(rows: Sequence[Row]) -> float:
    """Inches that the longest of the kernels' names and of the rows' labels takes."""
    names = max(0.092 * len(row.kernel) for row in rows)
    return max(LABELS, 0.24 + names, 0.24 + max(0.084 * len(row.label) for row in rows))


def _draw_labels(axes: Axes, lines: Sequence[Row | str], labels_in: float) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, labels_in)
    axes.set_ylim(len(lines), 0)
    for y, line in enumerate(lines):
        if isinstance(line, str):
            axes.text(0.12, y + 0.55, line, fontsize=9.5, fontweight="bold", va="center")
        else:
            axes.text(labels_in - 0.12, y + 0.5, line.label, fontsize=9, ha="right", va="center")


def _draw_panel(axes: Axes, arch: str, lines: Sequence[Row | str]) -> None:
    axes.set_xlim(0, 100)
    axes.set_ylim(len(lines), 0)
    axes.set_yticks([])
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.tick_params(axis="x", labelsize=8.5, color=PALE)
    axes.set_xlabel("% of peak", fontsize=9)
    axes.set_title(arch, loc="left", fontsize=10.5, pad=16)
    _beside(axes, 0, "regs", 0, GREY, y_points=6)
    _beside(axes, 0, "spills", 1, GREY, y_points=6)
    for y, line in enumerate(lines):
        if isinstance(line, str):
            axes.axhline(y + 0.05, color=REST, linewidth=0.7, clip_on=False)
        else:
            _draw_row(axes, y + 0.5, line.profiles.get(arch))


def _draw_row(axes: Axes, y: float, profile: StaticProfile | None) -> None:
    if profile is None:
        axes.text(1, y, "not in the run", fontsize=8, color=PALE, va="center")
        return
    if profile.status != "ok" or profile.resources is None:
        text = notes(profile)[0]
        short = text if len(text) <= 44 else text[:43] + "…"
        axes.text(1, y, short, fontsize=8, color=RED, va="center")
        return
    bound = profile.bound
    if bound is not None:
        colour, ink = _PIPES[bound.limited_by]
        low, high = bound.no_overlap_percent, bound.overlap_percent
        axes.barh(y, low, height=0.1, color=REST, zorder=2)
        bars = axes.barh(y, high - low, left=low, height=0.56, color=colour, zorder=3)
        bars[0].set_gid(f"point-{profile.cell}-static")
        # Beside the bar, or upon it where it reaches from one edge to the other.
        x, side = (low + high) / 2, "center"
        if low > _WORD:
            x, side = low - 2, "right"
        elif high < 100 - _WORD:
            x, side = high + 2, "left"
        axes.text(
            x, y, bound.limited_by, fontsize=8, color=ink, ha=side, va="center", zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip
    else:
        axes.text(1, y, "no bound", fontsize=8, color=PALE, va="center")
    mark = " !" if breaches(profile) else ""
    _beside(axes, y, f"{profile.resources.registers}", 0, "black")
    spilled = profile.resources.spill_stores + profile.resources.spill_loads
    loop = profile.hot_loop
    is_inside = bool(loop and loop.spill_stores + loop.spill_loads)
    text = f"▼{spilled}" if spilled else ("" if mark else "0")
    ink = RED if is_inside or mark else ("black" if spilled else PALE)
    _beside(axes, y, text + mark, 1, ink)


def _beside(
    axes: Axes, y: float, text: str, column: int, colour: str, y_points: float = 0.0
) -> None:
    """Text right of the bars, in the column of the registers or that of the spills."""
    axes.annotate(
        text,
        (100, y),
        xytext=(30 + 46 * column, y_points),
        textcoords="offset points",
        fontsize=8.5,
        color=colour,
        ha="right",
        va="center" if not y_points else "bottom",
        annotation_clip=False,
    )


def _words_used(rows: Sequence[Row]) -> str:
    found = {p.bound.limited_by for row in rows for p in row.profiles.values() if p.bound}
    told = "; ".join(f"{pipe}: {PIPE_WORDS[pipe]}" for pipe in PIPE_WORDS if pipe in found)
    return f"{told}." if told else ""


def _of_dram(rows: Sequence[Row]) -> str:
    """Whose peak is device memory's bandwidth rather than that of matrix products."""
    found = [p for row in rows for p in row.profiles.values() if p.bound and p.bound.of == "dram"]
    names = ", ".join(dict.fromkeys(p.kernel for p in found))
    return f"100 % is the bandwidth of device memory for {names}; else matrix products." * bool(
        found
    )
