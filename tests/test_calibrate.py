"""`python -m suites calibrate`: launches of one plan, and what is kept of them for the gate."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from results.own_rates import own_rates
from results.plan import Plan
from results.reading import SchemaError
from results.spreads import Spread, file_of, read_spreads, write_spreads
from suites.__main__ import main
from suites.calibrate import command
from suites.calibrate.launches import Outcome, Told
from tests.fake_launches import noisy
from tests.gate_bench import Bench, slower

ROOT = Path(__file__).resolve().parents[1]


def rates_of(times_s, ratio=1.03, runs=40):
    """The rates where every cell has this floor."""
    rates = own_rates(times_s, np.full(times_s.shape[1], ratio), Plan(), runs)
    assert rates is not None
    return rates


def test_unchanged_launches_fail_nothing_and_a_slowdown_is_found():
    times = noisy(40, 12, noise=0.005)
    rates = rates_of(times)
    assert (rates.runs, rates.launches, rates.failed) == (40, 20, 0)
    assert rates.found == {"1.05": 1.0, "1.10": 1.0}


def test_the_rates_of_a_noisy_machine_say_so():
    times = noisy(40, 12, noise=0.06)
    rates = rates_of(times)
    assert rates.found["1.05"] < 0.3 < rates.found["1.10"]


def test_a_machine_that_changes_halfway_fails_no_more_often():
    """Neighbours are dealt to either side: drift is nobody's fault."""
    times = noisy(40, 12, noise=0.003)
    times[20:] *= 1.3
    assert rates_of(times).failed == 0


@pytest.mark.parametrize("launches", [1, 2, 7])
def test_too_few_launches_have_no_rates(launches):
    times = noisy(launches, 12)
    assert own_rates(times, np.full(12, 1.03), Plan()) is None


def test_the_floor_of_a_noisy_cell_holds_in_the_gates_own_rates():
    times = noisy(40, 12, noise=0.004)
    named = rates_of(times, 1.08, runs=20).found
    assert named == {"1.05": 0.0, "1.10": 1.0}


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return Bench(tmp_path, capsys)


def test_what_is_kept_of_a_cell_is_told_and_used(bench):
    bench.write(noisy(24))
    told = bench.json("spread", "latest", "--write")
    assert told["rates"]["launches"] == 12 and told["rates"]["failed"] == 0
    file = file_of(bench.baselines, told["machine_key"])
    kept = json.loads(file.read_text(encoding="utf-8"))["cells"]
    for cell in told["cells"]:
        mine = kept[cell["name"]]
        assert mine["spread_log"] == pytest.approx(cell["spread_log"], abs=1e-6)
        assert {"floor", "smallest_seen", "launches", "median_s", "is_two_peaked"} <= set(mine)
    assert set(read_spreads(bench.baselines, told["machine_key"])) == set(kept)
    assert bench.call("spread", "latest") == 0
    assert "12 launches a side: 0 of 100 unchanged runs failed" in bench.out


def spread_of(name, spread_log):
    return Spread(name, 20, 1e-3, spread_log, 1.03, 1.05, False)


def test_calibrating_one_sweep_keeps_what_is_known_of_others(tmp_path):
    write_spreads(tmp_path, "cpu", [spread_of("a", 0.01), spread_of("b", 0.02)])
    write_spreads(tmp_path, "cpu", [spread_of("b", 0.05)])
    assert read_spreads(tmp_path, "cpu") == {"a": 0.01, "b": 0.05}
    assert read_spreads(tmp_path, "other") == {}
    assert [path.name for path in (tmp_path / "cpu" / "spread").iterdir()] == ["spreads.json"]


def test_a_number_alone_is_read_as_it_was_written_first(tmp_path):
    file = file_of(tmp_path, "cpu")
    file.parent.mkdir(parents=True)
    file.write_text('{"schema": 1, "kind": "spreads", "cells": {"a": 0.25}}', encoding="utf-8")
    assert read_spreads(tmp_path, "cpu") == {"a": 0.25}
    file.write_text('{"schema": 1, "kind": "spreads", "cells": {"a": {"floor": 1}}}', "utf-8")
    with pytest.raises(SchemaError, match=r"field a: expected the number spread_log"):
        read_spreads(tmp_path, "cpu")


def told(*events):
    stream = io.StringIO()
    teller = Told(stream)
    for event in events:
        teller.take(event)
    return teller, stream.getvalue().splitlines()


