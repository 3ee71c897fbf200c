"""`python -m results history`: each cell over the runs of a machine."""

from __future__ import annotations

import argparse
import datetime
import json
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from impls.interface.streams import for_a_reader
from results.history import Event, Series, alerts, events, series_of
from results.rules import read_rules
from results.store import list_runs, without_parts
from results.timed_runs import timed_runs
from results.units import counted
from results.verdict_text import change_text

ALERT, BROKEN = 1, 5
_MOST_CELLS = 5


def history(options: argparse.Namespace, store: Path) -> int:
    """Print the events of every series → exit code: 1 under --alert where one calls.

    Raises:
        RulesError, SchemaError, OSError: as reading raises them.
    """
    runs = timed_runs(
        store, without_parts(list_runs(store)), lambda name: fnmatchcase(name, options.cells)
    )
    series = series_of(runs)
    if options.alert:
        rules, today = read_rules(), datetime.date.today()
        waived = [s for s in series if rules.waiver_of(s.name, today)[0]]
        series = [one for one in series if one not in waived]
    told = events(series)
    calling = alerts(told, options.within)
    code = BROKEN if not series else ALERT if options.alert and calling else 0
    longest = max((len(one.nights) for one in series), default=0)
    last = f"{len(series)} series of up to {counted(longest, 'run')}: "
    last += f"{counted(len(told), 'event')}, {counted(len(calling), 'alert')}"
    if longest < 6:
        last += "; a change needs 6 runs of one machine and method to be seen"
    if options.json:
        record = {"exit_code": code, "conclusion": last, "series": [*map(asdict, series)]}
        record["events"] = [_record(event, event in calling) for event in told]
        with for_a_reader():
            print(json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False))
        return code
    with for_a_reader():
        for event in told:
            _print_event(event, event in calling)
        for part in _changed_methods(series):
            print(part)
        print(last)
    return code


def _print_event(event: Event, is_alert: bool) -> None:
    word = "slower" if event.is_slower else "faster"
    commits = f"{(event.after_commit or 'unknown')[:9]}..{(event.until_commit or 'unknown')[:9]}"
    alert = "ALERT: " if is_alert else ""
    cells = counted(len(event.steps), "cell")
    print(f"{alert}{event.utc} {word}, {cells}, commits {commits}, run {event.run}")
    for step in event.steps[:_MOST_CELLS]:
        over = "" if step.is_last else ", over since"
        ratio = change_text(step.point.ratio)
        print(f"  {ratio:>8}  {step.series.name} ({step.point.nights} runs{over})")
    if len(event.steps) > _MOST_CELLS:
        print(f"  and {len(event.steps) - _MOST_CELLS} more: --json has all")


def _changed_methods(series: list[Series]) -> list[str]:
    parts: dict[str, int] = {}
    for one in series:
        parts[one.machine_key] = max(parts.get(one.machine_key, 1), one.part)
    return [
        f"method changed on {machine}: {n} series of each cell, not set against each other"
        for machine, n in parts.items()
        if n > 1
    ]


def _record(event: Event, is_alert: bool) -> dict[str, Any]:
    steps = [
        {
            "name": step.series.name,
            "part": step.series.part,
            "index": step.point.index,
            "ratio": step.point.ratio,
            "nights": step.point.nights,
            "is_last": step.is_last,
        }
        for step in event.steps
    ]
    return asdict(event) | {"steps": steps, "is_alert": is_alert}
