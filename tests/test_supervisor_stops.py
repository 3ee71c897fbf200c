"""A supervised run that is stopped, or whose disk or clock fails: nothing finished is lost."""

from __future__ import annotations

import resource
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from results.store import load_run
from suites.measure.journal import RunDirectory
from tests import suite_process
from tests import supervised_process as supervised

LIMIT = ("--cell-limit", "0.6")


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_keeps_what_is_finished_and_goes_on(tmp_path, how, code):
    words = "fine:1 waiting:2 fine:3"
    process = supervised.start("run", tmp_path, words, "given")
    while not (tmp_path / "at it").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(how)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, output
    ended = supervised.events(output)[-1]
    assert (ended["exit_code"], ended["cells_left"]) == (code, 2)
    run = load_run(supervised.run_folder(tmp_path))
    assert run.state == "interrupted" and [c.status for c in run.cells] == ["ok"]
    (tmp_path / "go on").touch()
    assert supervised.here(tmp_path, words, which="resume") == 0
    assert set(supervised.times_finished(tmp_path).values()) == {1}
    assert load_run(supervised.run_folder(tmp_path)).state == "finished"


def test_a_cell_that_does_not_hear_ctrl_c_is_killed_at_the_second_and_not_blamed(tmp_path):
    process = supervised.start("run", tmp_path, "fine:1 deaf:2 fine:3", "given")
    while not (tmp_path / "at it").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    run = load_run(supervised.run_folder(tmp_path))
    assert run.state == "interrupted" and [c.status for c in run.cells] == ["ok"]


def test_a_cell_that_nobody_lived_to_judge_is_tried_alone_first(tmp_path):
    """Killed with the supervisor, it is not the cell's fault; a second death would be."""
    words = "fine:1 waiting:2 exit0:3"
    process = supervised.start("run", tmp_path, words, "given")
    while not (tmp_path / "at it").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    assert (supervised.run_folder(tmp_path) / "running.json").exists()
    (tmp_path / "go on").touch()
    assert supervised.here(tmp_path, words, which="resume") == 5
    assert supervised.statuses(tmp_path) == {
        "fine:1": "ok",
        "waiting:2": "ok",
        "exit0:3": "crashed",
    }


def test_a_cell_that_two_series_share_has_a_row_in_each_of_them(tmp_path):
    """Kill -9 between the two, and resume: the second is measured, the first is not again."""
    words = "fine:1 fine:1:wide waiting:2 waiting:2:wide fine:3 exit0:4 exit0:4:wide"
    process = supervised.start("run", tmp_path, words, "given")
    while not (tmp_path / "at it").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    (tmp_path / "go on").touch()
    assert supervised.here(tmp_path, words, which="resume") == 5
    expected = {w: "crashed" if "exit0" in w else "ok" for w in words.split()}
    assert supervised.statuses(tmp_path) == expected
    assert set(supervised.times_finished(tmp_path).values()) == {1}
    assert load_run(supervised.run_folder(tmp_path)).counts == {"ok": 5, "crashed": 2}


def test_two_runs_never_mix(tmp_path, capsys):
    words = "fine:1 waiting:2"
    process = supervised.start("run", tmp_path, words, "given")
    while not (tmp_path / "at it").exists() and process.poll() is None:
        time.sleep(0.02)
    try:
        assert supervised.here(tmp_path, words, which="resume") == 2
        assert "another process" in capsys.readouterr().err
        with pytest.raises(ValueError, match="another process"):
            RunDirectory(supervised.run_folder(tmp_path))
    finally:
        (tmp_path / "go on").touch()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert set(supervised.times_finished(tmp_path).values()) == {1}


def test_a_full_disk_ends_the_run_with_what_is_finished(tmp_path):
    """Files may grow to 8 KiB, as on a disk that is full: some lines fit, not all."""
    words = " ".join(f"fine:{n}" for n in range(12))

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, resource.RLIM_INFINITY))

    process = supervised.start("run", tmp_path, words, "given", preexec_fn=fill)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 5, output
    assert "File too large" in output and "cannot write" in output
    kept = supervised.times_finished(tmp_path)
    assert 0 < len(kept) < 12 and set(kept.values()) == {1}
    assert supervised.here(tmp_path, words, which="resume") == 0
    assert supervised.times_finished(tmp_path) == Counter((w, 1, "ok") for w in words.split())


@pytest.mark.slow
def test_a_disk_too_full_to_begin_a_run_is_told_in_a_line(tmp_path):
    line, environment = suite_process.command(
        tmp_path, "--impl", "naive", "--problem", "T=33,H=1,d_h=16"
    )

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, resource.RLIM_INFINITY))

    how: Any = {"cwd": tmp_path, "env": environment, "preexec_fn": fill}
    done = subprocess.run([*line, "-s"], capture_output=True, text=True, timeout=60, **how)
    told = done.stdout + done.stderr
    assert done.returncode == 4 and "Traceback" not in told, told
    assert "ERROR: attnbench: [Errno 27] cannot write " in told and "run.json" in told


def test_a_store_that_cannot_be_written_is_told_by_its_path(tmp_path, capsys, monkeypatch):
    (tmp_path / "store").write_text("a file")
    assert supervised.here(tmp_path, "fine:1") == 5
    told = supervised.events(capsys.readouterr().out)[-1]["text"]
    assert f"cannot write {tmp_path}/store" in told or "File exists" in told


def test_a_store_that_became_read_only_ends_the_run_with_what_is_finished(
    tmp_path, capsys, monkeypatch
):
    written = RunDirectory.write_run

    def refuse(self, run):
        raise OSError(30, f"cannot write {self.path}: Read-only file system")

    monkeypatch.setattr(RunDirectory, "write_run", refuse)
    assert supervised.here(tmp_path, "fine:1 exit0:2 fine:3") == 5
    assert supervised.statuses(tmp_path) == {"fine:1": "ok"}
    assert "Read-only file system" in capsys.readouterr().out
    monkeypatch.setattr(RunDirectory, "write_run", written)
    assert supervised.here(tmp_path, "fine:1 exit0:2 fine:3", which="resume") == 5
    assert supervised.statuses(tmp_path) == {"fine:1": "ok", "exit0:2": "crashed", "fine:3": "ok"}


def test_a_clock_that_jumps_times_nothing_out(tmp_path, monkeypatch):
    days = iter(range(10**9))
    real = time.time

    def jumping():
        day = next(days)
        return real() + 86400 * day * (-1) ** day

    monkeypatch.setattr(time, "time", jumping)
    assert supervised.here(tmp_path, "fine:1 slow:2 exit0:3 fine:4", *LIMIT) == 5
    assert supervised.statuses(tmp_path) == {
        "fine:1": "ok", "slow:2": "ok", "exit0:3": "crashed", "fine:4": "ok",
    }  # fmt: skip


def test_a_last_line_that_is_cut_off_costs_its_cell_alone(tmp_path):
    words = "fine:1 fine:2 fine:3"
    assert supervised.here(tmp_path, words) == 0
    journal = supervised.run_folder(tmp_path) / "cells.jsonl"
    text = journal.read_text()
    journal.write_text(text[:-100])
    assert supervised.here(tmp_path, words, which="resume") == 0
    whole = load_run(supervised.run_folder(tmp_path))
    assert Counter(c.status for c in whole.cells) == {"ok": 3} and "cut short" in whole.notes[0]
    assert journal.read_text().startswith(text[:-100] + "\n"), "what stood there still stands"
