"""`python -m suites run` over the real `pytest suites`, with a kernel that is brought."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from results.store import load_run
from tests.suite_process import ROOT, Measured, command, measured

KERNEL = """
import ctypes, os, pathlib, time, torch

HERE = pathlib.Path(__file__).parent

def _attention(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

def leaving(q, k, v):
    if q.shape[2] == 65:
        print("leaving now")
        os._exit(0)
    return _attention(q, k, v)

def broken(q, k, v):
    T = q.shape[2]
    if T == 49:
        ctypes.string_at(0)
    if T == 65:
        time.sleep(600)
    if T == 81 and not (HERE / "mended").exists():
        os._exit(0)
    if T == 97:
        raise RuntimeError("out of memory, says the kernel")
    return _attention(q, k, v)

def dying_when_tried(q, k, v):
    os._exit(0)
"""
LIMITS = ("--baseline", "none", "--benchmark-max-time", "0.05")


def sizes(*lengths):
    return [x for T in lengths for x in ("--problem", f"T={T},H=2,d_h=16")]


def run(folder, which, *arguments, is_tried_apart=False) -> Measured:
    """The command as a user types it, in a folder with kernel.py."""
    (folder / "kernel.py").write_text(KERNEL)
    line, environment = command(folder, is_tried_apart=is_tried_apart)
    given = line[line.index("-p") :]
    words = [w for w in arguments if which == "resume"][:1]
    rest = arguments[len(words) :]
    line = [sys.executable, "-m", "suites", which, *words, *given, *rest]
    environment["PYTHONPATH"] += os.pathsep + str(ROOT)
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    return measured(folder, done.returncode, done.stdout + done.stderr)


def by_length(found: Measured):
    return {c["problem"]["T_q"]: c["status"] for c in found.cells}


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> Measured:
    folder = tmp_path_factory.mktemp("left")
    return run(folder, "run", "--impl", "kernel.py:leaving", *sizes(33, 65), *LIMITS)


@pytest.mark.slow
def test_a_kernel_that_leaves_with_0_is_crashed_in_the_run_and_on_the_screen(left):
    assert left.code == 5, left.output
    assert by_length(left) == {33: "ok", 65: "crashed"}
    crashed = left.cells[-1]
    assert crashed["reasons"] == [
        "the process ended with exit code 0 (2 tries, the last alone in its process)",
        "its last lines: leaving now",
    ]
    assert "leaving B=1,T=65,H=2,d_h=16,float32: the process ended with exit code 0" in left.output
    assert "once more, alone" in left.output and "1 ok, 1 crashed" in left.output


@pytest.mark.slow
def test_the_run_reads_as_one_of_pytest_suites_does(left):
    run = load_run(left.folder)
    assert run.state == "finished" and run.counts == {"ok": 1, "crashed": 1}
    entry = left.header["plan"][0]
    assert entry["memory_bytes"] > 0 and entry["estimate_s"] > 0
    assert left.header["launches"] == 1 and left.header["counts"] == {"ok": 1, "crashed": 1}
    assert not (left.folder / "running.json").exists()


@pytest.mark.slow
def test_a_sweep_of_everything_that_breaks(tmp_path):
    names = ("--impl", "kernel.py:broken,kernel.py:dying_when_tried")
    lengths = (33, 49, 65, 81, 97, 113)
    asked = (*names, *sizes(*lengths), *LIMITS)
    plan = run(tmp_path, "run", *asked, "--plan", "--json")
    listed = json.loads(plan.output[plan.output.index("[\n") : plan.output.rindex("]") + 1])
    assert len(listed) == 12 and plan.folders == ()
    limits = ("--cell-limit", "8", "--launches", "2")
    found = run(tmp_path, "run", *asked, *limits, is_tried_apart=True)
    assert found.code == 5, found.output
    of = {name: {} for name in ("broken", "dying_when_tried")}
    for line in found.cells:
        of[line["implementation"]][line["problem"]["T_q"]] = line["status"]
    assert of["dying_when_tried"] == dict.fromkeys(lengths, "crashed")
    assert of["broken"] == {
        33: "ok", 49: "crashed", 65: "timeout", 81: "crashed", 97: "oom", 113: "ok",
    }  # fmt: skip
    run_of = load_run(found.folder)
    assert run_of.launches == 2
    assert Counter((c.problem.T_q, c.launch) for c in run_of.cells if c.status == "ok") == {
        (T, n): 1 for T in (33, 113) for n in (1, 2)
    }
    (tmp_path / "mended").touch()
    retried = (found.folder.name, "--retry", "--cell-limit", "8")
    again = run(tmp_path, "resume", *retried, is_tried_apart=True)
    assert again.code == 5, again.output
    mended = [
        c for c in again.cells if (c["implementation"], c["problem"]["T_q"]) == ("broken", 81)
    ]
    assert [c["status"] for c in mended] == ["ok"]
    assert load_run(again.folder).state == "finished"


@pytest.mark.slow
def test_a_conftest_above_the_store_is_nobodys(tmp_path):
    """The store may be another checkout's, whose conftest.py declares the same options."""
    theirs = tmp_path / "theirs"
    (theirs / "runs").mkdir(parents=True)
    (theirs / "conftest.py").write_text("raise RuntimeError('not of these suites')")
    found = run(
        tmp_path,
        "run",
        "--impl",
        "naive",
        *sizes(33),
        *LIMITS,
        "--launches",
        "2",
        "--store",
        str(theirs / "runs"),
    )
    assert found.code == 0, found.output
    assert "not of these suites" not in found.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--laucnhes", "3"), "unrecognized arguments: --laucnhes 3\n"),
        (("--budget", "medium"), "argument --budget: invalid choice: 'medium'"),
        (("--problem", "T=0"), '"T=0" does not give H, d_h'),
    ],
)
def test_a_mistyped_option_is_no_crash(tmp_path, given, told):
    found = run(tmp_path, "run", "--impl", "naive", *sizes(33), *given)
    assert (found.code, found.folders) == (2, ())
    assert found.output.startswith(f"attnbench: cannot go on: {told}")


@pytest.mark.slow
def test_a_run_without_further_looks_is_gone_on_with_without_them(tmp_path):
    sweep = ("--impl", "kernel.py:broken", *sizes(81), "--baseline", "none")
    crashed = run(tmp_path, "run", "--once", *sweep, "--benchmark-max-time", "0.05")
    assert by_length(crashed) == {81: "crashed"}
    (tmp_path / "mended").touch()
    mended = run(tmp_path, "resume", "latest", "--retry")
    (journal,) = (tmp_path / "store").glob("*/*/cells.jsonl")
    statuses = [json.loads(line)["status"] for line in journal.read_text().splitlines()]
    assert (mended.code, statuses) == (0, ["crashed", "ok"]), mended.output
