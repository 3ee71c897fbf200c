"""One run out of shards of it, or of launches: each row once, and where each came from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.comparable import Reason, blocking, comparable
from results.reading import Place, SchemaError, parse_strict
from results.run import Run, count_statuses
from results.schema import SCHEMA_VERSION, Cell, read_cell
from results.shards import missing, told_shards
from results.static_profile import is_static, read_static
from results.store import load_run

_ROW = ("cell", "launch", "suite", "series")
_PLANNED = ("cell", "suite", "series")
# How far up its sizes a sweep goes: a matter of taste between runs, not between its own shards.
_OF_A_SWEEP = ("budget", "seconds")
# Of the shards that are not there so many are named.
_TOLD = 10
_OF_A_PART = ("run", "created_utc", "finished_utc", "shard", "command", "ceilings")


class NotOneRun(ValueError):
    """Runs of other devices, methods or commits: their times may not stand in one table."""

    def __init__(self, one: Run, other: Run, reasons: Sequence[Reason]) -> None:
        """`reasons` forbid it."""
        self.reasons = tuple(reasons)
        fields = "; ".join(reason.text for reason in reasons)
        super().__init__(f"{one.name} and {other.name} are not of one run: {fields}")


@dataclass(frozen=True)
class Merged:
    """The merged run's folder, its counts, the rows that several parts had, and their notes."""

    path: Path
    counts: dict[str, int]
    repeated: int
    notes: tuple[str, ...]


def merge(
    paths: Sequence[Path], into: Path, *, are_launches: bool = False, may_lack: bool = False
) -> Merged:
    """Write one run of these into the new folder `into`.

    A row that several have is the newest run's, whatever the order they are named in; one that
    was skipped yields to one that was not. `are_launches`: none is the same row, each run's
    launches are counted on. `may_lack`: a shard that is not there makes an interrupted run.

    Raises:
        NotOneRun: their times may not stand in one table.
        SchemaError: one cannot be read, or is being measured.
        ValueError: a run is named twice, or a shard is not there, or is one of launches.
        FileExistsError: `into` is there already.
    """
    runs = sorted(map(load_run, paths), key=lambda run: (run.header.created_utc, run.name))
    lacking = _check(runs, are_launches, may_lack)
    if into.exists():
        raise FileExistsError(f"{into} is there already: name another folder with -o")
    first = _first_launches(runs) if are_launches else [1] * len(runs)
    records, repeated = _rows(runs, first)
    into.parent.mkdir(parents=True, exist_ok=True)
    # Deeper than runs lie, whether it is written among them or among machines: no list of runs
    # sees half of one, also where this is killed and the draft stays.
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".merging-") as folder:
        draft = Path(folder) / "draft" / into.name
        draft.mkdir(parents=True)
        lines = [json.dumps(r, allow_nan=False, separators=(",", ":")) + "\n" for r in records]
        (draft / "cells.jsonl").write_text("".join(lines), encoding="utf-8")
        header = _header(runs, into.name)
        header["shard"] = told_shards(runs) if lacking else None
        unmeasured = _unmeasured(header["plan"], records)
        header["interrupted"] = header["interrupted"] or bool(lacking or unmeasured)
        _write(draft / "run.json", header)
        # Counted as a reader counts them: further looks at a cell are lines, not rows.
        read = load_run(draft)
        counts = count_statuses((*read.cells, *read.profiles))
        _write(draft / "run.json", header | {"counts": counts, "launches": max(1, read.launches)})
        draft.rename(into)
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes]
    if unmeasured:
        notes.append(f"{unmeasured} planned cells have no line: the run counts as interrupted")
    return Merged(into, counts, repeated, tuple(notes))


