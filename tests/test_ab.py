"""`python -m suites ab` over children without torch: turns, verdict, and a tree left as found."""

from __future__ import annotations

import json

import pytest

from suites.ab import schedule
from tests.turning import Turning


@pytest.fixture
def turning(tmp_path):
    return Turning(tmp_path)


def test_a_slower_working_tree_fails_by_the_name_of_its_cell_and_all_is_left_as_found(
    turning, capfd
):
    turning.commit(fine_1=1.0, fine_2=2.0)
    turning.write(fine_1=1.0, fine_2=3.0)
    (turning.repo / "not tracked").touch()
    before = turning.state
    assert turning.ab("HEAD", "--json") == 1
    assert turning.state == before
    out, err = capfd.readouterr()
    found = json.loads(out)
    slower = [cell for cell in found["cells"] if cell["verdict"] == "regressed"]
    assert [cell["name"] for cell in slower] == [found["cells"][0]["name"]]
    assert slower[0]["ratio"] == pytest.approx(1.5, rel=0.01) and "T=18" in slower[0]["name"]
    assert "head is the working tree" in err and "2 cells, 6 launches a side: about" in err
    base, head = turning.lines("base"), turning.lines("head")
    assert len(base) == len(head) == 12
    assert [line["cell"] for line in base] == [line["cell"] for line in head]


def test_sides_take_turns_and_neither_is_always_first():
    assert [(turn.side[0], turn.launch) for turn in schedule.turns(1, 4)] == [
        *(("b", 1), ("h", 1), ("h", 2), ("b", 2)),
        *(("b", 3), ("h", 3), ("h", 4), ("b", 4)),
    ]


def test_the_order_is_drawn_for_each_launch_and_is_that_of_the_other_side():
    names = [f"cell {n}" for n in range(40)]
    orders = [schedule.ordered(names, 7, launch) for launch in range(1, 21)]
    assert len({tuple(order) for order in orders}) == 20
    assert all(sorted(order) == sorted(names) for order in orders)
    assert orders[0] != schedule.ordered(names, 8, 1)
    lacking = schedule.ordered(names[5:], 7, 3)
    assert lacking == [name for name in orders[2] if name in lacking]
