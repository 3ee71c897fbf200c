"""A damaged index, and one that cannot be written: no answer changes, and it is made anew."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from results import folders, index
from results.store import list_runs
from tests.indexed_store import directly, everything, fill, reads, settle

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    """An index from the first run on, and files that are left alone after a moment."""
    monkeypatch.setattr(index, "LEAST_RUNS", 0)
    monkeypatch.setattr(folders, "SETTLED_NS", 10_000_000)


def spoilt(file: Path, seed: int) -> None:
    """Overwrite some bytes of the file, all over it, with others."""
    rng = random.Random(seed)
    with file.open("r+b") as index_file:
        size = file.stat().st_size
        for _ in range(rng.choice([1, 3, 30, 300])):
            index_file.seek(rng.randrange(size))
            index_file.write(rng.randbytes(rng.choice([1, 1, 8, 100])))


@pytest.mark.parametrize("seeds", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_flipped_bytes_change_no_answer_and_are_healed(tmp_path, monkeypatch, seeds):
    fill(tmp_path)
    expected = directly(tmp_path)
    everything(tmp_path)
    whole = index.index_file(tmp_path).read_bytes()
    for seed in range(seeds):
        index.index_file(tmp_path).write_bytes(whole)
        spoilt(index.index_file(tmp_path), seed)
        assert everything(tmp_path) == expected, seed
        # What found the file broken made it anew, with what it had read itself.
        everything(tmp_path)
        with monkeypatch.context() as patch:
            read = reads(patch)
            assert everything(tmp_path) == expected and read == [], seed


def other_program(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE summaries (name TEXT, price REAL)")
    connection.execute("INSERT INTO summaries VALUES ('tea', 2.5)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda file: file.write_bytes(b""), id="empty"),
        pytest.param(lambda file: file.write_text("no database\n" * 999), id="text"),
        pytest.param(lambda file: os.truncate(file, 5000), id="cut short"),
        pytest.param(lambda file: file.unlink() or other_program(file), id="another program's"),
        pytest.param(lambda file: file.unlink() or file.symlink_to(file.name), id="link to itself"),
    ],
)
def test_a_file_that_is_no_index_is_made_anew(tmp_path, monkeypatch, spoil):
    fill(tmp_path)
    expected = everything(tmp_path)
    spoil(index.index_file(tmp_path))
    assert everything(tmp_path) == expected
    if not index.index_file(tmp_path).is_symlink():
        read = reads(monkeypatch)
        assert everything(tmp_path) == expected and read == []


def test_where_the_index_cannot_be_written_it_is_said_and_done_without(tmp_path, capsys):
    index.index_file(tmp_path).mkdir()
    fill(tmp_path)
    assert everything(tmp_path) == directly(tmp_path)
    assert "nothing is kept for the next time" in capsys.readouterr().err


def test_the_index_of_another_store_says_nothing(tmp_path):
    fill(tmp_path / "a")
    everything(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copy2)
    for journal in (tmp_path / "b").glob("*/*/cells.jsonl"):
        stat = journal.stat()
        journal.write_text(journal.read_text().replace("0.02", "0.07"))
        os.utime(journal, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    settle()
    assert everything(tmp_path / "b") == directly(tmp_path / "b") != everything(tmp_path / "a")


def child(code: str, *arguments: str, **keywords) -> subprocess.Popen:
    """A process that lists a store with an index from the first run on."""
    command = [sys.executable, "-c", BEGIN + code, *arguments]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, **keywords)


BEGIN = """
from results import folders, index
from results.store import list_runs
index.LEAST_RUNS, folders.SETTLED_NS = 0, 10_000_000
"""
LIST = """
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from results.store import list_runs
from results.timed_runs import timed_runs
found = list_runs(sys.argv[1])
print(len(found), len(timed_runs(Path(sys.argv[1]), found, lambda name: True)))
"""

KILLED = """
import os, signal, sqlite3
class Killed(sqlite3.Connection):
    def execute(self, statement, *values):
        if statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(statement, *values)
connect = sqlite3.connect
sqlite3.connect = lambda *given, **named: connect(*given, factory=Killed, **named)
"""


def test_a_kill_in_the_middle_of_writing_loses_nothing(tmp_path, monkeypatch):
    fill(tmp_path)
    list_runs(tmp_path)
    expected = directly(tmp_path)
    with child(KILLED + LIST, str(tmp_path)) as killed:
        assert killed.wait() == -signal.SIGKILL
    assert Path(f"{index.index_file(tmp_path)}-journal").exists()
    read = reads(monkeypatch)
    assert everything(tmp_path) == expected and read == []


def test_several_at_once_on_a_new_store_all_answer(tmp_path):
    fill(tmp_path, 12)
    listing = [child(LIST, str(tmp_path)) for _ in range(2)]
    assert [process.communicate()[0] for process in listing] == ["12 12\n"] * 2
    assert everything(tmp_path) == directly(tmp_path)
    connection = sqlite3.connect(index.index_file(tmp_path))
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_full_disk_costs_the_index_and_no_answer(tmp_path):
    fill(tmp_path)

    def nothing_more():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    full = child(LIST, str(tmp_path), preexec_fn=nothing_more, stderr=subprocess.PIPE)
    out, err = full.communicate()
    assert (full.returncode, out) == (0, "6 6\n")
    assert "nothing is kept for the next time" in err


class Killed(ThreadPoolExecutor):
    """A pool of which a process is killed after some runs."""

    def __init__(self, *_: object) -> None:
        super().__init__(1)

    def map(self, function, runs, **_):  # type: ignore[override]  # as it is called here
        yield from map(function, runs[:3])
        raise BrokenProcessPool("one died")


def test_a_reader_that_is_killed_loses_no_run(tmp_path, monkeypatch):
    fill(tmp_path)
    expected = directly(tmp_path)
    monkeypatch.setattr("results.timed_runs._WORTH_A_PROCESS", 1)
    monkeypatch.setattr("results.timed_runs.ProcessPoolExecutor", Killed)
    monkeypatch.setattr("results.timed_runs.os.cpu_count", lambda: 2)
    assert everything(tmp_path) == expected


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_file_that_a_stopped_process_holds_is_waited_for_once(tmp_path, monkeypatch, lock):
    """One in a debugger, or after Ctrl-Z: waiting for it each time would take minutes."""
    paths = fill(tmp_path)
    everything(tmp_path)
    (paths[0] / "cells.jsonl").touch()
    settle()
    monkeypatch.setattr(index, "_WAIT_S", 0.05)
    waited_s: list[float] = []
    connect = sqlite3.connect

    def connecting(*words, **named):
        waited_s.append(named["timeout"])
        return connect(*words, **named)

    holder = connect(index.index_file(tmp_path), isolation_level=None)
    holder.execute(f"BEGIN {lock}")
    monkeypatch.setattr(index.sqlite3, "connect", connecting)
    found = list_runs(tmp_path)
    holder.close()
    assert found == directly(tmp_path)[0]
    failing = waited_s if lock == "EXCLUSIVE" else waited_s[1:]
    assert sum(failing) == 0.05 and len(failing) > 1, waited_s
