"""`python -m suites bisect`: the commit that made a cell slower, over children without torch."""

from __future__ import annotations

import json

import pytest

from suites.__main__ import main
from suites.ab import bisecting
from tests.turning import CHILD, Turning

CELL = "fine B=1,T=18,H=1,d_h=8,float32 forward hot cpu_time"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["HEAD"], "give GOOD, BAD and CELL"),
        (["HEAD", "HEAD", "naive"], '"naive" is no cell'),
        (["no-such", "HEAD", "naive T=8"], '"no-such" is no revision'),
        (["HEAD", "HEAD", "naive T=8", "--launches", "4"], "give 5 or more"),
    ],
)
def test_what_cannot_be_searched_is_refused(typed, told, capsys):
    assert main(["bisect", *typed]) == 2
    assert told in capsys.readouterr().err


@pytest.fixture
def turning(tmp_path):
    return Turning(tmp_path)


def searched(turning, *revisions):
    where = ("--repo", str(turning.repo), "--store", str(turning.store), "--json")
    brought = ("--impl", "mylib:attention", "--launches", "5")
    return bisecting.bisect([*revisions, CELL, *brought, *where], CHILD)


@pytest.mark.slow
def test_the_commit_is_found_past_one_that_cannot_be_judged_and_all_is_as_it_was(turning, capfd):
    """Of five the third made it slower; the fourth cannot be measured."""
    times = ({"fine_2": 1.0}, {"fine_2": 1.001}, {"fine_2": 1.2}, {"raising_2": 1.2})
    commits = [turning.commit(**one) for one in (*times, {"fine_2": 1.21})]
    turning.write(fine_2=7.0)
    before = turning.state
    assert searched(turning, commits[0], commits[4]) == 0
    assert json.loads(capfd.readouterr().out)["candidates"] == [
        {"commit": commits[2], "subject": "times"}
    ]
    assert turning.state == before


@pytest.mark.slow
def test_between_commits_that_cannot_be_judged_it_is_narrowed_down(turning, capfd):
    times = ({"fine_2": 1.0}, {"raising_2": 1.0}, {"fine_2": 1.2})
    commits = [turning.commit(**one) for one in times]
    assert searched(turning, commits[0], commits[2]) == 3
    found = json.loads(capfd.readouterr().out)["candidates"]
    assert {one["commit"] for one in found} == {*commits[1:]}


@pytest.mark.slow
def test_a_cell_that_is_not_slower_is_not_searched_for(turning, capfd):
    commits = [turning.commit(fine_2=1.0), turning.commit(fine_2=1.0, fine_3=1.0)]
    assert searched(turning, *commits) == 1
    assert "is not slower in" in capfd.readouterr().err
