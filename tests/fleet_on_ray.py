"""A fleet on Ray, on this machine alone: two devices, killed workers, nothing left over.

`make fleet` runs this file, beside an installed Ray, on two cores or more; no default test collects
it: there, `test_fleet.py` loses the workers of an engine that is made up.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import psutil
import pytest

from results.store import load_run
from suites.measure.journal import row_of
from tests.suite_process import ROOT, command
from tests.supervised_process import events

KERNEL = """
import os, torch

def attention(q, k, v):
    if q.shape[2] == 65:
        os._exit(0)
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
"""
LENGTHS = (33, 49, 65, 81, 97, 113, 129, 145, 161, 177)
SWEEP = ("--impl", "kernel.py:attention,sdpa_math", "--baseline", "none", "--once")
SWEEP += ("--benchmark-max-time", "0.3")
SWEEP += tuple(word for T in LENGTHS for word in ("--problem", f"T={T},H=2,d_h=16"))
FLEET = ("--fleet", "ray", "--json-lines")


def start(folder: Path, which: str, *arguments: str, store: str = "store") -> subprocess.Popen:
    """The command as a user types it, in a folder with kernel.py."""
    (folder / "kernel.py").write_text(KERNEL)
    line, environment = command(folder)
    given = [str(folder / store) if w == str(folder / "store") else w for w in line]
    given = given[given.index("-p") :]
    words = [w for w in arguments if which == "resume"][:1]
    rest = arguments[len(words) :]
    environment["PYTHONPATH"] += os.pathsep + str(ROOT)
    environment["TMPDIR"] = str(scratch_of(folder))
    return subprocess.Popen(
        [sys.executable, "-m", "suites", which, *words, *given, *rest],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def scratch_of(folder: Path) -> Path:
    """Where a fleet keeps its files; sockets of Ray lie there, whose paths must be short."""
    place = Path(tempfile.gettempdir()) / f"fleet-{zlib.crc32(str(folder).encode())}"
    place.mkdir(exist_ok=True)
    return place


def lines_of(folder: Path, store: str = "store") -> list[dict]:
    """The journal of the only run of a store."""
    (journal,) = (folder / store).glob("*/*/cells.jsonl")
    return [json.loads(line) for line in journal.read_text().splitlines()]


def cells_of(lines: list[dict]) -> Counter:
    return Counter((row_of(line), line["launch"], line["status"]) for line in lines)


def left_over(since: float) -> list[str]:
    """Processes of Ray, or of a fleet, that were started since then and still are."""
    found = []
    for process in psutil.process_iter(["cmdline", "create_time", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        is_ours = any(word in words for word in ("raylet", "gcs_server", "ray::", "fleet.worker"))
        is_young = process.info["create_time"] >= since - 1
        if is_ours and is_young and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(words[:100])
    return found


def at_work(since: float) -> list[str]:
    """Without Ray's two agents, which idle on for a while when their raylet is killed."""
    return [words for words in left_over(since) if "Agent" not in words]


def nothing_is_left(since: float, scratch: Path) -> bool:
    until = time.monotonic() + 15
    while left_over(since) and time.monotonic() < until:
        time.sleep(0.2)
    assert left_over(since) == []
    assert [f for f in scratch.glob("attnbench-*") if "-cores-" not in f.name] == []
    shutil.rmtree(scratch)
    return True


