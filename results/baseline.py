"""The accepted times of one machine, `results/baselines/<machine-key>/<suite>.json`, as a side.

One number a launch and cell, of at least twenty launches, with environment, settings and commit.
`oldest/<suite>.json` beside it is the first one of all: what small steps add up to is told by it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from results.comparable import IGNORED
from results.reading import Place, SchemaError, parse_strict, read_record
from results.run import Header, read_header
from results.schema import SCHEMA_VERSION, check_version
from results.side import Side, SideCell

FOLDER = Path(__file__).parent / "baselines"
OLDEST = "oldest"
KIND = "times"


@dataclass(frozen=True)
class _Row:
    """One cell of a file: its times in the order of the file's launches, null where it has none."""

    implementation: str
    problem: str
    pass_: str
    cache: str
    clock: str
    times_s: tuple[float | None, ...]
    counters: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Baseline:
    suite: str
    launches: tuple[str, ...]
    cells: tuple[_Row, ...]


def files(folder: Path, machine_key: str, *, oldest: bool = False) -> list[Path]:
    """The baselines of a machine, one a suite."""
    place = folder / machine_key / OLDEST if oldest else folder / machine_key
    return sorted(place.glob("*.json"))


def machines(folder: Path) -> list[str]:
    """The machine keys that have a baseline."""
    return sorted({file.parent.name for file in folder.glob("*/*.json")})


def read_baseline(file: Path) -> Side:
    """The side that a file holds.

    Raises:
        SchemaError: it does not say what it should.
        OSError: it cannot be read.
    """
    place = Place(str(file))
    try:
        value = parse_strict(file.read_text(encoding="utf-8"), place)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"{place}: not JSON: {error}") from None
    check_version(value, place)
    if value.get("kind") != KIND:
        raise SchemaError(f'{place.at("kind")}: expected "{KIND}": this is no baseline of times')
    header = read_header(value.get("header"), place.at("header"))
    read = read_record(_Baseline, value, place)
    cells = [_cell(row, read, place) for row in read.cells]
    return Side(str(file), (header,), read.launches, {cell.key: cell for cell in cells})


def joined(sides: Sequence[Side]) -> Side:
    """Several suites' baselines as one side: they share no cell."""
    launches = dict.fromkeys(launch for one in sides for launch in one.launches)
    return Side(
        ", ".join(one.name for one in sides),
        tuple(header for one in sides for header in one.headers),
        tuple(launches),
        {key: cell for one in sides for key, cell in one.cells.items()},
    )


def of_suite(side: Side, suite: str) -> Side:
    """The cells of one suite."""
    cells = {key: cell for key, cell in side.cells.items() if cell.suite == suite}
    return replace(side, cells=cells)


def write_baseline(file: Path, side: Side, suite: str) -> None:
    """Write one suite of a side, by temporary file and rename.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.write_text(baseline_text(side, suite), encoding="utf-8")
    unfinished.replace(file)


def baseline_text(side: Side, suite: str) -> str:
    """The file's text: a cell a line, so that a change is a change of its lines in review."""
    header = side.headers[0]
    head = {
        "schema": SCHEMA_VERSION,
        "kind": KIND,
        "suite": suite,
        "runs": sorted({launch.split("#")[0] for launch in side.launches}),
        "header": _header_record(header),
        "launches": list(side.launches),
    }
    rows = [_dumped(_row_record(cell, side.launches)) for cell in _sorted(of_suite(side, suite))]
    body = ",\n".join(f"  {row}" for row in rows)
    opening = _dumped(head, indent=1).removesuffix("\n}")
    return f'{opening},\n "cells": [\n{body}\n ]\n}}\n'


def _sorted(side: Side) -> list[SideCell]:
    return sorted(side.cells.values(), key=lambda cell: cell.name)


def _header_record(header: Header) -> dict[str, Any]:
    """What a comparison asks of a run; not where it lay nor on which host."""
    return {
        "schema": SCHEMA_VERSION,
        **{
            name: getattr(header, name)
            for name in ("run", "created_utc", "machine_key", "device", "commit", "dirty")
        },
        "environment": {k: v for k, v in header.environment.items() if k not in IGNORED},
        "settings": dict(header.settings.all),
    }


def _row_record(cell: SideCell, launches: Sequence[str]) -> dict[str, Any]:
    times = tuple(cell.times_s.get(launch) for launch in launches)
    row = _Row(*cell.key, times_s=times, counters=cell.counters)
    return {name.removesuffix("_"): value for name, value in asdict(row).items()}


def _cell(row: _Row, read: _Baseline, place: Place) -> SideCell:
    key = (row.implementation, row.problem, row.pass_, row.cache, row.clock)
    pairs = zip(read.launches, row.times_s, strict=True)
    times = {launch: time for launch, time in pairs if time is not None}
    if any(not time > 0 for time in times.values()):
        raise SchemaError(f"{place}: {' '.join(key)} has a time that is not positive")
    statuses = {"ok": len(times)}
    return SideCell(key, " ".join(key), read.suite, times, statuses, counters=row.counters)


def _dumped(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
