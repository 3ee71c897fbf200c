"""What an index of a big store costs in each of several formats: `python -m tests.store_formats`.

Every format holds the same: of each run a summary, as text, and of each of its cells a name and a
time. Measured are the file, the time to write it, to add one run more, to read all summaries, and
to read one cell's time of every run, each with the file opened anew, the best of three, on the
wall. A format whose library is not installed is left out by name.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.big_store import name_of, times_of

SLOWER = 3


class OneRun(NamedTuple):
    """What is kept of a run."""

    name: str
    summary: str
    times_s: list[float]


class JsonLines:
    """A line a run, names and all."""

    title, library = "JSON lines, a line a run", "json"

    @staticmethod
    def add(file: Path, runs: Iterable[OneRun], names: Sequence[str]) -> None:
        with file.open("a", encoding="utf-8") as lines:
            for run in runs:
                cells = dict(zip(names, run.times_s, strict=True))
                lines.write(json.dumps([run.name, run.summary, cells]) + "\n")

    @staticmethod
    def summaries(file: Path) -> list[Any]:
        with file.open(encoding="utf-8") as lines:
            return [json.loads(line)[:2] for line in lines]

    @staticmethod
    def series(file: Path, name: str) -> list[float]:
        with file.open(encoding="utf-8") as lines:
            return [json.loads(line)[2][name] for line in lines]


class SqliteRuns:
    """A row a run, its times in one value; the names once. This is `results.index`."""

    title, library = "SQLite, a row a run", "sqlite3"

    @staticmethod
    def add(file: Path, runs: Iterable[OneRun], names: Sequence[str]) -> None:
        with closing(sqlite3.connect(file)) as base, base:
            base.execute("CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, summary TEXT)")
            base.execute("CREATE TABLE IF NOT EXISTS times (run TEXT PRIMARY KEY, times BLOB)")
            base.execute("CREATE TABLE IF NOT EXISTS names (names TEXT PRIMARY KEY)")
            base.execute("INSERT OR REPLACE INTO names VALUES (?)", ["\n".join(names)])
            every = list(runs)
            base.executemany("INSERT INTO runs VALUES (?, ?)", [run[:2] for run in every])
            times = [(run.name, array("d", run.times_s).tobytes()) for run in every]
            base.executemany("INSERT INTO times VALUES (?, ?)", times)

    @staticmethod
    def summaries(file: Path) -> list[Any]:
        with closing(sqlite3.connect(file)) as base:
            return base.execute("SELECT run, summary FROM runs").fetchall()

    @staticmethod
    def series(file: Path, name: str) -> list[float]:
        with closing(sqlite3.connect(file)) as base:
            (names,) = base.execute("SELECT names FROM names").fetchone()
            at = names.split("\n").index(name)
            return [array("d", times)[at] for (times,) in base.execute("SELECT times FROM times")]


class SqliteCells:
    """A row a cell, in the order of its cell."""

    title, library = "SQLite, a row a cell", "sqlite3"

    @staticmethod
    def add(file: Path, runs: Iterable[OneRun], names: Sequence[str]) -> None:
        with closing(sqlite3.connect(file)) as base, base:
            base.execute("CREATE TABLE IF NOT EXISTS runs (run INTEGER PRIMARY KEY, name, summary)")
            base.execute("CREATE TABLE IF NOT EXISTS cells (cell INTEGER PRIMARY KEY, name)")
            base.execute(
                "CREATE TABLE IF NOT EXISTS times "
                "(cell INTEGER, run INTEGER, time_s REAL, PRIMARY KEY (cell, run)) WITHOUT ROWID"
            )
            base.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?)", enumerate(names))
            for run in runs:
                added = base.execute("INSERT INTO runs (name, summary) VALUES (?, ?)", run[:2])
                rows = [(n, added.lastrowid, time_s) for n, time_s in enumerate(run.times_s)]
                base.executemany("INSERT INTO times VALUES (?, ?, ?)", rows)

    @staticmethod
    def summaries(file: Path) -> list[Any]:
        with closing(sqlite3.connect(file)) as base:
            return base.execute("SELECT name, summary FROM runs").fetchall()

    @staticmethod
    def series(file: Path, name: str) -> list[float]:
        query = "SELECT time_s FROM cells JOIN times USING (cell) WHERE name = ? ORDER BY run"
        with closing(sqlite3.connect(file)) as base:
            return [time_s for (time_s,) in base.execute(query, [name])]


class Parquet:
    """Two tables, in one folder; a run more is both written anew: a file cannot be added to."""

    title, library = "Parquet, a row a cell", "pyarrow.parquet"

    @staticmethod
    def add(file: Path, runs: Iterable[OneRun], names: Sequence[str]) -> None:
        import pyarrow
        from pyarrow import parquet

        every = list(runs)
        tables = {
            "runs": pyarrow.table(
                {"run": [r.name for r in every], "summary": [r[1] for r in every]}
            ),
            "times": pyarrow.table(
                {
                    "run": pyarrow.array(
                        [r.name for r in every for _ in names]
                    ).dictionary_encode(),
                    "cell": pyarrow.array([*names] * len(every)).dictionary_encode(),
                    "time_s": [time_s for run in every for time_s in run.times_s],
                }
            ),
        }
        file.mkdir(exist_ok=True)
        for name, table in tables.items():
            path = file / f"{name}.parquet"
            if path.exists():
                before = parquet.read_table(path).cast(table.schema)
                table = pyarrow.concat_tables([before, table]).unify_dictionaries()
            parquet.write_table(table, path)

    @staticmethod
    def summaries(file: Path) -> list[Any]:
        from pyarrow import parquet

        table = parquet.read_table(file / "runs.parquet")
        return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]

    @staticmethod
    def series(file: Path, name: str) -> list[float]:
        from pyarrow import parquet

        path = file / "times.parquet"
        table = parquet.read_table(path, columns=["time_s"], filters=[("cell", "==", name)])
        return table.column("time_s").to_pylist()


class DuckDb:
    """Two tables of one file."""

    title, library = "DuckDB, a row a cell", "duckdb"

    @staticmethod
    def add(file: Path, runs: Iterable[OneRun], names: Sequence[str]) -> None:
        import pandas

        duckdb = importlib.import_module("duckdb")

        every = list(runs)
        summaries = pandas.DataFrame([run[:2] for run in every], columns=["run", "summary"])
        times = pandas.DataFrame(
            {
                "run": [run.name for run in every for _ in names],
                "cell": [*names] * len(every),
                "time_s": [time_s for run in every for time_s in run.times_s],
            }
        )
        with duckdb.connect(str(file)) as base:
            base.register("new_summaries", summaries)
            base.register("new_times", times)
            base.execute("CREATE TABLE IF NOT EXISTS runs (run VARCHAR, summary VARCHAR)")
            base.execute(
                "CREATE TABLE IF NOT EXISTS times (run VARCHAR, cell VARCHAR, time_s DOUBLE)"
            )
            base.execute("INSERT INTO runs SELECT * FROM new_summaries")
            base.execute("INSERT INTO times SELECT * FROM new_times")

    @staticmethod
    def summaries(file: Path) -> list[Any]:
        duckdb = importlib.import_module("duckdb")

        with duckdb.connect(str(file), read_only=True) as base:
            return base.execute("SELECT run, summary FROM runs").fetchall()

    @staticmethod
    def series(file: Path, name: str) -> list[float]:
        duckdb = importlib.import_module("duckdb")

        query = "SELECT time_s FROM times WHERE cell = ? ORDER BY run"
        with duckdb.connect(str(file), read_only=True) as base:
            return [time_s for (time_s,) in base.execute(query, [name]).fetchall()]


FORMATS = (JsonLines, SqliteRuns, SqliteCells, Parquet, DuckDb)


def made_up(first: int, runs: int, cells: int) -> list[OneRun]:
    """Runs as an index keeps them, `first` and on."""
    summary = json.dumps({"state": "finished", "counts": {"ok": cells}, "header": "x" * 250})
    return [
        OneRun(f"cpu-0123456789ab/run-{n:07d}", summary, times_of(n, first + runs, cells))
        for n in range(first, first + runs)
    ]


def measured(form: Any, file: Path, runs: Sequence[OneRun], more: Sequence[OneRun]) -> list[float]:
    """Bytes, and seconds to write, to add a run, to read summaries and one cell, to import."""
    names = [name_of(n) for n in range(len(runs[0].times_s))]
    written_s = _best(lambda: form.add(file, runs, names), 1)
    added = iter(more)
    added_s = _best(lambda: form.add(file, [next(added)], names), len(more))
    listed_s = _best(lambda: form.summaries(file))
    series_s = _best(lambda: form.series(file, names[SLOWER]))
    every = [*runs, *more]
    assert sorted(row[0] for row in form.summaries(file)) == [run.name for run in every]
    assert form.series(file, names[SLOWER]) == [run.times_s[SLOWER] for run in every]
    size = sum(f.stat().st_size for f in [file, *file.glob("*")] if f.is_file())
    return [size, written_s, added_s, listed_s, series_s, _import_s(form.library)]


def _best(do: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        do()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def _import_s(library: str) -> float:
    """Seconds that a new Python takes longer for the library, which every command would."""

    def start(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    return max(0.0, _best(start(f"import {library}")) - _best(start("pass")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.store_formats", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="default: 10000")
    parser.add_argument("--cells", type=int, default=200, help="default: 200")
    options = parser.parse_args(arguments)
    runs = made_up(0, options.runs, options.cells)
    more = made_up(options.runs, 3, options.cells)
    print("| format | MB | write, s | add a run, ms | list, ms | one cell, ms | import, ms |")
    print("|---|---|---|---|---|---|---|")
    for form in FORMATS:
        try:
            importlib.import_module(form.library)
        except ImportError:
            print(f"{form.title}: pip install {form.library.split('.')[0]}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            size, written_s, *rest = measured(form, Path(folder) / "index", runs, more)
        columns = [f"{size / 1e6:.0f}", f"{written_s:.1f}", *(f"{1e3 * s:.0f}" for s in rest)]
        print(f"| {form.title} | {' | '.join(columns)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
