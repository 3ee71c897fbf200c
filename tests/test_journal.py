"""The run directory: what is on the disk after a kill, a full disk, a number that is none."""

import json
import math
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from suites.measure.atomic_file import finite, write_json
from suites.measure.journal import RunDirectory, line_of

ROOT = Path(__file__).resolve().parents[1]
NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)


def strict(text):
    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def run(tmp_path):
    with RunDirectory.create(tmp_path, "abcdef012345", "0123456789", NOW) as directory:
        yield directory


def test_a_directory_is_named_by_machine_time_and_commit(run, tmp_path):
    assert run.path == tmp_path / "abcdef012345" / "20261129T193000Z-0123456"
    assert run.run_id == "20261129T193000Z-0123456"


def test_a_taken_name_gets_a_number(run, tmp_path):
    with RunDirectory.create(tmp_path, "abcdef012345", "0123456789", NOW) as second:
        assert second.run_id == "20261129T193000Z-0123456-2"


def test_without_git_the_name_says_so(tmp_path):
    with RunDirectory.create(tmp_path, "abcdef012345", None, NOW) as directory:
        assert directory.run_id == "20261129T193000Z-nogit"


def test_each_cell_is_one_line_of_strict_json(run):
    run.append({"cell": "a", "timing": None})
    run.append({"cell": "b\n", "reasons": ["ü"]})
    lines = (run.path / "cells.jsonl").read_text("utf-8").splitlines()
    assert [strict(line)["cell"] for line in lines] == ["a", "b\n"]


