"""How much each cell of a machine varies between launches: from unchanged launches, kept in a file.

`results/baselines/<machine-key>/spread/spreads.json`, made by `python -m suites calibrate`. A floor
is at least twice what that does to a ratio, so that a noisy cell is not named for its noise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from results.compare import matrix
from results.gate import smallest_seen
from results.inference import pooled_spread, ratio_error
from results.plan import Plan
from results.reading import Place, SchemaError, parse_strict
from results.schema import SCHEMA_VERSION, check_version
from results.side import Side

KIND = "spreads"
# The share by which neighbours among the sorted launches differ where a cell has two peaks.
_GAP = 1.2
_RATIOS = ("spread_log", "floor", "smallest_seen")


@dataclass(frozen=True)
class Spread:
    """One cell over unchanged launches.

    Attributes:
        spread_log: standard deviation of log times between launches.
        floor: the smallest ratio that will be named, from this alone.
        smallest_seen: the smallest ratio that nine in ten plans find.
        is_two_peaked: a gap of more than 20 % parts its launches: look into that first.
    """

    name: str
    launches: int
    median_s: float
    spread_log: float
    floor: float
    smallest_seen: float
    is_two_peaked: bool


def spreads(side: Side, plan: Plan | None = None) -> list[Spread]:
    """Every cell of two launches or more, the noisiest first."""
    plan = plan or Plan()
    keys = [key for key, cell in side.cells.items() if len(cell.times_s) > 1]
    times = matrix(side, keys)
    logs = pooled_spread([times])
    floors = np.exp(2 * ratio_error(logs, plan.confirm, plan.confirm))
    seen = smallest_seen(logs, np.fmax(floors, 1.03), plan, 1)
    found = []
    for i, key in enumerate(keys):
        column = np.sort(times[~np.isnan(times[:, i]), i])
        found.append(
            Spread(
                side.cells[key].name,
                len(column),
                float(np.median(column)),
                float(logs[i]),
                float(floors[i]),
                float(seen[i]),
                bool((column[1:] / column[:-1]).max() > _GAP),
            )
        )
    return sorted(found, key=lambda one: -one.spread_log)


def file_of(folder: Path, machine_key: str) -> Path:
    """Where a machine's spreads are kept."""
    return folder / machine_key / "spread" / "spreads.json"


def read_spreads(folder: Path, machine_key: str) -> Mapping[str, float]:
    """Standard deviations of log times by cell name; empty where the machine has none.

    Raises:
        SchemaError: the file does not say what it should.
    """
    file = file_of(folder, machine_key)
    if not file.is_file():
        return {}
    place = Place(str(file))
    try:
        value: Any = parse_strict(file.read_text(encoding="utf-8"), place)
    except json.JSONDecodeError as error:
        raise SchemaError(f"{place}: not JSON: {error}") from None
    check_version(value, place)
    cells = value.get("cells")
    if value.get("kind") != KIND or not isinstance(cells, dict):
        raise SchemaError(f'{place}: expected kind "{KIND}" with cells by name')
    return {name: _spread_log(given, place.at(name)) for name, given in cells.items()}


def _spread_log(given: Any, place: Place) -> float:
    """The figure of one cell: alone, as it was written first, or among others."""
    value = given.get("spread_log") if isinstance(given, dict) else given
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{place}: expected the number spread_log, got {given!r}")
    return float(value)


def write_spreads(folder: Path, machine_key: str, found: list[Spread]) -> Path:
    """Keep them as this machine's, beside those of cells not looked at now → the file.

    Raises:
        SchemaError: the file that is there does not say what it should.
        OSError: it cannot be written.
    """
    file = file_of(folder, machine_key)
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(file.read_text("utf-8"))["cells"] if read_spreads(folder, machine_key) else {}
    cells = kept | {one.name: _record(one) for one in found}
    value = {"schema": SCHEMA_VERSION, "kind": KIND, "cells": dict(sorted(cells.items()))}
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(file)
    return file


def _record(one: Spread) -> dict[str, Any]:
    """What the file says of a cell: with what it was told by."""
    record = asdict(one)
    del record["name"]
    return {k: round(v, 6) if k in _RATIOS else v for k, v in record.items()}
