"""`suites run --device cuda:0,cuda:1`: which GPU each process sees, and one run of all shards."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import pytest

from impls.interface.problem import Problem
from suites.__main__ import main
from suites.side_by_side import command
from suites.side_by_side.named import Gpu, gpus, is_named
from tests.fake_run import cell, write_run

LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0a)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1b)
  MIG 3g.20gb     Device  0: (UUID: MIG-1c)
  MIG 3g.20gb     Device  1: (UUID: MIG-1d)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-2e)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """`machine(listed, visible)`: what nvidia-smi lists, and CUDA_VISIBLE_DEVICES."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(listed=LISTED, visible=None):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'END'\n{listed}END\n")
        (folder / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return make


def values(text):
    return [gpu.visible for gpu in gpus(text)]


def test_a_number_counts_what_may_be_used_and_parts_of_a_split_gpu_count_for_it(machine):
    machine()
    assert values("cuda:0,cuda:1") == ["GPU-0a", "MIG-1c"]
    assert values("cuda:3, cuda:2") == ["GPU-2e", "MIG-1d"]


@pytest.mark.parametrize(
    ("visible", "text", "expected"),
    [
        ("2,0", "cuda:0,cuda:1", ["2", "0"]),
        ("GPU-2e,GPU-0a", "cuda:1", ["GPU-0a"]),
        ("MIG-1d,MIG-1c", "cuda:0,MIG-1c", ["MIG-1d", "MIG-1c"]),
        ("GPU-2e,GPU-0a", "GPU-0", ["GPU-0a"]),
    ],
)
def test_what_the_environment_shows_is_kept_and_its_order_counts(machine, visible, text, expected):
    machine(visible=visible)
    assert values(text) == expected


@pytest.mark.parametrize(
    ("visible", "text", "told"),
    [
        (None, "cuda:4", "cuda:0 is GPU-0a, cuda:1 is MIG-1c"),
        (None, "GPU-1b", "is split by MIG: name parts of it, MIG-1c, MIG-1d"),
        (None, "MIG-1", "nvidia-smi -L has"),
        (None, "cuda:0,GPU-0a", "cuda:0 and GPU-0a are one GPU"),
        (None, "cuda:0,cpu", 'name GPUs as "cuda:0,cuda:1"'),
        ("1,-1,0", "cuda:1", "CUDA_VISIBLE_DEVICES=1,-1,0 has cuda:0 is 1"),
        ("0", "GPU-2e", "CUDA_VISIBLE_DEVICES=0 has cuda:0 is 0"),
        ("", "cuda:0", "has no GPU"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(machine, visible, text, told):
    machine(visible=visible)
    with pytest.raises(ValueError) as refused:
        gpus(text)
    assert told in str(refused.value)


def test_without_nvidia_smi_numbers_are_cudas_own(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", "")
    assert gpus("cuda:1,GPU-ab") == [Gpu("cuda:1", "1"), Gpu("GPU-ab", "GPU-ab")]
    with pytest.raises(ValueError, match="are one GPU"):
        gpus("cuda:1,cuda:01")


def test_only_names_of_single_gpus_are_meant():
    assert [is_named(t) for t in ("auto", "cpu", "cuda", "cuda:0", "MIG-1c")] == [False] * 3 + [
        True
    ] * 2
    assert command.device_of(["heads", "--device=cuda:1"]) == "cuda:1"
    assert command.device_of(["--device", "cuda", "--impl", "cuda:1"]) is None


# Stands for `python -m suites run`: it tells of a run that was written before.
CHILD = """
import json, os, signal, sys, time
arguments, folder = sys.argv[2:], sys.argv[1]
number = arguments[arguments.index("--shard") + 1].split("/")[0] if "--shard" in arguments else "1"
with open(f"{folder}/asked-{number}", "w") as file:
    json.dump({"arguments": arguments, "visible": os.environ["CUDA_VISIBLE_DEVICES"]}, file)
path = open(f"{folder}/path-{number}").read()
def end(left, code):
    if code == -9:
        print('{"event": "finished", "cel', end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    told = {"event": "ended", "path": path, "cells_left": left, "counts": {}}
    print(json.dumps(told), flush=True)
    sys.exit(code)
if os.path.exists(f"{folder}/hang"):
    signal.signal(signal.SIGINT, lambda *_: end(3, 130))
    open(f"{folder}/hangs-{number}", "w").close()
    time.sleep(60)
deadline = time.monotonic() + 20
while not os.path.exists(f"{folder}/asked-2") and "--shard" in arguments:
    # The other one is there at the same time, or this fails.
    assert time.monotonic() < deadline
    time.sleep(0.01)
end(0, int(open(f"{folder}/code-{number}").read()))
"""


@pytest.fixture
def child(tmp_path, machine):
    """A `child` for `measured` with two runs, shards of one plan, of a cell each."""
    machine()
    for number, T in ((1, 64), (2, 128)):
        record = cell("naive", Problem.parse(f"T={T},H=2,d_h=16"), 0.01)
        run = write_run(
            tmp_path / "runs",
            records=[record],
            created=f"2026112{number}T193000Z",
            change=lambda header, number=number: header.update(shard=f"{number}/2"),
        )
        (tmp_path / f"path-{number}").write_text(str(run))
        (tmp_path / f"code-{number}").write_text("0")
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    return [sys.executable, str(program), str(tmp_path)]


def asked(tmp_path, number):
    return json.loads((tmp_path / f"asked-{number}").read_text())


def test_each_gpu_has_a_process_that_sees_it_alone_and_the_shards_become_one_run(
    tmp_path, child, capfd
):
    arguments = ["heads", "--device", "cuda:0,cuda:2", "--impl", "naive", "--json-lines"]
    assert command.measured(arguments, "cuda:0,cuda:2", child) == 0
    for number, visible in ((1, "GPU-0a"), (2, "MIG-1d")):
        told = asked(tmp_path, number)
        assert told["visible"] == visible
        expected = ["heads", "--impl", "naive", "--device", "cuda", "--shard", f"{number}/2"]
        assert told["arguments"] == [*expected, "--json-lines"]
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {line["device"] for line in lines[:-1]} == {"cuda:0", "cuda:2"}
    merged = lines[-1]
    assert merged["event"] == "merged" and merged["counts"] == {"ok": 2}


def test_one_gpu_alone_measures_everything(tmp_path, child):
    assert command.measured(["--device", "GPU-2"], "GPU-2", child) == 0
    told = asked(tmp_path, 1)
    assert told["visible"] == "GPU-2e" and "--shard" not in told["arguments"]


@pytest.mark.parametrize(("codes", "expected"), [((0, 5), 5), ((1, 5), 1), ((0, 1), 1)])
def test_a_wrong_result_on_any_of_them_is_told_before_what_broke(tmp_path, child, codes, expected):
    for number, code in enumerate(codes, 1):
        (tmp_path / f"code-{number}").write_text(str(code))
    assert command.measured(["--json-lines"], "cuda:0,cuda:1", child) == expected


def test_ctrl_c_reaches_each_of_them_and_how_to_go_on_is_told(tmp_path, child, capfd):
    (tmp_path / "hang").touch()

    def interrupt():
        while not all((tmp_path / f"hangs-{n}").exists() for n in (1, 2)):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    assert command.measured([], "cuda:0,cuda:1", child) == 130
    told = capfd.readouterr().out
    assert told.count("3 cells are left") == 2 and "CUDA_VISIBLE_DEVICES=MIG-1c" in told
    runs = [(tmp_path / f"path-{n}").read_text() for n in (1, 2)]
    assert f"-m results merge {runs[0]} {runs[1]} --store {tmp_path / 'runs'}" in told


def test_a_process_that_is_killed_in_the_middle_of_a_line_is_told_by_its_gpu(
    tmp_path, child, capfd
):
    (tmp_path / "code-2").write_text("-9")
    assert command.measured([], "cuda:0,cuda:1", child) == 5
    told = capfd.readouterr()
    assert "cuda:1: its process ended with exit code -9" in told.err
    assert "Traceback" not in told.err
    assert f"merge {(tmp_path / 'path-1').read_text()} RUN" in told.out


def test_the_command_asks_for_it_by_its_option(machine, capsys):
    machine()
    assert main(["run", "heads", "--device", "cuda:0,cuda:9"]) == 2
    assert "--device cuda:9: nvidia-smi -L has cuda:0 is GPU-0a" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--shard", "--plan", "--launches=3"])
def test_what_cannot_be_dealt_is_refused(machine, capsys, word):
    machine()
    assert command.measured([word], "cuda:0,cuda:1", ["false"]) == 2
    assert "leave one of them out" in capsys.readouterr().err
