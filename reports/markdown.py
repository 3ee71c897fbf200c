"""The report as Markdown, for a comment or a file beside the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.columns import columns, ratio_notes
from reports.rows import html_rows, left_out, reasons, status_counts
from reports.style import plural
from results.findings import findings
from results.interval import MEANING
from results.run import Run
from results.static_table import notes, reading_order, static_columns
from results.trouble import ceiling_doubt

MARKDOWN_CHARACTERS = 60_000  # GitHub refuses comments of more than 65 536


def markdown(run: Run, figures: Sequence[tuple[str, str]] = ()) -> str:
    """The report as Markdown of at most 60 000 characters, what tells most first.

    `figures`: (title, file) of images beside the text. When rows had to be left out, it says so.
    """
    header = run.header
    head = [f"# Run {run.name}", "", f"`{header.command or 'command unknown'}`, {run.state}.", ""]
    if doubt := ceiling_doubt(run):
        head += [f"**Mind: {_escaped(doubt)}.**", ""]
    head += [f"- {_escaped(finding.sentence)}" for finding in findings(run)]
    head += ["", *(f"![{_escaped(title)}]({file})" for title, file in figures), ""]
    counts = ", ".join(f"{n} {status}" for status, n in status_counts(run))
    content = _static(run) if run.header.kind == "static" else _timed(run)
    head += [f"{content.counted}: {counts}.", left_out(run), ""]
    stopped = [f"- {_escaped(reason)}" for reason in content.reasons]
    table = [
        _row(list(content.columns)),
        _row(["--:" if is_number else "---" for is_number in content.columns.values()]),
    ]
    room = MARKDOWN_CHARACTERS - sum(len(line) + 1 for line in [*head, *table]) - 800
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
    for texts in content.rows:
        line = _row(texts)
        if room < len(line) + 1:
            break
        body.append(line)
        room -= len(line) + 1
    rest = len(content.rows) - len(body)
    note = [f"{plural(rest, 'row')} left out here for length; the page has all."] if rest else []
    return "\n".join([*head, *table, *body, "", *note, "", *content.notes, "", *tail, ""])


@dataclass(frozen=True)
class _Content:
    """What the table of a run holds; `columns` tells which are numbers."""

    counted: str
    columns: dict[str, bool]
    rows: list[list[str]]
    notes: list[str]
    reasons: list[str]


def _timed(run: Run) -> _Content:
    found = [column for column in columns(run).values() if column.in_markdown]
    return _Content(
        plural(len(run.cells), "cell"),
        {column.header: column.is_number for column in found},
        [[column.show(cell) for column in found] for cell, _ in html_rows(run)[1]],
        [*ratio_notes(run), f"{MEANING}."],
        reasons(run.cells),
    )


def _static(run: Run) -> _Content:
    found, ordered = static_columns(run.profiles), reading_order(run.profiles)
    return _Content(
        plural(len(ordered), "profile"),
        {column.header: column.is_number for column in found},
        [[column.show(p) for column in found] for p in ordered],
        ["Bounds are shares of the peak; neither is a prediction."],
        [f"{p.kernel} {p.arch}: {notes(p)[0]}" for p in ordered if p.status != "ok"],
    )


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(text) for text in texts)} |"


def _escaped(text: str) -> str:
    for mark in ("\\", "|", "<", ">", "*", "_", "`"):
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
