"""The report as Markdown, for a comment or a file beside the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.columns import columns, ratio_notes
from reports.rows import has_row, left_out, reasons, status_counts, worst_first
from reports.style import plural
from results.findings import MOST, findings
from results.interval import MEANING
from results.run import Run
from results.static_table import notes, reading_order, static_columns
from results.trouble import ceiling_doubt

MARKDOWN_CHARACTERS = 60_000  # GitHub refuses comments of more than 65 536


def markdown(run: Run, figures: Sequence[tuple[str, str]] = ()) -> str:
    """The report as Markdown of at most 60 000 characters, the worst rows first.

    Findings and failures are seen at once, the table and what only lacks is folded. `figures`:
    (title, file) of images beside the text. When rows had to be left out, it says so.
    """
    header = run.header
    head = [f"# Run {run.name}", "", f"`{header.command or 'command unknown'}`, {run.state}.", ""]
    head += [part for note in run.notes for part in (f"Note: {_escaped(note)}.", "")]
    if doubt := ceiling_doubt(run):
        head += [f"**Mind: {_escaped(doubt)}.**", ""]
    told = [f"- {_escaped(finding.sentence)}" for finding in findings(run)]
    head += told[:MOST]
    head += ["", *_folded(f"{len(told) - MOST} more", told[MOST:])] if told[MOST:] else []
    head += ["", *(f"![{_escaped(title)}]({file})" for title, file in figures), ""]
    counts = ", ".join(f"{n} {status}" for status, n in status_counts(run))
    content = _static(run) if run.header.kind == "static" else _timed(run)
    head += [f"{content.counted}: {counts}.", left_out(run), ""]
    table = [
        _row(list(content.columns)),
        _row(["--:" if is_number else "---" for is_number in content.columns.values()]),
    ]
    room = MARKDOWN_CHARACTERS - sum(len(line) + 1 for line in [*head, *table]) - 1000
    failed = _fitting([f"- {_escaped(reason)}" for reason in content.failures], room // 4)
    lacking = _fitting([f"- {_escaped(reason)}" for reason in content.lacking], room // 4)
    room -= sum(len(line) + 1 for line in [*failed, *lacking])
    body: list[str] = []
    for texts in content.rows:
        line = _row(texts)
        if room < len(line) + 1:
            break
        body.append(line)
        room -= len(line) + 1
    rest = len(content.rows) - len(body)
    note = [f"{plural(rest, 'row')} left out here for length; the page has all."] if rest else []
    rows = f"{plural(len(content.rows), 'row')}, {content.order} first"
    folded = _folded(rows, [*table, *body, "", *note, "", *content.notes]) if body else []
    folded += _folded("What has no time here, and why", lacking) if lacking else []
    return "\n".join([*head, *failed, "", *folded])


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """The lines that fit into so many characters, and how many more there are."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return [*kept, f"- and {len(lines) - len(kept)} more reasons, in the page"]
        kept.append(line)
    return kept


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that GitHub and GitLab show when the summary is clicked."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""]


@dataclass(frozen=True)
class _Content:
    """What the table of a run holds; `columns` tells which are numbers, `order` what leads."""

    counted: str
    columns: dict[str, bool]
    rows: list[list[str]]
    order: str
    notes: list[str]
    failures: list[str]
    lacking: list[str]


def _timed(run: Run) -> _Content:
    found = [column for column in columns(run).values() if column.in_markdown]
    return _Content(
        plural(len(run.cells), "cell"),
        {column.header: column.is_number for column in found},
        [[column.show(cell) for column in found] for cell in worst_first(run.cells)],
        "the worst",
        [*ratio_notes(run), f"{MEANING}."],
        reasons(cell for cell in run.cells if has_row(cell)),
        reasons(cell for cell in run.cells if not has_row(cell)),
    )


def _static(run: Run) -> _Content:
    found, ordered = static_columns(run.profiles), reading_order(run.profiles)
    return _Content(
        plural(len(ordered), "profile"),
        {column.header: column.is_number for column in found},
        [[column.show(p) for column in found] for p in ordered],
        "what matters",
        ["Bounds are shares of the peak; neither is a prediction."],
        [f"{p.kernel} {p.arch}: {notes(p)[0]}" for p in ordered if p.status != "ok"],
        [],
    )


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(text) for text in texts)} |"


def _escaped(text: str) -> str:
    for mark in ("\\", "|", "<", ">", "*", "_", "`"):
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
