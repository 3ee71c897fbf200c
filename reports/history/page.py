"""The trend page as HTML: what changed, between which commits, panels, and every cell's row."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from reports.figures import Drawn
from reports.history.trends import Machine, Trend
from reports.inline_svg import inline_svg
from reports.page import template
from reports.style import plural, unit_for
from results.history import Event, alerts
from results.verdict_text import change_text

TEMPLATE = "history/page.html.jinja"
_MOST_CELLS = 8
# Fewer runs than that have no room for two levels of three.
_LEAST_RUNS = 6


def page(machine: Machine, drawn: Drawn | None, others: Sequence[str], within: int) -> str:
    """The whole page as text; names are escaped, only our own SVG is not."""
    unit = unit_for([trend.points[-1].level_s for trend in machine.trends], "s")
    return template(TEMPLATE).render(
        machine=machine,
        others=others,
        is_short=len(machine.columns) < _LEAST_RUNS,
        least=_LEAST_RUNS,
        methods=max((trend.parts for trend in machine.trends), default=1),
        runs=plural(len(machine.columns), "run"),
        events=[_event(event, event in alerts([event], within)) for event in machine.events],
        figure=Markup(inline_svg(drawn, {})) if drawn else None,
        unit=unit.name,
        rows=[_row(trend, unit.show(trend.points[-1].level_s)) for trend in machine.trends],
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
    first = event.steps[0]
    ends = (event.after_commit, event.until_commit)
    commits = "..".join((commit or "unknown")[:7] for commit in ends)
    cells = plural(len(event.steps), "cell")
    word = "slower" if event.is_slower else "faster"
    size = change_text(first.point.ratio)
    most = f"{size}" if len(event.steps) == 1 else f"up to {size}"
    return f"{cells} {word} ({most}) since {event.utc[:10]}, commits {commits}"


def _event(event: Event, calls: bool) -> dict[str, Any]:
    cells = [
        (step.series.name, change_text(step.point.ratio), not step.is_last)
        for step in event.steps[:_MOST_CELLS]
    ]
    return {
        "sentence": sentence(event),
        "is_slower": event.is_slower,
        "calls": calls,
        "run": event.run,
        "cells": cells,
        "more": len(event.steps) - len(cells),
    }


def _row(trend: Trend, now: str) -> dict[str, Any]:
    who, problem, *rest = trend.name.split(" ")
    changes = [
        f"{change_text(change.ratio)} {change.commits} ({change.utc[:10]})"
        for change in reversed(trend.changes)
    ]
    return {
        "cells": (who, problem, " ".join(rest), now, change_text(trend.since_first)),
        "runs": len(trend.points),
        "changes": changes,
    }
