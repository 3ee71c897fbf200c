"""Where runs are kept, which there are, and a run read whole, with what a crash left of it."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from impls.interface.problem import Problem
from results.journal import read_journal
from results.reading import Place, SchemaError, parse_strict, read_record
from results.run import Header, Planned, Run, Running, read_header
from results.schema import Cell

STORE_VARIABLE = "ATTNBENCH_STORE"
CRASHED = "the process died while measuring it"
# Process creation times are read from clock ticks, 1/100 s, and written as decimal numbers.
SAME_PROCESS_S = 1.0


class RunNotFound(LookupError):
    """No run is called so, or several are; the message says which there are."""


@dataclass(frozen=True)
class RunSummary:
    """One line of a list of runs; if `error` says why it cannot be read, the rest is unknown."""

    path: Path
    name: str
    machine_key: str
    header: Header | None = None
    state: str = "unreadable"
    counts: dict[str, int] | None = None
    error: str | None = None


def store_folder(chosen: str | Path | None = None) -> Path:
    """The folder of runs: `chosen`, else $ATTNBENCH_STORE, else `runs` beside this module.

    Never a matter of the current folder or the Python that runs.
    """
    given = chosen or os.environ.get(STORE_VARIABLE)
    if not given:
        return Path(__file__).parent / "runs"
    # Path.expanduser raises where there is no such user; a shell leaves `~nobody` as it is.
    return Path(os.path.expanduser(given)).absolute()  # noqa: PTH111


def list_runs(store: str | Path | None = None) -> list[RunSummary]:
    """Every run of the store, over all machines, the newest first; unreadable ones last."""
    summaries = [summarize(path) for path in _run_folders(store_folder(store))]
    readable = [s for s in summaries if s.header is not None]
    readable.sort(key=lambda s: (s.header.created_utc if s.header else "", s.name), reverse=True)
    return readable + [s for s in summaries if s.header is None]


def without_parts(summaries: Iterable[RunSummary]) -> list[RunSummary]:
    """The runs that were not merged into another one of them: their cells would count twice."""
    found = list(summaries)
    parts = {(s.machine_key, p.run) for s in found if s.header for p in s.header.merged}
    return [s for s in found if (s.machine_key, s.name) not in parts]


def summarize(path: Path) -> RunSummary:
    """What a list shows of one run; its plan, which takes twenty times as long, is not read.

    The counts of a finished one are taken from its header.
    """
    name, machine_key = path.name, path.parent.name
    try:
        header = _header(path, is_planned=False)
        if header.finished_utc and header.counts and not (path / "running.json").exists():
            state = _state(header, None, False)
            return RunSummary(path, name, machine_key, header, state, dict(header.counts))
        run = load_run(path)
        return RunSummary(path, name, machine_key, header, run.state, run.counts)
    except (SchemaError, OSError) as error:
        return RunSummary(path, name, machine_key, error=str(error))


def find_run(
    name: str | Path = "latest",
    store: str | Path | None = None,
    *,
    kind: str | None = None,
    is_meant: Callable[[Header], bool] = lambda header: True,
) -> Path:
    """The folder of the run called so.

    `name` is "latest", a run's name, a beginning of it, `<machine-key>/<name>`, or a path; "latest"
    is of all runs, or of those of one `kind`, "timed" or "static", that `is_meant` says yes to.

    Raises:
        RunNotFound: none is called so, or several; the message offers close names.
    """
    if name == "latest":
        every = without_parts(list_runs(store))
        of_kind = [s for s in every if s.header and kind in (None, s.header.kind)]
        readable = [s for s in of_kind if s.header and is_meant(s.header)]
        if not readable:
            if kind == "static":
                what, command = "static runs", "python -m suites static"
            else:
                what, command = "runs", "make bench"
            told = f"no {what} in {store_folder(store)}: make one with `{command}`"
            if unreadable := [s for s in every if s.error]:
                first = f"{unreadable[0].name}: {unreadable[0].error}"
                told += f" ({len(unreadable)} cannot be read, {first})"
            raise RunNotFound(told)
        return readable[0].path
    if (Path(name) / "run.json").is_file():
        return Path(name).absolute()
    folders = _run_folders(store_folder(store))
    names = {folder: (folder.name, f"{folder.parent.name}/{folder.name}") for folder in folders}
    text = str(name)
    found = [f for f in folders if text in names[f]]
    found = found or [f for f in folders if any(n.startswith(text) for n in names[f])]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(names[f][1] for f in found)
        raise RunNotFound(f'"{text}" is the beginning of {len(found)} runs: {several}')
    raise RunNotFound(_not_found(text, [f.name for f in folders], store_folder(store)))


def load_run(path: str | Path) -> Run:
    """The run in a folder: header, cells and, where the process died, the cell it died in.

    The last line for a cell, launch and series counts. A journal line that cannot be read, cut
    short by a crash for instance, is left out and noted.

    Raises:
        SchemaError: a file does not say what the schema says.
        FileNotFoundError: there is no run.json.
    """
    path = Path(path)
    header = _header(path)
    journal = read_journal(path / "cells.jsonl")
    cells = list(journal.cells)
    running, notes = _running(path / "running.json")
    is_alive = running is not None and is_process(running.pid, running.pid_started)
    finished = {cell.key for cell in cells}
    if running is not None and not is_alive and running.key not in finished:
        cells.append(_crashed(running, header))
    return Run(
        path=path,
        header=header,
        cells=tuple(cells),
        state=_state(header, running, is_alive),
        notes=(*journal.notes, *notes),
        running=running if is_alive else None,
        profiles=journal.profiles,
    )


def is_process(pid: int, started: float | None) -> bool:
    """Whether the process with this pid that was created at `started` is there still.

    Systems use a pid again; `started` (seconds since 1970) tells another process apart.
    """
    try:
        process = psutil.Process(pid)
        created, is_zombie = process.create_time(), process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    return not is_zombie and (started is None or abs(created - started) < SAME_PROCESS_S)


def _run_folders(store: Path) -> list[Path]:
    if store.exists() and not store.is_dir():
        raise RunNotFound(f"{store} is a file: the store is a folder of runs")
    files = [file for name in ("run.json", "cells.jsonl") for file in store.glob(f"*/*/{name}")]
    return sorted({file.parent for file in files})


def _header(path: Path, *, is_planned: bool = True) -> Header:
    value = _load(path / "run.json")
    if not is_planned and isinstance(value, dict):
        value = {**value, "plan": []}
    return read_header(value, Place(str(path / "run.json")))


def _load(file: Path) -> Any:
    place = Place(str(file))
    try:
        return parse_strict(file.read_text(encoding="utf-8"), place)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"{place}: not JSON: {error}") from None


def _running(file: Path) -> tuple[Running | None, tuple[str, ...]]:
    """What is noted as running; a note that cannot be read hides none of what is finished."""
    try:
        return read_record(Running, _load(file), Place(file.name)), ()
    except FileNotFoundError:
        return None, ()
    except SchemaError as error:
        return None, (f"left out: {error}",)


def _crashed(running: Running, header: Header) -> Cell:
    """The row of the cell that the process died in, as the plan describes it."""
    row = (running.cell, running.suite, running.series)
    planned = next((p for p in header.plan if (p.cell, p.suite, p.series) == row), None)
    if planned is None:
        planned = Planned(
            cell=running.cell,
            implementation=running.implementation,
            problem=Problem.parse(running.problem_id),
            pass_=running.pass_,
            cache="unknown",
            clock="unknown",
            suite=running.suite,
            series=running.series,
            decision="run",
        )
    return Cell(
        cell=planned.cell,
        implementation=planned.implementation,
        problem=planned.problem,
        pass_=planned.pass_,
        cache=planned.cache,
        clock=planned.clock,
        settings_version=header.settings.settings_version,
        suite=planned.suite,
        launch=running.launch,
        status="crashed",
        series=planned.series,
        started_utc=running.started_utc,
        reasons=(CRASHED,),
    )


def _state(header: Header, running: Running | None, is_alive: bool) -> str:
    if is_alive:
        return "in progress"
    if running is not None:
        return "crashed"
    if header.interrupted:
        return "interrupted"
    return "finished" if header.finished_utc else "unfinished"


def _not_found(text: str, names: list[str], store: Path) -> str:
    if not names:
        return f'no run "{text}": there are no runs in {store}: make one with `make bench`'
    close = difflib.get_close_matches(text, names, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    newest = sorted(set(names), reverse=True)
    more = f" and {len(newest) - 10} more" if len(newest) > 10 else ""
    return f'no run "{text}" in {store}: {hint}there are: {", ".join(newest[:10])}{more}'
