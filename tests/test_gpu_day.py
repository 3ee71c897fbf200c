"""A day of phases: their order, their limits, and what is left when one fails or all are killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suites.gpu_day import command, packages
from suites.gpu_day.day import Day
from suites.gpu_day.phases import DRY_MINUTES, MINUTES, Form, Phase, Step, phases
from suites.gpu_day.schedule import CLOSING_S, ends_s

ROOT = Path(__file__).resolve().parents[1]
SAYS = "import json; print(json.dumps({'told': 'all well'}))"
RAISES = "raise RuntimeError('the device is gone')"
SLEEPS = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
KEEPS = """
import time
print("{}", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print(" " * 9, flush=True)
"""


def step(name, program, share_s=10.0, **fields):
    return Step(name, ("-c", program), share_s, **fields)


def day_of(folder, *programs, minutes=MINUTES, **fields):
    """A day of one phase a program, named by its number."""
    made = [Phase(f"p{n}", "", (step(f"s{n}", p, **fields),)) for n, p in enumerate(programs, 1)]
    told = []
    return Day(Form(folder, "cpu", minutes), made, told.append), told


def statuses(folder):
    record = json.loads((folder / "day.json").read_text())
    return [s["status"] for phase in record["phases"] for s in phase["steps"]]


def test_phases_follow_one_another_and_each_is_on_disk_before_the_next(tmp_path):
    seen = f"import pathlib; print(pathlib.Path({str(tmp_path)!r}, 'day.json').read_text())"
    day, _ = day_of(tmp_path, SAYS, seen, seen)
    assert day.run() == 0
    for number in (2, 3):
        record = json.loads((tmp_path / f"{number}-p{number}" / f"s{number}.json").read_text())
        assert record["running"] == f"p{number}: s{number}"
        done = [s["status"] for phase in record["phases"] for s in phase["steps"]]
        assert done == ["done"] * (number - 1)
    assert day.record["phases"][0]["steps"][0]["told"] == "all well"


def test_a_phase_that_raises_does_not_stop_the_next(tmp_path):
    day, told = day_of(tmp_path, RAISES, SAYS)
    assert day.run() == 5
    assert statuses(tmp_path) == ["failed", "done"]
    assert "the device is gone" in day.record["phases"][0]["steps"][0]["reason"]
    assert any("the device is gone" in line for line in told)


def test_a_program_that_cannot_be_found_does_not_stop_the_next(tmp_path):
    day, _ = day_of(tmp_path, SAYS, SAYS)
    nothing = Phase("p0", "", (Step("s0", ("-m", "no.such.module"), 5),))
    day.phases = [nothing, *day.phases]
    assert day.run() == 5
    assert statuses(tmp_path) == ["failed", "done", "done"]


def test_a_wrong_result_is_told_by_the_exit_code_whatever_else_failed(tmp_path):
    day, _ = day_of(tmp_path, RAISES, "print('{}'); raise SystemExit(3)", wrong=(3,))
    assert day.run() == 1
    assert statuses(tmp_path) == ["failed", "wrong"]


def test_what_raises_is_not_taken_for_a_wrong_result(tmp_path):
    """Python's exit code of an exception, 1, is that of a wrong result: but there is none."""
    day, _ = day_of(tmp_path, RAISES, SAYS, wrong=(1,))
    assert day.run() == 5
    assert statuses(tmp_path) == ["failed", "done"]


@pytest.mark.parametrize("program", [SLEEPS, DEAF])
def test_what_hangs_is_ended_at_its_limit_and_the_rest_goes_on(tmp_path, program):
    # Of 2.8 s the first may use its 200 of 480 parts and the 80 in reserve, the second the rest.
    day, _ = day_of(tmp_path, program, SAYS, minutes=0.08, share_s=200.0)
    began = time.monotonic()
    assert day.run() == 5
    assert time.monotonic() - began < 4.8
    assert statuses(tmp_path) == ["cut short", "done"]


def test_what_goes_on_as_long_as_there_is_time_keeps_what_it_has(tmp_path):
    day, _ = day_of(tmp_path, KEEPS, minutes=0.06, is_open_ended=True)
    assert day.run() == 0
    assert statuses(tmp_path) == ["stopped"]
    # It was asked, not killed: it had the time to write its end.
    assert (tmp_path / "1-p1" / "s1.json").read_text().count(" ") == 9


def test_what_has_nothing_to_measure_says_why_and_is_not_started(tmp_path):
    day, _ = day_of(tmp_path, RAISES, unless="not measured: no GPU")
    assert day.run() == 0
    (only,) = day.record["phases"][0]["steps"]
    assert (only["status"], only["reason"]) == ("not measured", "not measured: no GPU")
    assert not (tmp_path / "1-p1").exists()


def test_time_that_is_left_goes_to_the_next_and_none_is_taken_from_it():
    # Shares 10, 20, 60 of 100: the reserve of 10 is for whoever needs it first.
    ends = ends_s([10, 20, 60], 100 + CLOSING_S, 100)
    assert ends == pytest.approx([20, 40, 100])
    assert ends_s([10, 20, 60], 50 + CLOSING_S, 100) == pytest.approx([10, 20, 50])
    with pytest.raises(ValueError, match="shares of 101 s in a day of 100 s"):
        ends_s([101], 100, 100)


_KILLED = """
import sys
from tests.test_gpu_day import *
tells = "import os; print(os.getpid(), flush=True);" + SLEEPS
day, _ = day_of(Path(sys.argv[1]), SAYS, SAYS, tells)
day.run()
"""


def test_a_day_that_is_killed_leaves_what_was_done_and_no_child(tmp_path):
    killed = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], cwd=ROOT)
    try:
        pid_file = tmp_path / "3-p3" / "s3.json"
        until = time.monotonic() + 30
        while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        killed.kill()
        killed.wait()
    assert statuses(tmp_path) == ["done", "done"]
    assert json.loads((tmp_path / "day.json").read_text())["running"] == "p3: s3"
    child = int(pid_file.read_text())
    until = time.monotonic() + 10
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.kill(child, 0)
            time.sleep(0.02)
        pytest.fail("its child lives on")