@dataclass
class Watcher:
    """Looks at the CPUs of all tasks that measure under one process, while it runs."""

    driver: int
    together: list[list[set[int]]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.over.wait(0.1):
            seen, parents = {}, {}
            try:
                for process in psutil.Process(self.driver).children(recursive=True):
                    if "suites.supervisor.plugin" in process.cmdline():
                        seen[process.pid] = set(process.cpu_affinity() or ())
                        parents[process.pid] = process.ppid()
            except psutil.NoSuchProcess:
                continue
            # What one of them forks to try a kernel in is of the same task, on the same core.
            self.together.append([seen[pid] for pid in seen if parents[pid] not in seen])


@dataclass(frozen=True)
class Outcome:
    code: int
    events: list
    errors: str
    lines: list
    together: list
    folder: Path
    killed: int


@pytest.fixture(scope="module")
def lost(tmp_path_factory) -> Outcome:
    """A fleet of two, one of whose workers is killed after its first cell."""
    folder, since = tmp_path_factory.mktemp("lost"), time.time()
    process = start(folder, "run", *SWEEP, *FLEET)
    watcher = Watcher(process.pid)
    thread = threading.Thread(target=watcher.watch)
    thread.start()
    told, killed, pids = [], 0, {}
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        told += events(line)
        event = told[-1]
        if event["event"] == "holds":
            pids[event["device"]] = event["pid"]
        if event["event"] == "finished" and not killed:
            killed = pids[json.loads(line_on_disk(folder))["from_device"]]
            os.kill(killed, signal.SIGKILL)
    errors = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    code = process.wait()
    watcher.over.set()
    thread.join()
    assert nothing_is_left(since, scratch_of(folder))
    return Outcome(code, told, errors, lines_of(folder), watcher.together, folder, killed)


def line_on_disk(folder: Path) -> str:
    (journal,) = (folder / "store").glob("*/*/cells.jsonl")
    return journal.read_text().splitlines()[0]


@pytest.fixture(scope="module")
def serial(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("serial")
    process = start(folder, "run", *SWEEP, "--json-lines")
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 5, told
    return lines_of(folder)


def test_a_fleet_that_loses_a_worker_has_the_cells_of_a_serial_run_each_once(lost, serial):
    assert lost.killed and lost.code == 5, lost.errors
    died = [event for event in lost.events if event["event"] == "died"]
    assert any("dealt again" in event["then"] for event in died), died
    assert cells_of(lost.lines) == cells_of(serial)
    assert max(cells_of(lost.lines).values()) == 1
    crashed = [line for line in lost.lines if line["status"] == "crashed"]
    assert [line["problem"]["T_q"] for line in crashed] == [65]
    assert "exit code 0 (2 tries" in crashed[0]["reasons"][0]


def test_the_run_reads_as_any_other_and_says_who_measured(lost):
    (header,) = (lost.folder / "store").glob("*/*/run.json")
    run = load_run(header.parent)
    assert run.state == "finished" and not run.notes
    assert run.counts == {"ok": 2 * len(LENGTHS) - 1, "crashed": 1}
    told = json.loads(header.read_text())
    assert told["run"] == header.parent.name and told["settings"]["brought"] == [
        f"{lost.folder}/kernel.py:attention"
    ]
    assert told["environment"]["folder"] == str(lost.folder)
    assert len({line["from_device"] for line in lost.lines}) == 2
    ended = lost.events[-1]
    assert ended["event"] == "ended" and ended["cells_left"] == 0 and ended["exit_code"] == 5


def test_no_two_tasks_share_a_core_and_both_are_used(lost):
    assert [seen for seen in lost.together if len(seen) == 2], "never two at once"
    for seen in lost.together:
        assert all(len(cpus) == 1 for cpus in seen)
        assert not [1 for one, other in combinations(seen, 2) if one & other], seen


def test_ray_says_nothing(lost):
    assert lost.errors == ""
    assert [event for event in lost.events if event["event"] == "printed"] == []
    assert {event["event"] for event in lost.events} <= {
        "notice", "launch", "holds", "started", "finished", "died", "ended",
    }  # fmt: skip


def started(folder: Path) -> subprocess.Popen:
    """A fleet that has finished its first cell."""
    process = start(folder, "run", *SWEEP, *FLEET)
    assert process.stdout is not None
    for line in process.stdout:
        if '"finished"' in line:
            return process
    raise AssertionError(process.communicate())


def test_a_killed_driver_leaves_nothing_behind_and_resume_measures_the_rest(tmp_path, serial):
    since = time.time()
    process = started(tmp_path)
    process.kill()
    process.communicate()
    until = time.monotonic() + 30
    while (left := at_work(since)) and time.monotonic() < until:
        time.sleep(0.5)
    assert left == []
    finished = cells_of(lines_of(tmp_path))
    assert finished
    again = start(tmp_path, "resume", "latest", *FLEET)
    told, errors = again.communicate(timeout=300)
    assert (again.returncode, errors) == (5, ""), told
    assert finished <= cells_of(lines_of(tmp_path)) == cells_of(serial)
    shutil.rmtree(scratch_of(tmp_path))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_fleet_that_is_stopped_keeps_what_is_finished_and_ends_all(tmp_path, number, code):
    since = time.time()
    process = started(tmp_path)
    process.send_signal(number)
    told, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (code, "")
    ended = events(told)[-1]
    assert ended["event"] == "ended" and ended["cells_left"] > 0
    assert nothing_is_left(since, scratch_of(tmp_path))
    (header,) = (tmp_path / "store").glob("*/*/run.json")
    assert load_run(header.parent).state == "interrupted"