LAUNCH = {"event": "launch", "launches": 20, "cells": 37, "estimate_s": 27.0}
ENDED = {"event": "ended", "path": "/store/key/run", "cells_left": 3}


def test_launches_and_time_are_announced_before_anything_is_measured():
    _, lines = told(LAUNCH | {"launch": 1})
    assert lines == [
        "attnbench: 20 launches of one plan: 37 cells planned, about 27 s each, 9 min in all"
    ]
    _, lines = told(LAUNCH | {"launch": 18})
    assert lines[0].startswith("attnbench: 3 launches of one plan")


def test_what_is_not_ok_is_told_and_how_it_ended_is_known():
    bad = {"event": "finished", "implementation": "x", "problem_id": "T=8", "status": "wrong"}
    fine = bad | {"status": "ok", "reasons": []}
    teller, lines = told(LAUNCH | {"launch": 1}, fine, bad | {"reasons": ["out is off"]}, ENDED)
    assert lines[1:] == ["attnbench: x T=8: wrong: out is off"]
    assert teller.outcome(1) == Outcome(1, Path("/store/key/run"), 3)
    assert told(LAUNCH | {"launch": 1})[0].outcome(2) == Outcome(2)


@pytest.fixture
def calls(monkeypatch):
    """What calibrate runs: its arguments of `python -m suites`, and the command that keeps."""
    made = []

    def measure(arguments):
        made.append(arguments)
        return Outcome(0, Path("/store/key/run"))

    def run(command, **_):
        made.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(command.subprocess, "run", run)
    return made


def test_a_sweep_is_measured_and_what_it_shows_is_kept(calls):
    given = ["calibrate", "heads", "--impl", "a.py:f", "--json", "--baselines", "/b"]
    assert main(given) == 0
    run, keep = calls
    assert run[:4] == ["run", "heads", "--impl", "a.py:f"]
    assert run[run.index("--launches") + 1] == "20" and "--json-lines" in run
    assert run[run.index("--budget") + 1] == "smoke"
    expected = ["-m", "results", "spread", "/store/key/run", "--write", "--store", "/store"]
    assert keep == [*expected, "--baselines", "/b", "--json"]


@pytest.mark.parametrize("chosen", [["--budget=quick"], ["--problem", "T=8"]])
def test_a_budget_that_is_chosen_stays(calls, chosen):
    assert main(["calibrate", *chosen]) == 0
    assert "smoke" not in calls[0]


def test_an_interrupted_calibration_keeps_nothing_and_says_how_to_go_on(calls, monkeypatch, capsys):
    monkeypatch.setattr(command, "measure", lambda _: Outcome(130, Path("/store/key/run"), 5))
    assert main(["calibrate"]) == 130
    assert calls == [] and "calibrate --resume /store/key/run" in capsys.readouterr().err


def test_going_on_takes_the_runs_own_launches(calls):
    assert main(["calibrate", "--resume", "latest"]) == 0
    assert calls[0] == ["resume", "latest", "--json-lines"]


def test_one_launch_is_refused(calls, capsys):
    assert main(["calibrate", "--launches", "1"]) == 2
    assert calls == [] and "give 2 or more" in capsys.readouterr().err


def test_the_kept_spread_raises_a_floor(bench):
    times = noisy(25)
    times[:, 1] *= np.exp(0.2 * np.random.default_rng(3).standard_normal(25))
    bench.write(times)
    bench.call("spread", "latest", "--write")
    base, head = bench.write(noisy(25)), bench.write(slower(1.06))
    floors = [cell["floor"] for cell in bench.json("gate", base, head)["cells"]]
    assert max(floors) > 1.06 and bench.call("gate", base, head) == 0


@pytest.mark.slow
def test_for_real(tmp_path, monkeypatch):
    """Four launches of one small cell, in a quarter of a minute each, kept per machine."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "suites", "calibrate", "--problem", "T=64,H=2,d_h=16"),
            *("--impl", "sdpa_flash", "--launches", "4", "--json"),
            *("--store", str(tmp_path / "runs"), "--baselines", str(tmp_path / "kept")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert {cell["launches"] for cell in record["cells"]} == {4}
    assert all(0 < cell["spread_log"] < 0.5 for cell in record["cells"])
    assert "attnbench: 4 launches of one plan" in done.stderr
    assert read_spreads(tmp_path / "kept", record["machine_key"])
