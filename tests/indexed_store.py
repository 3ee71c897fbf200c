"""Small stores for the tests of their index, and what may be asked of one with it and without."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from impls.interface.problem import Problem
from results import index, store
from results.store import list_runs, without_parts
from results.timed_runs import timed_runs
from tests.fake_cells import cell
from tests.fake_run import write_run

PROBLEMS = [Problem.parse(f"T={T},H=4,d_h=40") for T in (63, 64)]


def everything(where: Path) -> tuple:
    """All that an index may be asked of, of all cells and of some."""
    found = list_runs(where)
    counted = without_parts(found)
    some = timed_runs(where, counted, lambda name: "T=64" in name)
    return found, timed_runs(where, counted, lambda name: True), some


def directly(where: Path) -> tuple:
    """The same out of the runs alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "LEAST_RUNS", sys.maxsize)
        return everything(where)


def settle() -> None:
    time.sleep(0.012)


def fill(where: Path, runs: int = 6) -> list[Path]:
    """Small runs, each with times of its own; one was never finished, of one the process died."""

    def stopped(header: dict) -> None:
        header["finished_utc"] = None

    paths = []
    for n in range(runs):
        records = [cell("naive", p, 0.02 + n / 1000) for p in PROBLEMS[: 2 - n % 2]]
        records.append(cell("chunked", PROBLEMS[0]))
        change = stopped if n % 3 == 1 else None
        created = f"20261129T1930{n:02d}Z"
        paths.append(write_run(where, records=records, created=created, change=change))
    if runs > 1:
        (paths[1] / "running.json").write_text(json.dumps(note()))
    settle()
    return paths


def note(**changes) -> dict:
    """What a process leaves that died in a cell: another has its number now."""
    lost = cell("sdpa_flash", PROBLEMS[0])
    names = ("suite", "series", "cell", "implementation", "pass")
    mine = psutil.Process()
    left = {"problem_id": PROBLEMS[0].id, "pid": mine.pid, "pid_started": mine.create_time() - 3600}
    return {name: lost[name] for name in names} | left | changes


def reads(monkeypatch) -> list[str]:
    """The runs that are read from now on, by name."""
    found: list[str] = []
    read = store.summarize
    monkeypatch.setattr(store, "summarize", lambda run: found.append(run.name) or read(run))
    return found
