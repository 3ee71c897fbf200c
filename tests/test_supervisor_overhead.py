"""What supervising costs: between two children, and while one measures. Run with -s to read it."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from suites.session.options import BUDGETS
from suites.supervisor import child as child_module
from suites.supervisor import command
from tests import supervised_process as supervised

FAKE = str(supervised.ROOT / "tests" / "fake_child.py")
BETWEEN_CHILDREN_S = 0.15
SHARE_OF_A_SWEEP = 0.03


def run(folder, *words):
    child = (sys.executable, FAKE, str(folder / "store"), *words)
    return command.run(["given", "--json-lines"], child)


def test_a_child_costs_at_most_150_ms_beyond_its_own_start(tmp_path, monkeypatch):
    """From a child's last act to the start of the next: notice, judge, write, make ready."""
    monkeypatch.chdir(tmp_path)
    started = []
    start = subprocess.Popen

    def stamped(*arguments, **keywords):
        started.append(time.monotonic())
        return start(*arguments, **keywords)

    monkeypatch.setattr(child_module.subprocess, "Popen", stamped)
    assert run(tmp_path, *(f"stamped:{n}" for n in range(5))) == 5
    ended = [float(line) for line in (tmp_path / "stamps").read_text().splitlines()]
    assert len(started) == len(ended) == 10, "each cell in two processes"
    gaps = [after - before for before, after in zip(ended, started[1:], strict=False)]
    assert min(gaps) > 0
    print(f"\nbetween children: median {statistics.median(gaps):.3f} s, most {max(gaps):.3f} s")
    assert statistics.median(gaps) <= BETWEEN_CHILDREN_S


def test_watching_takes_at_most_3_percent_of_a_default_sweep(tmp_path, monkeypatch):
    """Its CPU time a second beside a child that measures; and its beginning and end, once."""
    monkeypatch.chdir(tmp_path)
    wall, cpu = time.monotonic(), time.process_time()
    assert run(tmp_path, *(f"slow:{n}" for n in range(15))) == 0
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    sweep_s = BUDGETS["default"]
    spent_s = cpu / wall * sweep_s + 2 * BETWEEN_CHILDREN_S
    print(f"\nwatching: {cpu / wall:.2%} of a CPU, {spent_s:.2f} s of a sweep of {sweep_s:.0f} s")
    assert spent_s <= SHARE_OF_A_SWEEP * sweep_s
