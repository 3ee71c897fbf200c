"""A run directory as it is found and read to go on with it: its header and its journal's lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suites.measure.journal import RUN

MOST_LAUNCHES = 10_000
"""More are a slip of the finger: one of the smallest sweep takes ten seconds."""
_PLANNED = {"cell", "suite", "series", "implementation", "problem", "pass", "decision"}
"""What every entry of a plan has."""


def find(runs: Path, name: str) -> Path:
    """The folder of the timed run called `name` under `runs`, or of the one at a path.

    "latest" is the newest; a beginning of a name will do where it is one run's. A static run,
    whose kernels were only compiled, is none of them: there is nothing in it to go on with.

    Raises:
        ValueError: there is none, or several; the message lists the newest ones.
    """
    if name == "latest":
        made = {p: _made(p) for p in runs.glob(f"*/*/{RUN}") if not _is_static(p)}
        name = max(made, key=lambda p: made[p]).parent.name if made else name
    path = Path(name)
    if (path / RUN).is_file():
        return _timed(path)
    if not name or set(name) & set("*?["):
        raise ValueError(f'"{name}" is no name of a run: give one that `results list` prints')
    found = sorted(runs.glob(f"*/{name}/{RUN}")) or sorted(runs.glob(f"*/{name}*/{RUN}"))
    timed = [p for p in found if not _is_static(p)] or found
    if len(timed) != 1:
        every = sorted(runs.glob(f"*/*/{RUN}"), key=lambda p: p.parent.name, reverse=True)
        newest = [p.parent.name for p in every if not _is_static(p)][:5]
        known = f"; the newest are {', '.join(newest)}" if newest else f"; none in {runs}"
        count = "no run" if not timed else f"{len(timed)} runs"
        raise ValueError(f'{count} called "{name}"{known}')
    return _timed(timed[0].parent)


def read_header(path: Path) -> dict[str, Any]:
    """What run.json says.

    Raises:
        ValueError: it is not the run.json of this schema version.
    """
    header = record_of(text_of(path / RUN), needed=("machine_key", "settings", "plan"))
    if header is None or header.get("schema") != 1 or not _can_be_gone_on_with(header):
        raise ValueError(f"{path / RUN} is no run of schema version 1: it cannot be resumed")
    return header


def record_of(text: str, needed: tuple[str, ...] = ("cell",)) -> dict[str, Any] | None:
    """The JSON object of a line or file; None when it is cut off, or another one."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    is_ours = isinstance(found, dict) and set(needed) <= set(found)
    return found if is_ours and isinstance(found.get("launch", 1), int) else None


def text_of(path: Path) -> str:
    """The text of a file, whatever a crash left in it; empty when there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _can_be_gone_on_with(header: dict[str, Any]) -> bool:
    plan, launches = header["plan"], header.get("launches", 1)
    return (
        isinstance(header["settings"], dict)
        and isinstance(plan, list)
        and all(isinstance(entry, dict) and entry.keys() >= _PLANNED for entry in plan)
        and isinstance(launches, int)
        and 1 <= launches <= MOST_LAUNCHES
    )


def _made(path: Path) -> str:
    """When a run was made, as its header says; a header that cannot be read is the oldest."""
    header = record_of(text_of(path), needed=("created_utc",)) or {}
    return str(header.get("created_utc", ""))


def _is_static(path: Path) -> bool:
    return (record_of(text_of(path), needed=("kind",)) or {}).get("kind") == "static"


def _timed(path: Path) -> Path:
    if _is_static(path / RUN):
        raise ValueError(f"{path.name} is a static run: type its command again, nothing is resumed")
    return path
