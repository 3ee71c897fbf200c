"""The table of a run's cells: for a terminal, for Markdown, and as rows for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.columns import NOTHING, Column, columns, shared_parts
from reports.style import CLOCK_NAMES, count_name, plural
from results.findings import findings
from results.run import Run
from results.schema import STATUSES, Cell

MARKDOWN_CHARACTERS = 60_000  # GitHub refuses comments of more than 65 536
# From what a reader must see first to what only explains an absence.
_URGENCY = ("ok", "wrong", "crashed", "error", "oom", "timeout", "unsupported", "unavailable")
_URGENCY += ("skipped",)
_LONGEST = 48  # characters of one field
# The columns of a terminal, and the characters it must have for each; the page has them all.
_FROM_WIDTH = {
    "flop_per_s": 0,
    "times_baseline": 0,
    "percent_of_bound": 0,
    "binds": 72,
    "bytes_per_s": 92,
    "error": 104,
    "peak_bytes": 116,
    "clock": 132,
    "ran": 150,
}


def in_reading_order(cells: Iterable[Cell]) -> list[Cell]:
    """Timed cells by sweep, size and time; then the others, the most urgent status first."""

    def order(cell: Cell) -> tuple:
        problem = cell.problem
        sizes = (problem.T_kv, problem.T_q, problem.H, problem.H_kv, problem.d_h, problem.B)
        sweep = (cell.suite != "sequence_length", cell.suite, problem.causal, cell.series)
        time_s = cell.time_s if cell.time_s is not None else float("inf")
        kind = (cell.pass_, problem.dtype, cell.cache, cell.clock, cell.launch)
        urgency = 0 if cell.timing else _URGENCY.index(cell.status)
        return (urgency, sweep, kind, sizes, time_s, cell.implementation)

    return sorted(cells, key=order)


def reasons(cells: Iterable[Cell]) -> list[str]:
    """One line a reason, urgent ones first: "2 unavailable: xformers_cutlass (needs CUDA)"."""
    stopped: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.status != "ok":
            why = "; ".join(cell.reasons) or "no reason was written"
            stopped.setdefault((cell.status, why), []).append(cell.implementation)
    ranked = sorted(stopped.items(), key=lambda item: (_URGENCY.index(item[0][0]), item[0][1]))
    return [
        f"{len(names)} {status}: {', '.join(dict.fromkeys(names))} ({why})"
        for (status, why), names in ranked
    ]


def status_counts(run: Run) -> list[tuple[str, int]]:
    """Every status with its count, zeros too: what did not happen is said as well."""
    return [(status, run.counts.get(status, 0)) for status in STATUSES]


def left_out(run: Run) -> str:
    """How many rows stay out of every ratio and best-of, and why; empty when all enter."""
    flagged = sum(1 for cell in run.cells if cell.status == "ok" and cell.flags)
    others = [f"{n} {status}" for status, n in run.counts.items() if status != "ok"]
    parts = ([f"{flagged} flagged"] if flagged else []) + others
    total = len(run.cells) - len(run.comparable_cells)
    if not total:
        return ""
    return f"{plural(total, 'row')} left out of every ratio and best-of: {', '.join(parts)}."


def html_rows(run: Run) -> tuple[list[Column], list[tuple[Cell, list[str]]]]:
    """Columns and, for each cell in reading order, its texts; nothing is escaped yet."""
    found = list(columns(run).values())
    rows = [(c, [column.show(c) for column in found]) for c in in_reading_order(run.cells)]
    return found, rows


def terminal(run: Run, width: int = 80) -> str:
    """The timed cells by sweep and size, then one line a reason, no line wider than `width`."""
    found = columns(run)
    lines: list[str] = []
    sweeps: dict[tuple[str, ...], list[Cell]] = {}
    for cell in in_reading_order(cell for cell in run.cells if cell.timing):
        problem = cell.problem
        key = (cell.suite, cell.series, problem.dtype, cell.pass_, cell.cache, cell.clock)
        sweeps.setdefault((*key, str(problem.causal), str(cell.launch)), []).append(cell)
    for (suite, series, _, pass_, cache, clock, causal, launch), cells in sweeps.items():
        mask = "causal" if causal == "True" else "full"
        name = series if mask in series else f"{series}, {mask}".strip(", ")
        how = f"{pass_}, {cache}, {CLOCK_NAMES.get(clock, clock)}"
        several = f", launch {launch}" if run.launches > 1 else ""
        head = f"{suite}: {name} · {shared_parts(cells)} · {how}{several}"
        lines += [*_wrapped(head, width, indent="  "), *_sweep(cells, found, width), ""]
    for reason in reasons(run.cells):
        lines += _wrapped(reason, width, indent="    ")
    if note := left_out(run):
        lines += _wrapped(note, width, indent="    ")
    return "\n".join(lines)


def _sweep(cells: Sequence[Cell], found: dict[str, Column], width: int) -> list[str]:
    """The lines of one sweep: the size once, then its implementations, the fastest first."""
    keys = [key for key, least in _FROM_WIDTH.items() if width >= least]
    head = ["size", "implementation", found["time"].header.removeprefix("time "), "±%"]
    head += ["% bound" if k == "percent_of_bound" else found[k].header for k in keys]
    head = [text.replace(" (1 launch)", "") for text in [*head, "flags"]]
    names = _varying(cells)
    rows: list[list[str]] = []
    for cell in cells:
        size = _size_text(cell, names)
        is_same = bool(rows) and cells[len(rows) - 1].problem == cell.problem
        status = "" if cell.status == "ok" else cell.status.upper()
        marks = ", ".join([*([status] if status else []), *cell.flags])
        shown = [found["time"].show(cell), _half_width(cell)]
        shown += [_clip(found[k].show(cell), _LONGEST) for k in keys]
        rows.append(["" if is_same else size, cell.implementation, *shown, marks])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    spare = width - sum(widths[:-1]) - 2 * (len(head) - 1)
    widths[-1] = max(0, min(widths[-1], spare))
    if spare < 0:
        # The name gives way before a number does.
        widths[1] = max(8, widths[1] + spare)
    is_left = [name in ("implementation", "bound by", "clock", "ran", "flags") for name in head]
    return [
        "  ".join(
            _clip(text, w).ljust(w) if left else _clip(text, w).rjust(w)
            for text, w, left in zip(row, widths, is_left, strict=True)
        ).rstrip()
        for row in [head, *rows]
    ]


def _varying(cells: Sequence[Cell]) -> list[str]:
    names = ("B", "T_q", "T_kv", "H", "H_kv", "d_h")
    found = [n for n in names if len({getattr(cell.problem, n) for cell in cells}) > 1]
    is_square = all(cell.problem.T_q == cell.problem.T_kv for cell in cells)
    is_mha = all(cell.problem.H_kv == cell.problem.H for cell in cells)
    return [
        n for n in found if not (n == "T_q" and is_square) and not (n == "H_kv" and is_mha)
    ] or ["T_kv"]


def _size_text(cell: Cell, names: Sequence[str]) -> str:
    values = {n: count_name(getattr(cell.problem, n)) for n in names}
    shown = {("T" if n == "T_kv" else n): value for n, value in values.items()}
    return " ".join(f"{n}={value}" for n, value in shown.items())


def _half_width(cell: Cell) -> str:
    """Half the interval of the median, in % of it."""
    timing = cell.timing
    if timing is None or timing.ci_low_s is None or timing.ci_high_s is None or not cell.time_s:
        return NOTHING
    return f"{50 * (timing.ci_high_s - timing.ci_low_s) / cell.time_s:.1f}"


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"[:width]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line.strip() and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = indent
        line += word if not line.strip() else f" {word}"
    # One word longer than the width is cut rather than let to run over.
    return [_clip(line, width) for line in [*lines, line]]


def markdown(run: Run, figures: Sequence[tuple[str, str]] = ()) -> str:
    """The report as Markdown of at most 60 000 characters, what tells most first.

    `figures`: (title, file) of images beside the text. When rows had to be left out, it says so.
    """
    header = run.header
    head = [f"# Run {run.name}", "", f"`{header.command or 'command unknown'}`, {run.state}.", ""]
    head += [f"- {_escaped(finding.sentence)}" for finding in findings(run)]
    head += ["", *(f"![{_escaped(title)}]({file})" for title, file in figures), ""]
    counts = ", ".join(f"{n} {status}" for status, n in status_counts(run))
    head += [f"{plural(len(run.cells), 'cell')}: {counts}.", left_out(run), ""]
    stopped = [f"- {_escaped(reason)}" for reason in reasons(run.cells)]
    found, rows = html_rows(run)
    table = [
        _row([c.header for c in found]),
        _row(["--:" if c.is_number else "---" for c in found]),
    ]
    room = MARKDOWN_CHARACTERS - sum(len(line) + 1 for line in [*head, *table]) - 400
    tail: list[str] = []
    room_for_reasons = room / 4
    for line in stopped:
        room_for_reasons -= len(line) + 1
        if room_for_reasons < 0:
            tail.append(f"- and {len(stopped) - len(tail)} more reasons, in the page")
            break
        tail.append(line)
        room -= len(line) + 1
    body: list[str] = []
    for _, texts in rows:
        line = _row(texts)
        if room < len(line) + 1:
            break
        body.append(line)
        room -= len(line) + 1
    rest = len(rows) - len(body)
    note = [f"{plural(rest, 'row')} left out here for length; the page has all."] if rest else []
    return "\n".join([*head, *table, *body, "", *note, "", *tail, ""])


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(text) for text in texts)} |"


def _escaped(text: str) -> str:
    for mark in ("\\", "|", "<", ">", "*", "_", "`"):
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
