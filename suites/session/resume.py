"""Going on with a run: its plan, what of it is done, and the cells it would have had."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from impls.interface.attention import Implementation
from impls.interface.problem import Problem
from suites.measure.journal import CELLS, RUN, RUNNING
from suites.session.plan import Planned
from suites.session.sweep import Cell


@dataclass(frozen=True)
class Resumed:
    """A run directory to go on with.

    `done` are the keys of its finished cells, `counts` those by status; `crashed` is the plan's
    entry of the cell its process died in, which is not tried again.
    """

    path: Path
    header: Mapping[str, Any]
    done: frozenset[str]
    counts: Mapping[str, int]
    crashed: Mapping[str, Any] | None

    @property
    def brought(self) -> tuple[str, ...]:
        """The kernels the run was given by a string."""
        return tuple(self.header["settings"].get("brought", ()))

    def cells(self, suite: str, known: Mapping[str, Implementation]) -> list[Cell]:
        """The cells of one suite that are not done yet, in the plan's order.

        Raises:
            ValueError: the plan names an implementation that is not here.
        """
        left = []
        for entry in self.header["plan"]:
            if entry["suite"] != suite or entry["cell"] in self.done or entry is self.crashed:
                continue
            name = entry["implementation"]
            if name not in known:
                raise ValueError(f'run {self.path.name} measures "{name}", which is not here')
            problem = Problem.from_json(entry["problem"])
            where = (entry["pass"], entry["cache"], entry["clock"], suite, entry["series"])
            left.append(Cell(known[name], problem, *where))
        return left

    def plan_for(self, cells: Sequence[Cell], key: str) -> dict[str, Planned]:
        """The run's own decisions for `cells`, by key.

        Raises:
            ValueError: this is not the machine the run was measured on.
        """
        if self.header["machine_key"] != key:
            raise ValueError(
                f"run {self.path.name} was measured on machine {self.header['machine_key']} and "
                f"this is {key}: start a new run"
            )
        decided = {entry["cell"]: entry for entry in self.header["plan"]}
        plan = {}
        for cell in cells:
            entry = decided[cell.key]
            plan[cell.key] = Planned(
                cell, entry["decision"], entry["reason"], entry["estimate_s"] or 0.0
            )
        return plan


def resume(runs: Path, name: str) -> Resumed:
    """The run called `name` under the folder `runs`, or the one at a path.

    Raises:
        ValueError: there is none; the message lists the newest ones.
    """
    if name == "latest":
        made = {p: _made(p) for p in runs.glob(f"*/*/{RUN}")}
        name = max(made, key=lambda p: made[p]).parent.name if made else name
    path = Path(name)
    if not (path / RUN).is_file():
        found = sorted(runs.glob(f"*/{name}*/{RUN}"))
        if len(found) != 1:
            newest = sorted((p.parent.name for p in runs.glob(f"*/*/{RUN}")), reverse=True)[:5]
            known = f"; the newest are {', '.join(newest)}" if newest else f"; none in {runs}"
            count = "no run" if not found else f"{len(found)} runs"
            raise ValueError(f'--resume: {count} called "{name}"{known}')
        path = found[0].parent
    header = _header(path)
    journal = path / CELLS
    lines = _text(journal).splitlines() if journal.exists() else []
    records = [record for line in lines if (record := _record(line))]
    # A cell that was looked at again has several lines: the last one counts.
    latest = {record["cell"]: record for record in records}
    done = frozenset(latest)
    counts = Counter(str(record.get("status")) for record in latest.values())
    running = path / RUNNING
    lost = _record(_text(running)) if running.exists() else None
    crashed = (e for e in header["plan"] if lost and e["cell"] == lost["cell"])
    return Resumed(
        path, header, done, counts, next((e for e in crashed if e["cell"] not in done), None)
    )


def _made(path: Path) -> str:
    """When a run was made, as its header says; a header that cannot be read is the oldest."""
    header = _record(_text(path), needed=("created_utc",)) or {}
    return str(header.get("created_utc", ""))


def _header(path: Path) -> dict[str, Any]:
    """What run.json says.

    Raises:
        ValueError: it is not the run.json of this schema version.
    """
    header = _record(_text(path / RUN), needed=("machine_key", "settings", "plan"))
    if header is None or header.get("schema") != 1:
        raise ValueError(f"{path / RUN} is no run of schema version 1: it cannot be resumed")
    return header


def _record(text: str, needed: tuple[str, ...] = ("cell",)) -> dict[str, Any] | None:
    """The JSON object of a line or file; None when it is cut off, or another one."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) and set(needed) <= set(found) else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
