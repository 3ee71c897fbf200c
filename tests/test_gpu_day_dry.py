"""The real day, gone through on a CPU: in short, cut short, and whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forked_python import BREAK

FORKED = "tests.forked_python"
ROOT = Path(__file__).resolve().parents[1]


def of_a_stranger():
    """The environment of somebody who runs no tests, side by side or otherwise."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "ATTNBENCH"))}


def day(out, *arguments, module="suites", **variables):
    """A dry day in a process of its own → its exit code, its record and its seconds."""
    command = [sys.executable, "-m", module, "gpu", "--dry", "--out", str(out), *arguments]
    environment = of_a_stranger() | variables
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    took_s = time.monotonic() - began
    assert done.returncode in (0, 5), done.stderr
    return done.returncode, json.loads((out / "day.json").read_text()), took_s


def steps_of(record):
    return {
        f"{phase['phase']}: {step['step']}": step
        for phase in record["phases"]
        for step in phase["steps"]
    }


def assert_no_gpu_number(out, steps):
    """What only a GPU can tell is not measured, and says so."""
    clock = json.loads((out / steps["clock: clock"]["result"]).read_text())
    unmeasured = [one for one in clock["held"] if one["is_right"] is None]
    assert len(unmeasured) == 5
    assert all((one["told"], one["times_s"]) == ("not measured: no GPU", {}) for one in unmeasured)
    static = json.loads((out / steps["bounds: static"]["result"]).read_text())
    assert static["kernels"]
    assert {line["measured_percent"] for line in static["kernels"]} == {None}
    assert {line["reason"] for line in static["kernels"]} == {"not measured: no GPU"}


def test_a_dry_day_in_short_goes_through_every_phase_though_one_of_them_raises(tmp_path):
    """All steps are the real ones, forked where a day starts them anew; the repeats are broken."""
    out = tmp_path / "day"
    broken = {BREAK: "suites calibrate"}
    code, record, took_s = day(out, "--minutes", "1", module=FORKED, **broken)
    steps = steps_of(record)
    # On a busy machine what goes on as long as there is time is stopped, with what it finished.
    others = {n: s["status"] for n, s in steps.items() if s["status"] not in ("done", "stopped")}
    assert others == {"bounds: repeats": "failed"}, json.dumps(steps, indent=1)
    assert "is broken on purpose" in steps["bounds: repeats"]["reason"]
    assert code == 5 and took_s < 60
    assert_no_gpu_number(out, steps)
    (cells,) = (out / "runs").glob("*/*/cells.jsonl")
    statuses = {json.loads(line)["status"] for line in cells.read_text().splitlines()}
    assert "ok" in statuses and statuses <= {"ok", "skipped", "unsupported"}
    assert len(list((out / "report").glob("*/report.html"))) == 1


@pytest.mark.slow
def test_a_day_that_is_killed_in_its_sweep_leaves_four_phases_and_finished_cells(tmp_path):
    out = tmp_path / "day"
    command = [sys.executable, "-m", FORKED, "gpu", "--dry", "--minutes", "2", "--out", str(out)]
    killed = subprocess.Popen(command, cwd=ROOT, env=of_a_stranger(), stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while not any('"ok"' in f.read_text() for f in (out / "runs").glob("*/*/cells.jsonl")):
            assert killed.poll() is None and time.monotonic() < until
            time.sleep(0.05)
    finally:
        killed.kill()
        killed.wait()
    record = json.loads((out / "day.json").read_text())
    done = {n: s["status"] for n, s in steps_of(record).items()}
    assert record["running"] == "sweep: run" and set(done.values()) == {"done"}
    assert [name.split(":")[0] for name in done][-1] == "conformance" and len(done) == 5
    again = [sys.executable, "-m", FORKED, "resume", "latest", "--store", str(out / "runs")]
    until = time.monotonic() + 60

    # Its supervisor, told that the day died, puts the run in order first.
    def resume():
        return subprocess.run(
            again, cwd=ROOT, env=of_a_stranger(), capture_output=True, text=True, check=False
        )

    while (resumed := resume()).returncode:
        assert resumed.returncode == 2 and time.monotonic() < until, resumed.stderr


@pytest.mark.slow
def test_a_day_of_fifteen_seconds_ends_in_time_and_has_told_of_every_step(tmp_path):
    _, record, took_s = day(tmp_path / "day", "--minutes", "0.25")
    # 15 s, and what starting Python takes; a day that did not heed its limits would take 60.
    assert took_s < 25
    steps = steps_of(record)
    assert len(steps) == 9
    assert record["finished_utc"] and record["running"] is None
    # So short a day has time for little: what it could not do has a reason, and nothing failed.
    assert {step["status"] for step in steps.values()} <= {
        *("done", "stopped", "cut short", "not begun")
    }
    for step in steps.values():
        assert step["status"] == "done" or step["reason"]


@pytest.mark.slow
def test_a_dry_day_goes_through_every_phase_and_makes_up_no_number(tmp_path):
    out = tmp_path / "day"
    code, record, took_s = day(out)
    steps = steps_of(record)
    assert {name: s["status"] for name, s in steps.items() if s["status"] != "done"} == {}
    assert code == 0 and took_s < 240
    assert_no_gpu_number(out, steps)
    conformance = json.loads((out / steps["conformance: conformance"]["result"]).read_text())
    counts = conformance["counts"]
    # A busy machine may leave no time for some, which is told and never made up.
    assert counts["right"] >= 1 and counts["right"] + counts.get("not checked", 0) == 3
    (cells,) = (out / "runs").glob("*/*/cells.jsonl")
    lines = map(json.loads, cells.read_text().splitlines())
    suites = {line["suite"] for line in lines if line["status"] == "ok"}
    assert suites == {"sequence_length", "decode", "backward", "heads"}
    assert len(list((out / "report").glob("*/report.html"))) == 2
    repeats = json.loads((out / steps["bounds: repeats"]["result"]).read_text())
    # Launches that a busy moment flagged tell of no spread, though they are measured and kept.
    assert 0 < len(repeats["cells"]) <= 12
    (cells,) = (out / "repeats").glob("*/*/cells.jsonl")
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    measured = {(line["implementation"], json.dumps(line["problem"])) for line in lines}
    assert len(measured) == 12 and {line["status"] for line in lines} == {"ok"}
