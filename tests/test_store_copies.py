"""Runs that are there twice, links, names that are no text: what is listed and what counts."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from impls.interface.problem import Problem
from results import folders, index
from results.__main__ import main
from results.store import find_run, list_runs, without_parts
from tests.fake_cells import cell
from tests.indexed_store import directly, everything, fill, reads, settle

PROBLEM = Problem.parse("T=63,H=4,d_h=40")


@pytest.fixture(params=[0, 1000], ids=["index", "no index"])
def with_and_without_an_index(request, monkeypatch):
    monkeypatch.setattr(index, "LEAST_RUNS", request.param)
    monkeypatch.setattr(folders, "SETTLED_NS", 10_000_000)


def counted(where: Path) -> list[str]:
    """The runs whose cells count, by the names of their folders, of whatever is known of them."""
    settle()
    list_runs(where)
    return sorted(summary.name for summary in without_parts(list_runs(where)))


@pytest.mark.usefixtures("with_and_without_an_index")
@pytest.mark.parametrize("copy", ["a-copy", "zz-copy"])
def test_a_copy_of_a_run_counts_once_and_the_one_with_its_own_name(run_directory, copy):
    path = run_directory()
    shutil.copytree(path, path.with_name(copy))
    assert len(list_runs(path.parents[1])) == 2
    assert counted(path.parents[1]) == [path.name]


@pytest.mark.usefixtures("with_and_without_an_index")
def test_of_a_run_and_a_copy_from_before_its_end_the_whole_one_counts(run_directory):
    path = run_directory()
    copy = Path(shutil.copytree(path, path.with_name("from-before")))
    lines = (copy / "cells.jsonl").read_text().splitlines(keepends=True)
    (copy / "cells.jsonl").write_text("".join(lines[:5]) + lines[5][:30])
    assert counted(path.parents[1]) == [path.name]
    # Whatever they are called.
    path.rename(path.with_name("moved"))
    copy.rename(path)
    assert counted(path.parents[1]) == ["moved"]


@pytest.mark.usefixtures("with_and_without_an_index")
def test_two_runs_of_one_second_and_one_commit_both_count(run_directory):
    """Two hosts of one kind begin together, and their stores are put together later."""
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    other = path.rename(path.with_name("other-host"))
    path = run_directory(records=[cell("naive", PROBLEM, 0.03)])
    assert counted(path.parents[1]) == sorted([path.name, other.name])


@pytest.mark.usefixtures("with_and_without_an_index")
def test_a_link_to_a_run_is_the_run_and_a_link_in_a_circle_is_nothing(run_directory, tmp_path):
    path = run_directory()
    store = path.parents[1]
    elsewhere = path.rename(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    (path.parent / "again").symlink_to(elsewhere)
    (path.parent / "circle").symlink_to("circle")
    (store / "circle").symlink_to("circle")
    (store / "broken").symlink_to("nowhere")
    assert [s.name for s in list_runs(store)] == sorted([path.name, "again"], reverse=True)
    assert counted(store) == [path.name]


@pytest.mark.usefixtures("with_and_without_an_index")
def test_a_name_that_is_no_text_is_listed_in_escapes(run_directory, capsys):
    path = run_directory()
    store = path.parents[1]
    path.rename(os.fsdecode(os.fsencode(path.parent) + b"/run-\xff"))
    for _ in range(2):
        settle()
        assert main(["list", "--store", str(store)]) == 0
        assert r"run-\udcff" in capsys.readouterr().out
        assert main(["list", "--json", "--store", str(store)]) == 0
        assert r'"run": "run-\udcff"' in capsys.readouterr().out
    (found,) = list_runs(store)
    assert find_run("run-", store) == found.path and found.header is not None


@pytest.mark.usefixtures("with_and_without_an_index")
def test_a_machine_that_was_renamed_keeps_its_runs(run_directory):
    path = run_directory()
    machine = path.parent.rename(path.parents[1] / "my laptop")
    assert find_run(f"my laptop/{path.name}", path.parents[1]) == machine / path.name
    (summary,) = list_runs(path.parents[1])
    assert summary.header is not None
    assert (summary.machine_key, summary.header.machine_key) == ("my laptop", "cpu-0123456789ab")


def test_files_of_a_clock_that_goes_ahead_are_read_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LEAST_RUNS", 0)
    monkeypatch.setattr(folders, "SETTLED_NS", 10_000_000)
    paths = fill(tmp_path)
    tomorrow = time.time() + 86_400
    os.utime(paths[2] / "cells.jsonl", (tomorrow, tomorrow))
    assert everything(tmp_path) == directly(tmp_path)
    read = reads(monkeypatch)
    assert everything(tmp_path) == directly(tmp_path)
    assert read.count(paths[2].name) == 2 and read.count(paths[3].name) == 1
