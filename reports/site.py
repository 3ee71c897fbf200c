"""The index of a site: every run of a store, machine by machine, with what its page found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.page import template
from reports.style import plural
from results.schema import STATUSES
from results.summary import RunSummary

TEMPLATE = "site.html.jinja"
RECORD = "report.json"


@dataclass(frozen=True)
class Entry:
    """One run of the index; `page` is empty where it has no page yet."""

    summary: RunSummary
    page: str
    findings: tuple[str, ...]

    @property
    def counts(self) -> str:
        """Its cells by status, without zeros."""
        counts = self.summary.counts or {}
        return ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts.get(s)) or "no cells"


@dataclass(frozen=True)
class MachineRuns:
    """The runs of one machine, the newest first; `history` is its page of trends, or empty."""

    key: str
    device: str
    entries: tuple[Entry, ...]
    history: str


def site_index(summaries: Sequence[RunSummary], out: Path) -> str:
    """The index as HTML, of the pages that there are below `out`."""
    machines = machine_runs(summaries, out)
    readable = [s for s in summaries if s.header is not None]
    return template(TEMPLATE).render(
        machines=machines,
        findings=index_findings(machines),
        unreadable=[s for s in summaries if s.header is None],
        runs=plural(len(readable), "run"),
        n_machines=plural(len(machines), "machine"),
    )


def machine_runs(summaries: Sequence[RunSummary], out: Path) -> list[MachineRuns]:
    """The readable runs by machine, the machine that measured last first."""
    found: dict[str, list[Entry]] = {}
    for summary in summaries:
        if summary.header is not None:
            found.setdefault(summary.machine_key, []).append(_entry(summary, out))
    return [
        MachineRuns(key, _device(entries[0].summary), tuple(entries), _history(out, key))
        for key, entries in found.items()
    ]


def index_findings(machines: Sequence[MachineRuns]) -> list[tuple[str, str]]:
    """What the newest run of each machine found first, and its page; at most seven."""
    told = []
    for machine in machines:
        newest = next((entry for entry in machine.entries if entry.findings), None)
        if newest is not None:
            told.append((f"{machine.device}: {newest.findings[0]}", newest.page))
    return told[:7]


def run_digest(folder: Path) -> str:
    """What tells whether a run's page is of its files as they are now."""
    digest = hashlib.sha256()
    for name in ("run.json", "cells.jsonl"):
        file = folder / name
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def place_of(summary: RunSummary) -> str:
    """The run's folder below the site; two machines may have runs of one name."""
    return f"runs/{summary.machine_key}/{summary.name}"


def written_record(out: Path, summary: RunSummary) -> dict[str, Any] | None:
    """What was told when the run's page was written; None where there is none."""
    file = out / place_of(summary) / RECORD
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return None


def _entry(summary: RunSummary, out: Path) -> Entry:
    record = written_record(out, summary)
    page = f"{place_of(summary)}/report.html" if record else ""
    return Entry(summary, page, tuple(record["findings"]) if record else ())


def _device(summary: RunSummary) -> str:
    header = summary.header
    assert header is not None
    if header.kind == "static":
        return "Compiled kernels"
    return header.device_name or header.device


def _history(out: Path, key: str) -> str:
    return (
        f"history/{key}/history.html" if (out / "history" / key / "history.html").is_file() else ""
    )