def _check(runs: Sequence[Run], are_launches: bool, may_lack: bool) -> list[str]:
    """Whether they may be one run; → the shards that are not there."""
    names = [run.name for run in runs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is named twice")
    for run in runs:
        if run.state == "in progress":
            raise SchemaError(f"{run.path} is being measured: wait for its end")
        reasons = blocking(comparable(runs[0].header, run.header))
        for name in ("commit", "dirty"):
            one, other = getattr(runs[0].header, name), getattr(run.header, name)
            if one != other:
                reasons.append(Reason(name, one, other, "blocking"))
        if run.header.shard and runs[0].header.shard:
            reasons += _of_two_sweeps(runs[0], run)
        if reasons:
            raise NotOneRun(runs[0], run, reasons)
    lacking = missing(runs)
    if are_launches and told_shards(runs):
        raise ValueError("shards are no launches: merge those of each launch first")
    if lacking and not may_lack:
        more = f" and {len(lacking) - _TOLD} more" if len(lacking) > _TOLD else ""
        raise ValueError(
            f"shard {', '.join(lacking[:_TOLD])}{more} is not there: "
            "name its run too, or type --allow-missing"
        )
    return lacking


def _of_two_sweeps(one: Run, other: Run) -> list[Reason]:
    settings, others = one.header.settings.all, other.header.settings.all
    return [
        Reason(name, settings.get(name), others.get(name), "blocking")
        for name in _OF_A_SWEEP
        if settings.get(name) != others.get(name)
    ]


def _first_launches(runs: Sequence[Run]) -> list[int]:
    """The number that the first launch of each run gets, counted on from the run before it."""
    first = [1]
    for run in runs:
        first.append(first[-1] + max((cell.launch for cell in run.cells), default=0))
    return first[:-1]


def _rows(runs: Sequence[Run], first: Sequence[int]) -> tuple[list[dict[str, Any]], int]:
    """The lines of each row as the run that counts has them; how many rows several had."""
    told = [
        (run.name, record | _launch(record, start))
        for run, start in zip(runs, first, strict=True)
        for record in _records(run)
    ]
    # By run, in the order of their making; the last line says whether it was tried there.
    tried: dict[tuple[Any, ...], dict[str, bool]] = {}
    for name, record in told:
        tried.setdefault(_row(record), {})[name] = record["status"] != "skipped"
    chosen = {row: _newest(of_run) for row, of_run in tried.items()}
    kept = [{"from_run": n} | record for n, record in told if n == chosen[_row(record)]]
    return kept, sum(len(of_run) > 1 for of_run in tried.values())


def _newest(of_run: dict[str, bool]) -> str:
    tried = [name for name, is_tried in of_run.items() if is_tried]
    return (tried or list(of_run))[-1]


def _launch(record: dict[str, Any], first: int) -> dict[str, int]:
    return {"launch": first - 1 + record["launch"]} if "launch" in record else {}


def _row(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in _ROW)


def _records(run: Run) -> Iterator[dict[str, Any]]:
    """The readable lines of a journal as they stand, and the cell that the process died in."""
    seen: set[tuple[Any, ...]] = set()
    file = run.path / "cells.jsonl"
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    for number, line in enumerate(text.split("\n"), start=1):
        if record := _read(line, Place(file.name, number)):
            seen.add(_row(record))
            yield record
    for cell in run.cells:
        if cell.status == "crashed" and cell.key not in seen:
            yield _died_in(cell)


def _read(line: str, place: Place) -> dict[str, Any] | None:
    """A line's record; None where a reader leaves it out too, and its run's notes say so."""
    try:
        record = parse_strict(line, place)
        read_static(record, place) if is_static(record) else read_cell(record, place)
    except (json.JSONDecodeError, SchemaError):
        return None
    return record


def _died_in(cell: Cell) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "cell": cell.cell,
        "implementation": cell.implementation,
        "problem": cell.problem.to_json(),
        "pass": cell.pass_,
        "cache": cell.cache,
        "clock": cell.clock,
        "suite": cell.suite,
        "series": cell.series,
        "settings_version": cell.settings_version,
        "launch": cell.launch,
        "started_utc": cell.started_utc,
        "status": cell.status,
        "reasons": list(cell.reasons),
        "flags": [],
        "timing": None,
    }


def _header(runs: Sequence[Run], name: str) -> dict[str, Any]:
    """The first run's header with every part's plan, its end, and where each part came from."""
    headers = [json.loads((run.path / "run.json").read_text(encoding="utf-8")) for run in runs]
    plan: dict[tuple[Any, ...], Any] = {}
    for entry in (entry for header in headers for entry in header.get("plan", ())):
        row = tuple(entry.get(n) for n in _PLANNED)
        if row not in plan or plan[row]["decision"] == "skip":
            plan[row] = entry
    ends = [header.get("finished_utc") for header in headers]
    return headers[0] | {
        "run": name,
        "created_utc": max(header["created_utc"] for header in headers),
        "finished_utc": None if None in ends else max(ends),
        "interrupted": any(header.get("interrupted") for header in headers),
        "plan": list(plan.values()),
        "merged": [{k: header.get(k) for k in _OF_A_PART} for header in headers],
    }


def _unmeasured(plan: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> int:
    """How many rows of the plan no line tells of: a part was interrupted, or lines were lost."""
    told = {tuple(record.get(name) for name in _PLANNED) for record in records}
    return sum(tuple(entry.get(name) for name in _PLANNED) not in told for entry in plan)


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, allow_nan=False, indent=1) + "\n", encoding="utf-8")
