"""A plan before it is run: what each sweep takes, or each cell, in time and memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from impls.interface.problem import Problem

Entries = Sequence[Mapping[str, Any]]


def as_json(entries: Entries) -> str:
    """The plan's entries as they would stand in run.json."""
    return json.dumps(list(entries), indent=1, allow_nan=False)


def as_text(entries: Entries) -> str:
    """A line a sweep, then all together; how to see each cell comes last."""
    sweeps: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        sweeps.setdefault(entry["suite"], []).append(entry)
    width = max(map(len, [*sweeps, "sweep"]))
    lines = [f"{'sweep':<{width}} {'cells':>6} {'time':>8} {'most GB':>8} {'left out':>9}"]
    for name, part in sweeps.items():
        run = _run(part)
        figures = f"{len(run):>6} {_time(run):>8} {_most_bytes(run) / 1e9:>8.3f}"
        lines.append(f"{name:<{width}} {figures} {len(part) - len(run):>9}")
    return "\n".join([*lines, _together(entries), "each cell: -v, or --json"])


def as_cells(entries: Entries) -> str:
    """A line a cell, then how long those that are to be run take and what the largest needs."""
    lines = [f"{'seconds':>8} {'GB':>7}  cell"]
    for entry in entries:
        # A cell that cannot be measured here costs nothing; its own row will say why.
        seconds = f"{entry['estimate_s']:8.2f}" if entry["decision"] == "run" else f"{'-':>8}"
        needed = entry["memory_bytes"]
        memory = f"{'-':>7}" if needed is None else f"{needed / 1e9:7.3f}"
        lines.append(f"{seconds} {memory}  {_name(entry)}")
    return "\n".join([*lines, _together(entries)])


def _together(entries: Entries) -> str:
    run = _run(entries)
    needed = f"the largest with {_most_bytes(run) / 1e9:.3g} GB"
    beyond = f"{len(entries) - len(run)} beyond the budget or the memory"
    return f"{len(run)} cells in about {_time(run)}, {needed}; {beyond}"


def _run(entries: Entries) -> Entries:
    return [entry for entry in entries if entry["decision"] == "run"]


def _time(run: Entries) -> str:
    total_s = round(sum(entry["estimate_s"] for entry in run))
    return f"{total_s // 60}:{total_s % 60:02d}"


def _most_bytes(run: Entries) -> int:
    return max((entry["memory_bytes"] or 0 for entry in run), default=0)


def _name(entry: Mapping[str, Any]) -> str:
    told = f"{entry['suite']}  {entry['implementation']}  {entry['pass']}  "
    told += Problem.from_json(entry["problem"]).id
    return told if entry["reason"] is None else f"{told}  ({entry['reason']})"
