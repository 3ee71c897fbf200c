"""`python -m suites ab` over children without torch: turns, verdict, and a tree left as found."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter

import pytest

from suites.ab import schedule
from tests.turning import Turning


@pytest.fixture
def turning(tmp_path):
    return Turning(tmp_path)


def regressed(out):
    return [cell["problem"] for cell in json.loads(out)["cells"] if cell["verdict"] == "regressed"]


def interrupted(turning, number, *arguments):
    """`suites ab` in a process that is sent a signal after two launches → exit code, output."""
    process = turning.start(*arguments)
    while process.poll() is None and turning.count("base") < 4:
        time.sleep(0.02)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def test_ctrl_c_leaves_all_as_found_and_the_same_command_goes_on_to_the_verdict(turning, capfd):
    turning.commit(fine_1=1.0, fine_2=2.0)
    turning.write(fine_1=1.0, fine_2=3.0)
    (turning.repo / "not tracked").touch()
    before = turning.state
    code, output = interrupted(turning, signal.SIGINT, "HEAD")
    assert code == 130 and turning.state == before, output
    assert "2 cells, 6 launches a side: about" in output and "suites ab --resume" in output
    done = turning.lines("base")
    assert 4 <= len(done) < 12
    assert turning.ab("HEAD", "--json") == 1 and turning.state == before
    out, err = capfd.readouterr()
    assert "going on with" in err and "head is the working tree" in err
    assert len(regressed(out)) == 1 and "T=18" in regressed(out)[0]
    base, head = turning.lines("base"), turning.lines("head")
    assert [(r["cell"], r["launch"]) for r in base] == [(r["cell"], r["launch"]) for r in head]
    counted = Counter((r["cell"], r["launch"]) for r in base)
    assert len(counted) == 12 and set(counted.values()) == {1}
    assert base[: len(done)] == done, "what is measured stays"


@pytest.mark.slow
def test_a_killed_comparison_is_gone_on_with_by_name_and_then_leaves_nothing(turning, capfd):
    turning.commit(fine_1=1.0, slow_2=2.0)
    turning.commit(fine_1=1.5, slow_2=2.0)
    before = turning.state
    code, _ = interrupted(turning, signal.SIGKILL, "HEAD~1", "HEAD")
    assert code == -9 and turning.state["worktree list"] != before["worktree list"]
    done = turning.count("base")
    assert turning.ab("--resume", "latest", "--json") == 1 and turning.state == before
    assert len(regressed(capfd.readouterr().out)) == 1
    counted = Counter((r["cell"], r["launch"]) for r in turning.lines("base"))
    assert 4 <= done < len(counted) == 12 and set(counted.values()) == {1}


@pytest.mark.slow
def test_what_a_killed_comparison_left_is_swept_up_by_the_next_one(turning):
    turning.commit(fine_1=1.0)
    before = turning.state
    interrupted(turning, signal.SIGKILL, "HEAD", "HEAD")
    assert turning.state != before
    turning.write(fine_1=2.0)
    assert turning.ab("HEAD") == 1
    assert turning.state["worktree list"] == before["worktree list"]


@pytest.mark.slow
def test_two_processes_do_not_measure_one_comparison(turning, capfd):
    turning.commit(slow_1=1.0)
    process = turning.start("HEAD", "HEAD")
    while process.poll() is None and turning.count("base") < 2:
        time.sleep(0.02)
    assert turning.ab("HEAD", "HEAD") == 2
    assert "by another process" in capfd.readouterr().err
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "code"), [({"fine_1": 1.0}, 4), ({"fine_1": 1.0, "raising_2": 1.0}, 5)]
)
def test_a_cell_that_head_lacks_does_not_pass(turning, head, code):
    turning.commit(fine_1=1.0, fine_2=1.0)
    turning.commit(**head)
    assert turning.ab("HEAD~1", "HEAD") == code


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
