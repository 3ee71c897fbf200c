"""A run read whole from its folder, with what a crash left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil

from impls.interface.problem import Problem
from results.journal import Journal, read_journal
from results.reading import Place, SchemaError, parse_strict, read_record
from results.run import Header, Planned, Run, Running, read_header
from results.schema import Cell

RUN, JOURNAL, RUNNING = "run.json", "cells.jsonl", "running.json"
CRASHED = "the process died while measuring it"
# Process creation times are read from clock ticks, 1/100 s, and written as decimal numbers.
SAME_PROCESS_S = 1.0


def load_run(path: str | Path) -> Run:
    """The run in a folder: header, cells and, where the process died, the cell it died in.

    The last line for a cell, launch and series counts. A journal line that cannot be read, cut
    short by a crash for instance, is left out and noted.

    Raises:
        SchemaError: a file does not say what the schema says.
        FileNotFoundError: there is no run.json.
    """
    path = Path(path)
    header = load_header(path)
    journal = read_journal(path / JOURNAL)
    cells = list(journal.cells)
    running, notes = load_running(path)
    is_alive = running is not None and is_process(running.pid, running.pid_started)
    finished = {cell.key for cell in cells}
    if running is not None and not is_alive and running.key not in finished:
        try:
            cells.append(_crashed(running, header))
        except ValueError as error:
            notes = (*notes, f"the cell that the process died in is left out: {error}")
    return Run(
        path=path,
        header=header,
        cells=tuple(cells),
        state=state_of(header, running, is_alive),
        notes=(*(journal.notes or _lost(header, journal)), *notes),
        running=running if is_alive else None,
        profiles=journal.profiles,
    )


def _lost(header: Header, journal: Journal) -> tuple[str, ...]:
    """A note where a run ended with more rows than its journal has now."""
    n_finished = sum(header.counts.values()) if header.finished_utc else 0
    n_read = len(journal.cells) + len(journal.profiles)
    if n_read >= n_finished:
        return ()
    return (f"{JOURNAL} has {n_read} of the {n_finished} rows that the run ended with",)


def load_header(path: Path, *, is_planned: bool = True) -> Header:
    """What run.json says; without its plan, which takes twenty times as long as all the rest.

    Raises:
        SchemaError, OSError: as of `load_run`.
    """
    value = _load(path / RUN)
    if not is_planned and isinstance(value, dict):
        value = {**value, "plan": []}
    return read_header(value, Place(str(path / RUN)))


def load_running(path: Path) -> tuple[Running | None, tuple[str, ...]]:
    """What is noted as running; a note that cannot be read hides none of what is finished."""
    try:
        return read_record(Running, _load(path / RUNNING), Place(RUNNING)), ()
    except FileNotFoundError:
        return None, ()
    except SchemaError as error:
        return None, (f"left out: {error}",)


def is_process(pid: int, started: float | None) -> bool:
    """Whether the process with this pid that was created at `started` is there still.

    Systems use a pid again; `started` (seconds since 1970) tells another process apart.
    """
    try:
        process = psutil.Process(pid)
        created, is_zombie = process.create_time(), process.status() == psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.AccessDenied:
        return True
    return not is_zombie and (started is None or abs(created - started) < SAME_PROCESS_S)


def state_of(header: Header, running: Running | None, is_alive: bool) -> str:
    """How the run ended, or that it goes on: one of the words of `Run.state`."""
    if is_alive:
        return "in progress"
    if running is not None:
        return "crashed"
    if header.interrupted:
        return "interrupted"
    return "finished" if header.finished_utc else "unfinished"


def _load(file: Path) -> Any:
    place = Place(str(file))
    try:
        return parse_strict(file.read_text(encoding="utf-8"), place)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"{place}: not JSON: {error}") from None


def _crashed(running: Running, header: Header) -> Cell:
    """The row of the cell that the process died in, as the plan describes it.

    Raises:
        ValueError: no plan has it, and what was noted names no problem.
    """
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