def test_ctrl_c_ends_the_day_in_order(tmp_path):
    day, _ = day_of(
        tmp_path, f"import os, signal; os.kill(os.getppid(), signal.SIGINT); {SLEEPS}", SAYS
    )
    assert day.run() == 128 + signal.SIGINT
    assert statuses(tmp_path) == ["cut short"]
    assert json.loads((tmp_path / "day.json").read_text())["finished_utc"]


@pytest.mark.parametrize(("device", "minutes"), [("cuda", MINUTES), ("cpu", DRY_MINUTES)])
def test_the_seven_phases_fit_and_come_in_the_order_of_their_worth(tmp_path, device, minutes):
    made = phases(Form(tmp_path, device, minutes))
    assert [phase.name for phase in made] == [
        *("environment", "clock", "ceilings", "conformance", "sweep", "bounds", "report")
    ]
    shares = [sum(step.share_s for step in phase.steps) for phase in made]
    assert shares[:5] == [10, 20, 30, 90, 240]
    assert sum(shares) < 60 * MINUTES
    assert 60 * DRY_MINUTES < 240


def test_a_brief_dry_day_goes_through_all_phases_with_one_implementation(tmp_path):
    brief, whole = (phases(Form(tmp_path, "cpu", minutes)) for minutes in (1, DRY_MINUTES))
    assert [phase.name for phase in brief] == [phase.name for phase in whole]
    words = [word for phase in brief for step in phase.steps for word in step.command]
    assert "naive" in words and "chunked" not in words and "decode" not in words
    # A minute on a GPU is a minute of all of it.
    gpu = [w for p in phases(Form(tmp_path, "cuda", 1)) for s in p.steps for w in s.command]
    assert {"decode", "models"} <= {*gpu} and "naive" not in gpu


def test_a_day_names_each_device_it_measures_on(tmp_path):
    for device in ("cpu", "cuda"):
        steps = [s for phase in phases(Form(tmp_path, device, 8)) for s in phase.steps]
        named = [
            s.command[s.command.index("--device") + 1] for s in steps if "--device" in s.command
        ]
        assert set(named) == {device}
        assert len(named) == 7


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--minutes", "0.1", "--dry"], "--minutes 0.1: give 0.25 to 120"),
        (["--minutes", "nan", "--dry"], "--minutes nan: give 0.25 to 120"),
        (["--out", "taken", "--dry"], "there is a day in it: name another folder"),
    ],
)
def test_a_misuse_is_told_before_anything_runs(tmp_path, monkeypatch, capsys, arguments, told):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "day.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert command.gpu(arguments) == 2
    assert told in capsys.readouterr().err


def test_without_a_gpu_a_day_is_refused_and_the_dry_one_offered(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "_against_cuda", lambda: "no CUDA device: none is there")
    assert command.gpu(["--out", str(tmp_path / "day")]) == 2
    assert "no CUDA device: none is there; --dry" in capsys.readouterr().err
    assert not list((tmp_path / "day").glob("*.json"))


def test_packages_that_are_lacking_or_too_old_are_told_before_anything_runs(
    tmp_path, monkeypatch, capsys
):
    assert packages.lacking() == []
    asks = tmp_path / "pyproject.toml"
    asks.write_text('[project]\ndependencies = ["torch>=2", "nowhere-at-all>=1", "pytest<1"]\n')
    nowhere, old = packages.lacking(asks)
    assert nowhere == "nowhere-at-all>=1 (not installed)"
    assert old == f"pytest<1 ({pytest.__version__} is installed)"
    monkeypatch.setattr(packages, "lacking", lambda: [nowhere, old])
    assert command.gpu(["--dry", "--out", str(tmp_path / "day")]) == 2
    told = capsys.readouterr().err
    assert nowhere in told and old in told and "pip download" in told
    assert not (tmp_path / "day" / "day.json").exists()
