"""A plan before it is run: each cell with its estimate of time and memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from impls.interface.problem import Problem


def as_json(entries: Sequence[Mapping[str, Any]]) -> str:
    """The plan's entries as they would stand in run.json."""
    return json.dumps(list(entries), indent=1, allow_nan=False)


def as_text(entries: Sequence[Mapping[str, Any]]) -> str:
    """A line a cell, then how long those that are to be run take and what the largest needs."""
    lines = [f"{'seconds':>8} {'GB':>7}  cell"]
    for entry in entries:
        # A cell that cannot be measured here costs nothing; its own row will say why.
        seconds = f"{entry['estimate_s']:8.2f}" if entry["decision"] == "run" else f"{'-':>8}"
        needed = entry["memory_bytes"]
        memory = f"{'-':>7}" if needed is None else f"{needed / 1e9:7.3f}"
        lines.append(f"{seconds} {memory}  {_name(entry)}")
    run = [entry for entry in entries if entry["decision"] == "run"]
    total_s = round(sum(entry["estimate_s"] for entry in run))
    most = max((entry["memory_bytes"] or 0 for entry in run), default=0)
    beyond = len(entries) - len(run)
    lines.append(
        f"{len(run)} cells in about {total_s // 60}:{total_s % 60:02d}, the largest with "
        f"{most / 1e9:.3g} GB; {beyond} beyond the budget or the memory"
    )
    return "\n".join(lines)


def _name(entry: Mapping[str, Any]) -> str:
    told = f"{entry['suite']}  {entry['implementation']}  {entry['pass']}  "
    told += Problem.from_json(entry["problem"]).id
    return told if entry["reason"] is None else f"{told}  ({entry['reason']})"
