"""The index of a store: whatever happens to it or to the runs, the answers are the runs'."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results import folders, index
from results.store import list_runs
from tests.fake_cells import cell
from tests.fake_run import write_run
from tests.indexed_store import PROBLEMS, directly, everything, fill, note, reads, settle

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    """An index from the first run on, and files that are left alone after a moment."""
    monkeypatch.setattr(index, "LEAST_RUNS", 0)
    monkeypatch.setattr(folders, "SETTLED_NS", 10_000_000)


def test_what_is_known_is_not_read_again(tmp_path, monkeypatch):
    paths = fill(tmp_path)
    first = everything(tmp_path)
    assert first == directly(tmp_path)
    read = reads(monkeypatch)
    monkeypatch.setattr("results.timed_runs.read_journal", None)
    assert everything(tmp_path) == first and read == []
    (paths[3] / "cells.jsonl").write_text("")
    monkeypatch.undo()
    assert everything(tmp_path) == directly(tmp_path) != first


def test_only_what_changed_is_read(tmp_path, monkeypatch):
    paths = fill(tmp_path)
    everything(tmp_path)
    (paths[2] / "running.json").write_text("{}")
    shutil.rmtree(paths[4])
    new = write_run(tmp_path, created="20270101T000000Z")
    settle()
    read = reads(monkeypatch)
    list_runs(tmp_path)
    assert sorted(read) == sorted([paths[2].name, new.name])
    with closing(sqlite3.connect(index.index_file(tmp_path))) as base:
        kept = {os.fsdecode(run) for (run,) in base.execute("SELECT run FROM summaries")}
    assert kept == {f"{path.parent.name}/{path.name}" for path in tmp_path.glob("*/*")}


def test_a_process_that_dies_changes_what_a_list_says_and_no_file(tmp_path):
    paths = fill(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        left = note(pid=living.pid, pid_started=psutil.Process(living.pid).create_time())
        (paths[0] / "running.json").write_text(json.dumps(left))
        settle()
        for _ in range(2):
            assert state_of(paths[0]) == "in progress"
        living.kill()
    assert state_of(paths[0]) == "crashed"


def state_of(run: Path) -> str:
    return next(s.state for s in list_runs(run.parents[1]) if s.path == run)


def test_a_store_of_few_runs_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LEAST_RUNS", 7)
    fill(tmp_path)
    everything(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"cpu-0123456789ab"}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "remove", "journal", "header", "running", "copy", "rename", "garbage", "ask"]
        ),
        st.integers(0, 9),
        st.booleans(),
    ),
    max_size=8,
)


def step(where: Path, what: str, which: int, serial: int) -> None:
    """Do one thing to one of the runs, in place where a program would do it in place."""
    runs = sorted(path for path in where.glob("*/*") if path.is_dir())
    if what == "add" or not runs:
        made = [cell("naive", problem, 0.02 + serial / 1000) for problem in PROBLEMS]
        machine = f"machine-{which % 2}"
        write_run(where, records=made, created=f"2026112{which}T{serial:06d}Z", machine_key=machine)
        return
    run = runs[which % len(runs)]
    if what == "remove":
        shutil.rmtree(run)
    elif what == "journal":
        with (run / "cells.jsonl").open("r+b") as file:
            text = file.read()
            file.seek(0)
            # As long as before.
            file.write(text.replace(b"0.02", b"0.03") if serial % 2 else text[:-40] + b"\n" * 40)
    elif what == "header":
        header = (run / "run.json").read_bytes()
        altered = header.replace(b'"finished_utc": "', b'"finished_utc": null, "x": "')
        (run / "run.json").write_bytes(altered)
    elif what == "running":
        left = note(pid=os.getpid(), pid_started=None) if serial % 2 else note()
        (run / "running.json").write_text(json.dumps(left))
    elif what == "copy":
        shutil.copytree(run, run.with_name(f"{run.name}-copy-{serial}"))
    elif what == "rename":
        run.rename(run.with_name(f"renamed-{serial}"))
    elif what == "garbage":
        (run / "run.json").write_bytes(b'{"schema": 1, \xff')


def compare_after(steps: list[tuple[str, int, bool]]) -> None:
    """Do these things to a store and ask for everything with its index and without."""
    with TemporaryDirectory() as folder:
        where = Path(folder)
        fill(where, 3)
        for serial, (what, which, is_asked) in enumerate(steps):
            if what != "ask":
                step(where, what, which, serial)
            if is_asked:
                # Asked at once, while what was written may change within a tick of the clock.
                everything(where)
        settle()
        assert everything(where) == directly(where)
        assert everything(where) == directly(where)


@settings(max_examples=8)
@given(STEPS)
def test_the_index_and_the_runs_say_the_same_whatever_is_done_to_the_runs(steps):
    compare_after(steps)


@pytest.mark.slow
@settings(max_examples=200)
@given(STEPS)
def test_the_index_and_the_runs_say_the_same_whatever_is_done_often(steps):
    compare_after(steps)


def test_what_other_code_kept_says_nothing_and_is_deleted_when_it_is_old(tmp_path, monkeypatch):
    fill(tmp_path)
    everything(tmp_path)
    mine = index.index_file(tmp_path)
    read = reads(monkeypatch)
    monkeypatch.setattr(index, "_code", lambda: b"another")
    list_runs(tmp_path)
    assert len(read) == 6 and mine.exists() and index.index_file(tmp_path) != mine
    os.utime(mine, (1.0, 1.0))
    monkeypatch.setattr(index, "_code", lambda: b"a third")
    list_runs(tmp_path)
    assert not mine.exists() and len(list(tmp_path.glob("index*"))) == 2


def test_a_file_that_changed_a_moment_ago_is_read_again(tmp_path, monkeypatch):
    """Within one tick of a file system's clock a file changes twice and shows it once."""
    monkeypatch.setattr(folders, "SETTLED_NS", 60_000_000_000)
    fill(tmp_path)
    list_runs(tmp_path)
    read = reads(monkeypatch)
    list_runs(tmp_path)
    assert len(read) == 6


def test_the_code_that_makes_rows_is_all_that_python_imports_for_it():
    code = "import sys, results.summary, results.timed_runs\n"
    code += "print([getattr(m, '__file__', None) for m in sys.modules.values()])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    files = {Path(file) for file in ast.literal_eval(done.stdout) if file}
    ours = {file.relative_to(CHECKOUT) for file in files if CHECKOUT in file.parents}
    made = {str(file) for file in ours if file.parts[0] in ("impls", "results")}
    made = {file for file in made if not file.endswith("__init__.py")}
    assert made == index.sources(CHECKOUT)
