"""The trend page as HTML: what changed, between which commits, panels, and every cell's row."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from markupsafe import Markup

from reports.figures import Drawn
from reports.history.commit_links import range_url
from reports.history.trend import MARGIN, dots
from reports.history.trends import Machine, Trend
from reports.inline_svg import inline_svg
from reports.page import template
from reports.page_rows import CELL_FIELDS, Fields, Row, choices, places
from reports.style import CLOCK_NAMES, Unit, plural, quantity, unit_for
from results.history import Event, alerts
from results.verdict_text import change_text

TEMPLATE = "history/page.html.jinja"
_MOST_CELLS = 8
# Fewer runs than that have no room for two levels of three.
_LEAST_RUNS = 6
# Of more the words would be half of the page: then a dot tells its cell alone.
_MOST_TOLD = 5000
_DIRECTIONS = ("slower", "faster", "no change")


@dataclass(frozen=True)
class _Column:
    key: str
    header: str
    is_number: bool
    show: Callable[[Trend], str]
    help: str = ""


_FIELDS: Fields[Trend] = {
    name: (lambda trend, read=read: read(trend.cell))
    for name, read in CELL_FIELDS.items()
    if name != "status"
} | {"last change": lambda trend: _direction(trend)}


def page(machine: Machine, drawn: Drawn | None, others: Sequence[str], within: int) -> str:
    """The whole page as text; names are escaped, only our own SVG is not."""
    trends = machine.trends
    columns = _columns(unit_for([trend.points[-1].level_s for trend in trends], "s"))
    counted = Counter(map(_direction, trends))
    rows = {trend.name: number for number, trend in enumerate(trends, start=1)}
    return template(TEMPLATE).render(
        machine=machine,
        device=machine.device,
        others=others,
        is_short=len(machine.columns) < _LEAST_RUNS,
        least=_LEAST_RUNS,
        methods=max((trend.parts for trend in trends), default=1),
        runs=plural(len(machine.columns), "run"),
        dates=" ".join(utc[:10] for _, utc in machine.columns),
        margin=MARGIN,
        events=[
            _event(one, one in alerts([one], within), rows, machine.repositories)
            for one in machine.events
        ],
        ceiling_doubt="",
        figures=[(drawn, Markup(inline_svg(_told(drawn, machine), {})))] if drawn else [],
        says_more=True,
        owners=(),
        statuses=[(word, counted[word]) for word in _DIRECTIONS],
        left_out="",
        wrong=[],
        reasons=[],
        columns=columns,
        flags_at=len(columns),
        n_first=len(columns),
        rows=[
            Row(tuple(column.show(trend) for column in columns), place)
            for trend, place in zip(trends, places(trends, _FIELDS), strict=True)
        ],
        choices=choices(trends, _FIELDS),
        sorted_by=_FIELDS,
        text_hint="T=4096 causal",
        baselines=(),
        followers={},
        baseline_notes=(),
        table_notes=(),
    )


def points_csv(machine: Machine) -> str:
    """Every run of every cell as CSV, seconds raw; the commit is empty where it is unknown."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("cell", "run", "utc", "commit", "time_s", "level_s", "method"))
    for trend in machine.trends:
        for p in trend.points:
            writer.writerow((trend.name, p.run, p.utc, p.commit, p.time_s, p.level_s, p.part))
    return text.getvalue()


def sentence(event: Event) -> str:
    """An event in words: how much, of what, since which run and between which commits."""
    return f"{_what(event)}, commits {_commits(event)}"


def _commits(event: Event) -> str:
    ends = (event.after_commit, event.until_commit)
    return "..".join((commit or "unknown")[:7] for commit in ends)


def _what(event: Event) -> str:
    first = event.steps[0]
    cells = plural(len(event.steps), "cell")
    word = "slower" if event.is_slower else "faster"
    size = change_text(first.point.ratio)
    most = f"{size}" if len(event.steps) == 1 else f"up to {size}"
    return f"{cells} {word} ({most}) since {event.utc[:10]}"


def _event(
    event: Event, calls: bool, rows: dict[str, int], repositories: Mapping[str, str]
) -> dict[str, Any]:
    cells = [
        (step.series.name, change_text(step.point.ratio), not step.is_last)
        for step in event.steps[:_MOST_CELLS]
    ]
    return {
        "what": _what(event),
        "commits": _commits(event),
        "url": range_url(repositories, event.after_commit, event.until_commit),
        "is_slower": event.is_slower,
        "calls": calls,
        "run": event.run,
        "cells": cells,
        "more": len(event.steps) - len(cells),
        "rows": sorted({rows[step.series.name] for step in event.steps}),
    }


def _columns(unit: Unit) -> list[_Column]:
    return [
        _Column("implementation", "implementation", False, lambda t: t.cell.implementation),
        _Column("problem", "problem", False, lambda t: t.cell.problem.id),
        _Column("pass", "pass, cache, clock", False, _method),
        _Column("now", f"now {unit.name}", True, lambda t: unit.show(t.points[-1].level_s), _NOW),
        _Column("since", "since the first", True, lambda t: change_text(t.since_first), _SINCE),
        _Column("runs", "runs", True, lambda t: str(len(t.points))),
        _Column("changes", "changes, the last first", False, _changes),
    ]


_NOW = "its level now: the median since the last change"
_SINCE = "its level now against its first by the same method"


def _method(trend: Trend) -> str:
    cell = trend.cell
    pass_ = cell.pass_.replace("_", " + ")
    return f"{pass_}, {cell.cache}, {CLOCK_NAMES.get(cell.clock, cell.clock)}"


def _direction(trend: Trend) -> str:
    if not trend.changes:
        return "no change"
    return "slower" if trend.changes[-1].is_slower else "faster"


def _changes(trend: Trend) -> str:
    told = [
        f"{change_text(change.ratio)} {change.commits} ({change.utc[:10]})"
        for change in reversed(trend.changes)
    ]
    return "; ".join(told) or "none"


def _told(drawn: Drawn, machine: Machine) -> Drawn:
    """The figure with every dot's run in words, and each panel and dot with its row's number."""
    found = dots(machine)
    is_told = sum(map(len, found.values())) <= _MOST_TOLD

    def of_row(match: re.Match[str]) -> str:
        where, number, body = match.groups()
        points = iter(found.get(f"{where}-{number}", ()))

        def marked(use: re.Match[str]) -> str:
            p = next(points)
            words = f"{p.utc[:10]}, {(p.commit or 'unknown')[:7]}: {quantity(p.time_s, 's')}"
            title = f"<title>{escape(words)}</title>" if is_told else ""
            return f'<g data-row="{number}">{title}{use.group()}</g>'

        return f"<g>{re.sub('<use [^>]*/>', marked, body)}</g>"

    name = drawn.name
    svg = re.sub(
        rf'<g id="{name}-(within|above|below)-(\d+)">(.*?</g>)\s*</g>',
        of_row,
        drawn.svg,
        flags=re.DOTALL,
    )
    svg = re.sub(rf'<g id="{name}-panel-(\d+)">', r'<g data-panel="\1">', svg)
    return replace(drawn, svg=svg)
