"""Kill, crash and Ctrl-C in the middle of a sweep: what is finished stays, the rest goes on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from results.store import load_run
from tests.suite_process import Measured, command, measured, refused, run_suites

# `slow` waits at T = 65 until a file called "go on" lies beside it.
KERNEL = """
import os, pathlib, time, torch

HERE = pathlib.Path(__file__).parent

def _attention(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

def slow(q, k, v):
    if q.shape[2] == 65 and not (HERE / "go on").exists():
        (HERE / "waiting").touch()
        time.sleep(600)
    return _attention(q, k, v)

def crashing(q, k, v):
    if q.shape[2] == 65:
        os._exit(139)
    return _attention(q, k, v)
"""
SIZES = [x for T in (33, 49, 65, 81) for x in ("--problem", f"T={T},H=2,d_h=16")]
LIMITS = ("--baseline", "none", "--benchmark-max-time", "0.05")


@pytest.fixture(scope="module")
def crashed(tmp_path_factory) -> Measured:
    folder = tmp_path_factory.mktemp("crashed")
    return run_suites(folder, "--impl", "kernel.py:crashing", *SIZES, *LIMITS, kernel=KERNEL)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory, crashed) -> Measured:
    """The rest of a copy of the crashed run, begun in another folder than its kernel.

    Its --impl was kernel.py:crashing, a path from where it was begun.
    """
    folder = tmp_path_factory.mktemp("resumed")
    run = shutil.copytree(crashed.folder, folder / "store" / "machine" / crashed.folder.name)
    return run_suites(folder, "--resume", str(run))


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Measured:
    return _stopped_in_the_middle(tmp_path_factory.mktemp("killed"), signal.SIGKILL)


def _stopped_in_the_middle(folder: Path, how: signal.Signals, when: str = "") -> Measured:
    """Send a signal while the third of four cells is being measured, or when this is printed."""
    (folder / "kernel.py").write_text(KERNEL)
    line, environment = command(folder, "--impl", "kernel.py:slow", *SIZES, *LIMITS)
    # A shell's background jobs ignore Ctrl-C, and so would the child; handlers are not inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        line,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        printed = ""
        if when and process.stdout:
            while when not in printed and process.poll() is None:
                printed += process.stdout.readline()
        while not when and not (folder / "waiting").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(how)
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    return measured(folder, process.returncode, printed + output)


def test_a_cell_that_ends_the_process_is_named_crashed_by_the_next_command(crashed):
    """Case B01, perma-bench#107: results were written in the end, and a crash lost them all."""
    assert crashed.code == 139 % 256
    assert crashed.statuses() == {"crashing 33": "ok", "crashing 49": "ok"}
    run = load_run(crashed.folder)
    assert [c.status for c in run.cells] == ["ok", "ok", "crashed"]
    assert run.cells[-1].problem.T_q == 65 and run.state == "crashed"


def test_resume_names_the_crashed_cell_and_runs_only_the_rest(crashed, resumed):
    kept = crashed.cells
    assert resumed.code == 0, resumed.output
    assert len(kept) == 2 and resumed.cells[:2] == kept, "finished lines are never rewritten"
    assert resumed.statuses() == {
        "crashing 33": "ok", "crashing 49": "ok", "crashing 65": "crashed", "crashing 81": "ok",
    }  # fmt: skip
    assert resumed.header["counts"] == {"ok": 3, "crashed": 1} and resumed.header["finished_utc"]


def test_kill_9_in_the_middle_costs_no_finished_cell(killed):
    assert killed.statuses() == {"slow 33": "ok", "slow 49": "ok"}
    assert [c.status for c in load_run(killed.folder).cells] == ["ok", "ok", "crashed"]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Measured:
    return _stopped_in_the_middle(tmp_path_factory.mktemp("interrupted"), signal.SIGINT)


def test_ctrl_c_leaves_a_usable_run_and_says_how_to_go_on(interrupted):
    """Case B01, lambkin#107: an interrupt is no reason to lose what is finished."""
    assert interrupted.code == 2
    assert f"--resume {interrupted.folder}" in interrupted.output
    run = load_run(interrupted.folder)
    assert run.state == "interrupted" and [c.status for c in run.cells] == ["ok", "ok"]


@pytest.mark.slow
def test_after_ctrl_c_it_goes_on_as_it_said(interrupted):
    found, folder = interrupted, interrupted.folder.parents[2]
    (folder / "go on").touch()
    rest = run_suites(folder, "--resume", found.folder.name)
    assert rest.code == 0, rest.output
    assert set(rest.statuses().values()) == {"ok"} and len(rest.cells) == 4
    assert load_run(found.folder).state == "finished"
    assert sorted(p.name for p in found.folder.glob("launch-*.json")) == [
        "launch-1.json",
        "launch-2.json",
    ]


@pytest.mark.slow
def test_a_run_stopped_while_looking_again_lacks_nothing(tmp_path):
    (tmp_path / "go on").touch()
    found = _stopped_in_the_middle(tmp_path, signal.SIGINT, when="looking again")
    assert found.code == 2 and len(found.cells) == 4
    assert "with fewer looks" in found.output and "--resume" not in found.output
    assert f"-m reports {found.folder}" in found.output
    assert load_run(found.folder).state == "finished"


@pytest.mark.slow
def test_a_run_that_lacks_its_end_alone_is_finished_by_resume(tmp_path, resumed):
    folder = tmp_path / "copy"
    shutil.copytree(resumed.folder.parents[2], folder)
    (run,) = (folder / "store").glob("*/*/run.json")
    header = json.loads(run.read_text())
    run.write_text(json.dumps(header | {"finished_utc": None, "interrupted": False}))
    rest = run_suites(folder, "--resume", resumed.folder.name)
    assert rest.code == 0, rest.output
    assert rest.cells == resumed.cells and load_run(rest.folder).state == "finished"
    assert rest.header["counts"] == {"ok": 3, "crashed": 1}


@pytest.mark.slow
def test_a_cell_that_two_models_share_is_gone_on_with_in_each(tmp_path):
    """Transformer big and BERT large have the same core; a kill came between their rows."""
    shared = ("--budget", "default", "-k", "bench_models and T512 and H16 and d_h64 and not layer")
    whole = run_suites(tmp_path, *shared, "--impl", "sdpa_flash", *LIMITS)
    rows = [(line["cell"], line["series"]) for line in whole.cells]
    assert len(rows) == 2 and rows[0][0] == rows[1][0], whole.output
    assert [(e["cell"], e["series"]) for e in whole.header["plan"]] == rows
    journal = whole.folder / "cells.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(x for x in lines if json.loads(x)["series"] == rows[0][1]))
    unfinished = whole.header | {"finished_utc": None}
    (whole.folder / "run.json").write_text(json.dumps(unfinished))
    rest = run_suites(tmp_path, "--resume", whole.folder.name)
    assert [(line["cell"], line["series"]) for line in rest.cells] == rows, rest.output


def test_two_sessions_never_write_one_run(killed, capsys):
    from suites.measure.journal import RunDirectory

    with RunDirectory(killed.folder):
        code = refused(killed.folder.parents[2], "--resume", killed.folder.name)
    out, err = capsys.readouterr()
    assert code == pytest.ExitCode.USAGE_ERROR and "another process" in out + err
    assert load_run(killed.folder).cells[-1].status == "crashed", "nothing was changed"


def test_a_finished_run_has_nothing_left_to_resume(resumed, capsys):
    code = refused(resumed.folder.parents[2], "--resume", resumed.folder.name)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "nothing left to measure" in capsys.readouterr().err
