"""The supervisor over children that crash and hang: each named, the rest measured once."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter

import pytest

from results.store import load_run
from suites.session.orders import Orders
from suites.supervisor import command, death, plan_table, run_files
from suites.supervisor.child import Child
from suites.supervisor.watch import End
from tests import supervised_process as supervised

LIMIT = ("--cell-limit", "0.6")


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_exit_code_of_zero_in_the_middle_of_a_cell_is_a_crash(tmp_path):
    assert supervised.here(tmp_path, "fine:1 exit0:2 fine:3") == 5
    assert supervised.statuses(tmp_path) == {"fine:1": "ok", "exit0:2": "crashed", "fine:3": "ok"}
    (line,) = [line for line in supervised.lines(tmp_path) if line["status"] == "crashed"]
    assert "exit code 0" in line["reasons"][0] and "2 tries" in line["reasons"][0]
    run = load_run(supervised.run_folder(tmp_path))
    assert run.state == "finished" and run.counts == {"ok": 2, "crashed": 1}


def test_a_kernel_that_failed_before_is_not_why_a_child_cannot_go_on():
    said = ["attnbench: first: error: SystemExit: 0", "second.py:6: KeyboardInterrupt"]
    with Child([sys.executable, "-c", f"print(*{said}, sep=chr(10))"], Orders()) as child:
        child.wait(20)
        assert child.complaint() == "second.py:6: KeyboardInterrupt"


def test_the_last_lines_of_a_crash_and_the_call_it_was_in_are_told(tmp_path):
    supervised.here(tmp_path, "segv:1")
    (line,) = supervised.lines(tmp_path)
    assert "SIGSEGV" in line["reasons"][0]
    assert "Segmentation fault" in line["reasons"][1] and "in kernel" in line["reasons"][1]


def test_a_hung_cell_is_a_timeout_that_says_where_it_hung(tmp_path, capsys):
    assert supervised.here(tmp_path, "hanging:1 fine:2", *LIMIT) == 5
    assert supervised.statuses(tmp_path) == {"hanging:1": "timeout", "fine:2": "ok"}
    (line,) = [line for line in supervised.lines(tmp_path) if line["status"] == "timeout"]
    assert "still running after 0.6 s" in line["reasons"][0]
    assert "in kernel" in line["reasons"][1]
    died = [e for e in supervised.events(capsys.readouterr().out) if e["event"] == "died"]
    assert [e["then"] for e in died] == ["once more, alone", "timeout; going on with the rest"]


def test_a_cell_that_dies_only_of_what_others_left_is_measured_alone(tmp_path, capsys):
    assert supervised.here(tmp_path, "fine:1 touchy:2 fine:3") == 0
    assert supervised.times_finished(tmp_path) == Counter(
        {("fine:1", 1, "ok"): 1, ("touchy:2", 1, "ok"): 1, ("fine:3", 1, "ok"): 1}
    )
    ended = supervised.events(capsys.readouterr().out)[-1]
    assert ended["children"] == 3, "the rest is measured in another process than the suspect"


def test_a_child_that_lost_its_device_is_replaced(tmp_path, capsys):
    assert supervised.here(tmp_path, "fine:1 poisoning:2 fine:3") == 0
    assert set(supervised.statuses(tmp_path).values()) == {"ok"}
    events = supervised.events(capsys.readouterr().out)
    assert events[-1]["children"] == 2 and not [e for e in events if e["event"] == "died"]


def test_a_kernel_that_ends_the_process_when_it_is_tried_is_left_out_by_name(tmp_path):
    assert supervised.here(tmp_path, "fine:1 untriable:2 untriable:3") == 5
    assert supervised.statuses(tmp_path) == {
        "fine:1": "ok",
        "untriable:2": "crashed",
        "untriable:3": "crashed",
    }
    reasons = {line["reasons"][0] for line in supervised.lines(tmp_path) if line["reasons"]}
    assert len(reasons) == 1 and "exit code 0" in reasons.pop()


def test_a_kernel_that_dies_when_its_speed_is_probed_is_measured_without(tmp_path):
    assert supervised.here(tmp_path, "fine:1 unprobable:2") == 0
    assert supervised.statuses(tmp_path) == {"fine:1": "ok", "unprobable:2": "ok"}


def test_what_crashed_is_measured_again_only_with_retry(tmp_path, capsys):
    assert supervised.here(tmp_path, "fine:1 mended:2") == 5
    (tmp_path / "mended").touch()
    assert supervised.here(tmp_path, "fine:1 mended:2", which="resume") == 5
    assert supervised.statuses(tmp_path)["mended:2"] == "crashed"
    capsys.readouterr()
    assert supervised.here(tmp_path, "fine:1 mended:2", "--retry", which="resume") == 0
    assert supervised.statuses(tmp_path) == {"fine:1": "ok", "mended:2": "ok"}, (
        "the last line counts"
    )
    finished = [e for e in supervised.events(capsys.readouterr().out) if e["event"] == "finished"]
    assert [e["implementation"] for e in finished] == ["mended"]
    assert load_run(supervised.run_folder(tmp_path)).counts == {"ok": 2}
    assert supervised.header(tmp_path)["counts"] == {"ok": 2}


def test_every_launch_is_a_process_of_its_own_that_repeats_what_was_timed(tmp_path, capsys):
    assert supervised.here(tmp_path, "fine:1 raising:2 fine:3", "--launches", "3") == 5
    found = supervised.times_finished(tmp_path)
    assert found == Counter(
        {("raising:2", 1, "error"): 1}
        | {(name, n, "ok"): 1 for name in ("fine:1", "fine:3") for n in (1, 2, 3)}
    )
    run = load_run(supervised.run_folder(tmp_path))
    assert run.launches == 3 and supervised.header(tmp_path)["launches"] == 3
    assert supervised.events(capsys.readouterr().out)[-1]["children"] == 3
    assert (
        supervised.here(tmp_path, "fine:1 raising:2 fine:3", "--launches", "4", which="resume") == 5
    )
    assert load_run(supervised.run_folder(tmp_path)).launches == 4


def test_the_kernels_memory_killer_makes_a_cell_oom(tmp_path, monkeypatch):
    struck = iter(range(100))
    monkeypatch.setattr("suites.supervisor.supervisor.oom_kills", lambda: next(struck))

    def kill_twice():
        for _ in range(2):
            while not (tmp_path / "at it").exists():
                time.sleep(0.02)
            (tmp_path / "at it").unlink()
            note = next(tmp_path.glob("store/fake/*/running.json"))
            os.kill(json.loads(note.read_text())["pid"], signal.SIGKILL)

    killer = threading.Thread(target=kill_twice)
    killer.start()
    assert supervised.here(tmp_path, "waiting:1 fine:2") == 0
    killer.join()
    assert supervised.statuses(tmp_path) == {"waiting:1": "oom", "fine:2": "ok"}


def test_a_child_that_cannot_start_is_told_with_its_last_words(tmp_path, capsys):
    child = (sys.executable, "-c", "raise SystemExit('no such thing installed')")
    assert command.run(["given"], child) == 5
    assert "no such thing installed" in capsys.readouterr().err


def of_code(code, *, is_oom=False):
    end = End(
        code=code,
        is_orderly=False,
        running=None,
        trying=None,
        hung_s=None,
        last_words=[],
        complaint="",
    )
    return death.death_of(end, is_oom)


def test_a_kill_from_outside_is_not_at_once_the_cells_fault():
    crash, kill = of_code(-signal.SIGSEGV), of_code(-signal.SIGKILL)
    assert crash.cause == "the process died of SIGSEGV" and not crash.is_from_outside
    assert kill.is_from_outside and kill.status == "crashed"
    assert of_code(-signal.SIGKILL, is_oom=True).status == "oom"
    assert not death.is_settled([crash]) and death.is_settled([kill, crash])
    assert not death.is_settled([kill] * 3) and death.is_settled([kill] * 4)


def test_a_suite_or_option_that_is_not_there_ends_with_2(tmp_path, capsys):
    assert command.run(["nowhere"]) == 2
    assert 'no suite "nowhere": one of' in capsys.readouterr().err
    assert command.run(["heads", "--resume", "latest"]) == 2
    assert "python -m suites resume RUN" in capsys.readouterr().err
    for launches in ("0", "10001"):
        assert command.run(["heads", "--launches", launches]) == 2
        assert f"--launches {launches}: give 1 to 10000" in capsys.readouterr().err
    assert command.resume([]) == 2 and command.resume(["a", "b"]) == 2
    assert command.resume(["nothing", "--store", str(tmp_path)]) == 2
    assert 'no run called "nothing"' in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        command.run(["--help"])
    assert stopped.value.code == 0 and capsys.readouterr().out.count("  python -m suites run") == 5


def test_a_log_has_a_line_a_cell_and_no_control_characters(tmp_path, capsys):
    child = (
        sys.executable,
        supervised.FAKE,
        str(tmp_path / "store"),
        "fine:1",
        "garbage:2",
        "fine:3",
    )
    assert command.run(["given"], child) == 0
    told = capsys.readouterr()
    assert not [c for c in told.err if ord(c) < 32 and c != "\n"]
    lines = [line for line in told.err.splitlines() if line.startswith("[")]
    assert [line[:5] for line in lines] == ["[1/3]", "[2/3]", "[3/3]"]
    assert all("% of bound" in line and line.endswith("left") for line in lines)


def test_the_plan_is_listed_and_nothing_is_written(tmp_path, capsys):
    child = (sys.executable, supervised.FAKE, str(tmp_path / "store"), "fine:1", "slow:2")
    assert command.run(["given", "--plan"], child) == 0
    summed = capsys.readouterr().out
    assert "2 cells in about 0:00" in summed and "slow" not in summed and "GB" in summed
    assert command.run(["given", "--plan", "-v"], child) == 0
    shown = capsys.readouterr().out
    assert "2 cells in about 0:00" in shown and "slow" in shown and "GB" in shown
    assert command.run(["given", "--plan", "--json"], child) == 0
    assert '"memory_bytes": 1000' in capsys.readouterr().out
    assert not (tmp_path / "store").exists()


def planned(suite, decision, seconds, needed):
    return {"suite": suite, "decision": decision, "estimate_s": seconds, "memory_bytes": needed}


def test_a_plan_is_summed_sweep_by_sweep():
    plan = [
        planned("heads", "run", 50.0, 2_000_000),
        planned("heads", "run", 15.0, None),
        planned("heads", "skip", 99.0, 9_000_000_000),
        planned("head_size_independent", "skip", 99.0, 7_000_000_000),
        planned("decode", "run", 60.0, 3_000_000_000),
    ]
    _, heads, independent, decode, together, more = plan_table.as_text(plan).splitlines()
    assert heads.split() == ["heads", "2", "1:05", "0.002", "1"]
    assert independent.split() == ["head_size_independent", "0", "0:00", "0.000", "1"]
    assert decode.split() == ["decode", "1", "1:00", "3.000", "0"]
    assert together.startswith("3 cells in about 2:05, the largest with 3 GB; 2 beyond")
    assert "-v" in more and "--json" in more


def test_json_without_a_plan_is_refused_with_what_was_meant(capsys):
    assert command.run(["--json"]) == 2
    assert "--json-lines" in capsys.readouterr().err


def test_a_line_that_was_taken_back_is_not_counted_twice(tmp_path):
    supervised.here(tmp_path, "fine:1 fine:2")
    files = run_files.RunFiles(supervised.run_folder(tmp_path))
    assert len(files.grown()) == 2 and files.grown() == []
    journal = files.path / "cells.jsonl"
    journal.write_bytes(journal.read_bytes()[:-10])
    files.grown()
    assert len(files.statuses) == 2


def test_what_another_process_finished_before_it_let_go_is_not_measured_again(tmp_path):
    """A fleet starts for half a minute between looking at a run and having it for itself."""
    supervised.here(tmp_path, "fine:1 fine:2 fine:3")
    journal = supervised.run_folder(tmp_path) / "cells.jsonl"
    whole = journal.read_text()
    journal.write_text(whole.splitlines(keepends=True)[0])
    files = run_files.RunFiles(journal.parent)
    assert len(files.grown()) == 1 and len(files.left(1)) == 2
    journal.write_text(whole)
    files.lock()
    assert files.left(1) == []
    files.close()
