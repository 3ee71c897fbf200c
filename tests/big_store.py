"""A store of thousands of runs, written fast, and what its commands take.

Runs of one machine, an hour apart, with two hundred cells each: five of six are timed, with fifty
samples, the others are skipped. The times are noise of 1 %; the fourth cell becomes 6 % slower
after three fifths of the runs. Everything is made up but the time that reading it takes.
"""

from __future__ import annotations

import argparse
import datetime
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from impls.interface.problem import Problem
from tests.fake_cells import cell
from tests.fake_run import write_run

MACHINE = "cpu-0123456789ab"
SLOWER = 3
_TIME_S = 0.1234567
_CREATED, _COMMIT = "20250101T000000Z", "abcdefg"
_FIRST = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
CHECKOUT = Path(__file__).parents[1]


def name_of(n: int) -> str:
    """The name of the n-th cell, as the history has it."""
    return f"naive {Problem.parse(f'T={64 + n},H=8,d_h=64').id} forward hot cpu_time"


def is_timed(n: int) -> bool:
    """Whether the n-th cell has a time."""
    return n % 6 != 5


def write_store(store: Path, runs: int, cells: int = 200, first: int = 0) -> None:
    """Write the runs from `first` to `first + runs` below `store`."""
    header, lines = _template(cells)
    for n in range(first, first + runs):
        begun = _FIRST + datetime.timedelta(hours=n)
        path = store / MACHINE / f"{begun:%Y%m%dT%H%M%SZ}-{n:07d}"
        path.mkdir(parents=True)
        text = header.replace(f"{_CREATED}-{_COMMIT}", path.name).replace(_COMMIT, f"{n:07d}")
        text = text.replace("2025-01-01T00:00:00Z", f"{begun:%Y-%m-%dT%H:%M:%SZ}")
        (path / "run.json").write_text(text, encoding="utf-8")
        times = times_of(n, first + runs, cells)
        journal = [repr(time_s).join(parts) for time_s, parts in zip(times, lines, strict=True)]
        (path / "cells.jsonl").write_text("".join(journal), encoding="utf-8")


def _template(cells: int) -> tuple[str, list[list[str]]]:
    """A run's header, and its journal lines split where the time stands; others in one piece."""
    records = [
        cell("naive", Problem.parse(f"T={64 + n},H=8,d_h=64"), _TIME_S if is_timed(n) else None)
        for n in range(cells)
    ]
    for record in records:
        if record["timing"]:
            record["timing"]["q1_s"] = _TIME_S + 1
            record["timing"]["samples_s"] = [_TIME_S + s * 1e-9 for s in range(50)]
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(
            Path(folder), records=records, created=_CREATED, machine_key=MACHINE, commit=_COMMIT
        )
        header = (run / "run.json").read_text(encoding="utf-8")
        lines = (run / "cells.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    return header, [line.split(repr(_TIME_S + 1)) for line in lines]


def times_of(n: int, runs: int, cells: int) -> list[float]:
    """The times of the n-th of so many runs, seconds."""
    times = 1e-3 * np.exp(0.01 * np.random.default_rng(n).standard_normal(cells))
    if n >= 3 * runs // 5:
        times[SLOWER] *= 1.06
    return times.tolist()


def seconds(*command: str, store: Path) -> tuple[float, float, str]:
    """Wall and CPU time of a command in a process of its own, and what it printed."""
    begin, cpu_begin_s = time.perf_counter(), _children_s()
    done = subprocess.run(
        [sys.executable, "-m", *command, "--store", str(store)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return time.perf_counter() - begin, _children_s() - cpu_begin_s, done.stdout


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def commands(cells: int, out: Path) -> dict[str, list[str]]:
    """The commands that are measured, of the cell that became slower, by what they are."""
    one = ["--cells", name_of(min(SLOWER, cells - 1))]
    return {
        "list": ["results", "list"],
        "history of one cell": ["results", "history", *one],
        "its page": ["reports", "history", *one, "--out", str(out)],
        "one run by name": ["results", "show", "latest"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the store if it is not there, and print what each command takes, twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.big_store", description=__doc__)
    parser.add_argument("store", type=Path, metavar="FOLDER", help="made if it is not there")
    parser.add_argument("--runs", type=int, default=10_000, help="default: 10000, 5 GB")
    parser.add_argument("--cells", type=int, default=200, help="default: 200")
    options = parser.parse_args(arguments)
    if not options.store.exists():
        begin = time.perf_counter()
        write_store(options.store, options.runs, options.cells)
        print(f"wrote {options.runs} runs in {time.perf_counter() - begin:.0f} s")
    with tempfile.TemporaryDirectory() as out:
        for turn in ("first", "second", "third"):
            for what, command in commands(options.cells, Path(out)).items():
                took_s, cpu_s, _ = seconds(*command, store=options.store)
                print(f"{turn}: {what}: {took_s:.2f} s, {cpu_s:.2f} s of CPU", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
