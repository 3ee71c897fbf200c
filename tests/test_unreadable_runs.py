"""Garbage in a store hides no run, and a name that is one run's is never another's."""

from __future__ import annotations

import shutil

import pytest

from impls.interface.problem import Problem
from results.store import load_run
from suites.session.run_on_disk import find
from tests.fake_cells import cell

PROBLEM = Problem(B=1, T_q=64, T_kv=64, H=2, d_h=16)


@pytest.mark.parametrize("garbage", ['{"schema":1,"cell":' + 5000 * "9" + "}", 100_000 * "["])
def test_a_line_too_long_or_too_deep_to_read_hides_no_other(run_directory, garbage):
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    with (path / "cells.jsonl").open("a") as file:
        file.write(garbage + "\n")
    run = load_run(path)
    assert run.counts == {"ok": 1}
    (note,) = run.notes
    assert note.startswith("left out: cells.jsonl line 2: cannot be read: ")


def test_a_run_goes_on_by_its_whole_name_beside_its_twin(run_directory):
    """Two that begin in one second: the second is called like the first, and -2."""
    path = run_directory(records=[cell("naive", PROBLEM, 0.02)])
    runs = path.parents[1]
    shutil.copytree(path, path.with_name(f"{path.name}-2"))
    assert find(runs, path.name) == path
    assert find(runs, f"{path.name}-2").name == f"{path.name}-2"
    with pytest.raises(ValueError, match="2 runs called"):
        find(runs, path.name[:-1])
    for name in ("", "**", "2026*"):
        with pytest.raises(ValueError, match="no name of a run"):
            find(runs, name)
