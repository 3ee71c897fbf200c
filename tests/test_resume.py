"""Kill, crash and Ctrl-C in the middle of a sweep: what is finished stays, the rest goes on."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from results.store import load_run
from tests.suite_process import Measured, command, measured, run_suites

# `slow` waits at T = 65 until a file called "go on" lies beside it.
KERNEL = """
import os, pathlib, time, torch

HERE = pathlib.Path(__file__).parent

def _attention(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

def slow(q, k, v):
    if q.shape[2] == 65 and not (HERE / "go on").exists():
        (HERE / "waiting").touch()
        time.sleep(60)
    return _attention(q, k, v)

def crashing(q, k, v):
    if q.shape[2] == 65:
        os._exit(139)
    return _attention(q, k, v)
"""
SIZES = [x for T in (33, 49, 65, 81) for x in ("--problem", f"T={T},H=2,d_h=16")]
LIMITS = ("--baseline", "none", "--benchmark-max-time", "0.05")


@pytest.fixture(scope="module")
def crashed(tmp_path_factory) -> tuple[Path, Measured]:
    folder = tmp_path_factory.mktemp("crashed")
    found = run_suites(folder, "--impl", "kernel.py:crashing", *SIZES, *LIMITS, kernel=KERNEL)
    return folder, found


def _stopped_in_the_middle(folder: Path, how: signal.Signals) -> Measured:
    """Send a signal while the third of four cells is being measured."""
    (folder / "kernel.py").write_text(KERNEL)
    line, environment = command(folder, "--impl", "kernel.py:slow", *SIZES, *LIMITS)
    process = subprocess.Popen(
        line,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for _ in range(600):
        if (folder / "waiting").exists():
            break
        time.sleep(0.1)
    process.send_signal(how)
    output, _ = process.communicate(timeout=60)
    return measured(folder, process.returncode, output)


def test_a_cell_that_ends_the_process_is_named_crashed_by_the_next_command(crashed):
    _, found = crashed
    assert found.code == 139 % 256
    assert found.statuses() == {"crashing 33": "ok", "crashing 49": "ok"}
    run = load_run(found.folder)
    assert [c.status for c in run.cells] == ["ok", "ok", "crashed"]
    assert run.cells[-1].problem.T_q == 65 and run.state == "crashed"


def test_resume_names_the_crashed_cell_and_runs_only_the_rest(crashed):
    folder, before = crashed
    kept = before.cells
    found = run_suites(folder, "--resume", before.folder.name)
    assert found.cells[: len(kept)] == kept, "finished lines are never rewritten"
    assert found.statuses() == {
        "crashing 33": "ok", "crashing 49": "ok", "crashing 65": "crashed", "crashing 81": "ok",
    }  # fmt: skip
    assert found.header["counts"] == {"ok": 3, "crashed": 1} and found.header["finished_utc"]


def test_kill_9_in_the_middle_costs_no_finished_cell(tmp_path):
    found = _stopped_in_the_middle(tmp_path, signal.SIGKILL)
    assert found.statuses() == {"slow 33": "ok", "slow 49": "ok"}
    assert [c.status for c in load_run(found.folder).cells] == ["ok", "ok", "crashed"]


def test_ctrl_c_leaves_a_usable_run_and_says_how_to_go_on(tmp_path):
    found = _stopped_in_the_middle(tmp_path, signal.SIGINT)
    assert found.code == 2 and f"--resume {found.folder}" in found.output
    run = load_run(found.folder)
    assert run.state == "interrupted" and [c.status for c in run.cells] == ["ok", "ok"]
    (tmp_path / "go on").touch()
    resumed = run_suites(tmp_path, "--resume", found.folder.name)
    assert resumed.code == 0, resumed.output
    assert set(resumed.statuses().values()) == {"ok"} and len(resumed.cells) == 4
    assert load_run(found.folder).state == "finished"
    assert sorted(p.name for p in found.folder.glob("launch-*.json")) == [
        "launch-1.json",
        "launch-2.json",
    ]


def test_two_sessions_never_write_one_run(tmp_path):
    from suites.measure.journal import RunDirectory

    found = _stopped_in_the_middle(tmp_path, signal.SIGKILL)
    with RunDirectory(found.folder):
        refused = run_suites(tmp_path, "--resume", found.folder.name)
    assert refused.code == 4 and "another process" in refused.output
    assert load_run(found.folder).cells[-1].status == "crashed", "nothing was changed"


def test_a_finished_run_has_nothing_left_to_resume(crashed):
    folder, found = crashed
    refused = run_suites(folder, "--resume", found.folder.name)
    assert refused.code == 4 and "nothing left to measure" in refused.output