def test_a_cell_is_synced_to_the_disk_before_append_returns(run, monkeypatch):
    """A killed process loses nothing without it; a machine that loses its power does."""
    synced = []

    def fsync(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        assert strict((run.path / "cells.jsonl").read_text())["cell"] == "a"

    monkeypatch.setattr(os, "fsync", fsync)
    run.append({"cell": "a"})
    assert synced == [(run.path / "cells.jsonl").stat().st_ino]


def test_numbers_that_are_not_finite_become_null_with_a_reason():
    """Case B03, BenchmarkDotNet#1242: NaN as a bare word is no JSON, and strict readers refuse."""
    cell = {"reasons": ["first"], "timing": {"median_s": math.nan, "samples_s": [1.0, -math.inf]}}
    record = strict(line_of(cell))
    assert record["timing"] == {"median_s": None, "samples_s": [1.0, None]}
    assert record["reasons"] == [
        "first",
        "timing.median_s is nan: written as null",
        "timing.samples_s[1] is -inf: written as null",
    ]
    assert math.isnan(cell["timing"]["median_s"]), "the caller's record is not touched"


def test_finite_numbers_pass_untouched():
    assert finite({"a": [1, 2.5, "x", None, True]}) == ({"a": [1, 2.5, "x", None, True]}, [])


def test_samples_are_thinned_to_a_thousand():
    samples = strict(line_of({"timing": {"samples_s": list(range(5000))}}))["timing"]["samples_s"]
    assert (len(samples), samples[0], samples[-1]) == (1000, 0, 4999)


def test_the_running_cell_is_named_until_it_is_finished(run):
    named = {"implementation": "naive", "pass": "forward", "suite": "heads", "series": "H"}
    run.start(named | {"cell": "3f2a"}, "B=1,T=16,H=1,d_h=8,float32")
    record = strict((run.path / "running.json").read_text())
    assert record["cell"] == "3f2a"
    assert record["pid"] == os.getpid()
    assert record["pid_started"] == psutil.Process().create_time()
    assert {"problem_id", "started_utc", *named} <= set(record)
    run.append({"cell": "3f2a"})
    assert not (run.path / "running.json").exists()


def test_run_json_is_replaced_whole(run):
    run.write_run({"schema": 1, "finished_utc": None})
    run.write_run({"schema": 1, "load": math.inf})
    assert strict((run.path / "run.json").read_text()) == {"schema": 1, "load": None}
    assert not [path for path in run.path.iterdir() if path.name.startswith(".run.json")]


def test_two_processes_never_write_one_run(run):
    with pytest.raises(ValueError, match="written by another process"):
        RunDirectory(run.path)


def test_a_run_goes_on_after_its_writer_is_gone(run):
    run.append({"cell": "a"})
    run.close()
    with RunDirectory(run.path) as again:
        again.append({"cell": "b"})
    lines = (run.path / "cells.jsonl").read_text().splitlines()
    assert [strict(line)["cell"] for line in lines] == ["a", "b"]


def test_a_broken_last_line_does_not_spoil_the_next(run):
    run.append({"cell": "a"})
    run.close()
    with (run.path / "cells.jsonl").open("a") as file:
        file.write('{"cell": "b", "tim')
    with RunDirectory(run.path) as again:
        again.append({"cell": "c"})
    lines = (run.path / "cells.jsonl").read_text().splitlines()
    assert strict(lines[0])["cell"] == "a"
    assert strict(lines[2])["cell"] == "c"


KILLED = """
import sys, time
from pathlib import Path
from suites.measure.journal import RunDirectory
run = RunDirectory.create(Path(sys.argv[1]), "key", None)
named = {"implementation": "naive", "pass": "forward", "suite": "heads", "series": "H"}
for i in range(3):
    run.start(named | {"cell": f"cell {i}"}, "p")
    run.append({"cell": f"cell {i}"})
run.start(named | {"cell": "cell 3"}, "p")
print(run.path, flush=True)
time.sleep(600)
"""


def test_kill_9_keeps_every_finished_line_and_the_name_of_the_running_cell(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    path = Path(child.stdout.readline().strip())
    child.send_signal(signal.SIGKILL)
    child.wait(300)
    child.stdout.close()
    lines = (path / "cells.jsonl").read_text().splitlines()
    assert [strict(line)["cell"] for line in lines] == ["cell 0", "cell 1", "cell 2"]
    running = strict((path / "running.json").read_text())
    assert running["cell"] == "cell 3"
    assert not psutil.pid_exists(running["pid"])
    RunDirectory(path).close()


FORKED = """
import os, sys, time
from pathlib import Path
from suites.measure.journal import RunDirectory
run = RunDirectory.create(Path(sys.argv[1]), "key", None)
copy = os.fork()
if copy == 0:
    os.close(1)
    time.sleep(600)
print(copy, flush=True)
os.kill(os.getpid(), 9)
"""
COPIED = """
import os, sys
from pathlib import Path
from suites.measure.journal import RunDirectory
with RunDirectory.create(Path(sys.argv[1]), "key", None) as run:
    copy = os.fork()
    run.append({"cell": "once"})
    os.waitpid(copy, 0)
"""


def test_a_copy_that_a_kernel_forked_does_not_keep_a_dead_processes_run_locked(tmp_path):
    line = [sys.executable, "-c", FORKED, str(tmp_path)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    copy = psutil.Process(int(done.stdout))
    try:
        RunDirectory(next(tmp_path.glob("key/*"))).close()
    finally:
        copy.kill()


def test_a_copy_that_a_kernel_forked_writes_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", COPIED, str(tmp_path)], cwd=ROOT, check=True)
    assert next(tmp_path.glob("key/*/cells.jsonl")).read_text() == '{"cell":"once"}\n'


FULL = """
import resource, sys
from pathlib import Path
from suites.measure.journal import RunDirectory
run = RunDirectory.create(Path(sys.argv[1]), "key", None)
run.append({"cell": "small"})
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    run.append({"cell": "large", "padding": "x" * 10_000})
except OSError as error:
    print(error)
run.append({"cell": "small again"})
"""


def test_a_full_disk_is_told_with_the_path_and_finished_lines_stay(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (journal,) = tmp_path.glob("key/*/cells.jsonl")
    assert f"cannot write {journal}: File too large" in done.stdout
    lines = journal.read_text().splitlines()
    assert [strict(line)["cell"] for line in lines] == ["small", "small again"]


def test_a_store_that_is_a_file_is_told_by_its_path(tmp_path):
    (tmp_path / "store").write_text("")
    with pytest.raises(OSError, match=f"cannot write {tmp_path}/store/key"):
        RunDirectory.create(tmp_path / "store", "key", None)


def test_a_record_that_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"cannot write {path}: No space left on device"):
        write_json(path, {"a": 2})
    assert strict(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_nan_is_refused_where_nobody_made_it_null(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"a": math.nan})
