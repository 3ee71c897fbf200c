"""`python -m impls` as a user calls it: what is printed, and the exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from impls.__main__ import main
from impls.interface import interpreted
from impls.interface.attention import Implementation
from impls.interface.tables import supports

ROOT = Path(__file__).resolve().parents[1]

RIGHT = """
import torch
def attention(q, k, v):
    return (q.float() @ k.float().mT / q.shape[-1] ** 0.5).softmax(-1).to(v.dtype) @ v
attention.gqa = False
"""
WRONG = RIGHT.replace("** 0.5", "** 0.4")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The bare checkout must do: nothing of what is installed is tried beside the kernel.
    monkeypatch.setattr("impls.interface.registry._declared_here", list)
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)
    # A process for the first call of each: tests/test_first_call.py.
    monkeypatch.setattr("impls.interface.first_call._died", lambda *_: None)

    def write(text, name="mykernel.py"):
        (tmp_path / name).write_text(text)
        return f"{name}:attention"

    return write


def run(*arguments, cwd=ROOT, timeout=600, **environment):
    return subprocess.run(
        [sys.executable, "-m", "impls", *arguments],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_check_of_a_right_kernel_ends_0_with_a_summary_last(kernel, capsys):
    assert main(["check", "--impl", kernel(RIGHT), "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "mykernel_attention" in shown
    assert "…" not in shown.splitlines()[0]
    assert shown.strip().splitlines()[-1].startswith("1 implementation checked: ")
    assert " 0 wrong" in shown.strip().splitlines()[-1]
    assert max(map(len, shown.strip().splitlines()[:-1])) <= 80


def test_check_of_a_wrong_kernel_ends_1_and_shows_numbers(kernel, capsys):
    assert main(["check", "--impl", kernel(WRONG), "--device", "cpu"]) == 1
    shown = capsys.readouterr().out
    assert "WRONG mykernel_attention\n  output of " in shown
    assert "is allowed" in shown
    assert "more like these: --json lists all" in shown, "a wall of numbers tells nothing"
    assert len(shown.splitlines()) < 60


def test_checking_nothing_ends_1(kernel, capsys):
    absent = RIGHT + "attention.devices = ('cuda',)\n"
    assert main(["check", "--impl", kernel(absent), "--device", "cpu"]) == 1
    assert "0 implementations checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("return out, None", "a tuple where a tensor is due"),
        ("return out.to_sparse()", "layout torch.sparse_coo where torch.strided is due"),
    ],
)
def test_what_is_no_dense_tensor_of_the_device_is_wrong_not_unavailable(
    kernel, capsys, returned, told
):
    odd = RIGHT.replace("return", "out =").replace(
        "attention.gqa", f"    {returned}\nattention.gqa"
    )
    assert main(["check", "--impl", kernel(odd), "--device", "cpu"]) == 1
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_script_that_exits_when_imported_is_told_with_its_line(kernel, capsys):
    assert main(["check", "--impl", kernel("import sys\nsys.exit(0)\n"), "--device", "cpu"]) == 2
    assert "mykernel.py:2: SystemExit" in capsys.readouterr().err


def test_check_in_json_is_json_and_nothing_else(kernel, capsys):
    assert main(["check", kernel(WRONG), "--device", "cpu", "--json"]) == 1
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["ok"] is False
    assert record["implementations"][0]["implementation"] == "mykernel_attention"
    assert "1 implementation checked" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nave"], 'no implementation "nave": did you mean "naive"?'),
        (["check", "--impl", "nowhere.py:attention"], "no file"),
        (["cost", "--problem", "T=8,H=2"], "does not give d_h"),
        (["cost", "--problem", "B=1,T=-5"], 'T=-5 in "B=1,T=-5" is not a whole number, 0 or more'),
        (["cost", "--problem", "T=8,H=4,H_kv=3"], "H=4 is not a multiple of H_kv=3"),
        (["cost", "--problem", "T=8,window=0"], "window=0 is not a number of keys"),
        (["cost", "--problem", "T=8,dtype=float8"], "dtype='float8' is not known"),
        (["check", "--device", "cuda"], "--device cuda: no CUDA device: torch"),
    ],
)
def test_misuse_ends_2_and_says_what_would_do(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_gpu_that_torch_cannot_use_is_told_before_the_cpu_is_taken(
    kernel, tmp_path, capsys, monkeypatch
):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setattr("torch.version.hip", None, raising=False)
    assert main(["list", "--impl", kernel(RIGHT), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "WARNING: GPU present but unusable: torch built without CUDA" in err
    assert {one["device"] for one in json.loads(out)} == {"cpu"}
    assert main(["list", "--device", "cuda"]) == 2
    assert "GPU present but unusable: torch built without CUDA" in capsys.readouterr().err


def test_help_of_each_command_has_two_examples_or_one_for_each_thing_it_counts(capsys):
    for command, examples in (("list", 2), ("check", 2), ("cost", 5)):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        told = capsys.readouterr().out
        assert told.count("\n  python -m impls ") == examples
        assert "\nexit codes: 0 " in told and "2 usage" in told


def test_list_tells_what_is_supported_or_why_it_is_not_available(kernel, capsys):
    kernel(RIGHT + "attention.devices = ('cuda',)\n", "other.py")
    arguments = ["--impl", kernel(RIGHT), "--impl", "other.py:attention", "--device", "cpu"]
    assert main(["list", *arguments]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "f32, bf16, f16" in shown
    assert shown.count(f"torch {torch.__version__}") == 1
    assert "does not run on cpu (only cuda)" in " ".join(shown.split())
    assert main(["list", *arguments, "--json"]) == 0
    mine, other = json.loads(capsys.readouterr().out)
    assert (mine["available"], other["available"]) == (True, False)
    assert other["reasons"] == ["does not run on cpu (only cuda)"]
    assert "causal" not in mine["supports_here"]


def test_supports_asks_for_the_device():
    def further(problem, device, needs):
        return ["no backward on cpu"] if device == "cpu" and "backward" in needs else []

    from impls.interface.attention import Capabilities

    one = Implementation("one", lambda q, k, v, **_: q, "", Capabilities(further=further))
    assert "backward" in supports(one, "cuda")
    assert "backward" not in supports(one, "cpu")
    assert "GQA" in supports(one, "cpu")


def test_cost_counts_a_problem(capsys):
    # 4 queries and 6 keys, causal: 3 + 4 + 5 + 6 = 18 pairs; 2·B·H·N·(d_h + d_v) FLOP.
    assert main(["cost", "--problem", "B=2,T_q=4,T_kv=6,H=3,d_h=8,causal", "--json"]) == 0
    forward = json.loads(capsys.readouterr().out)["passes"]["forward"]
    assert forward["pairs"] == 18
    assert forward["flop"] == 2 * 2 * 3 * 18 * 16
    assert main(["cost", "--problem", "T=8192,H=32,d_h=128"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_command_works_uninstalled_from_the_checkout():
    done = run("cost", "--problem", "T=128,H=2,d_h=64", PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    assert "FLOP" in done.stdout


@pytest.mark.slow
def test_a_kernel_is_checked_from_another_folder(tmp_path):
    (tmp_path / "mykernel.py").write_text(RIGHT)
    done = run(
        *("check", "--impl", "mykernel.py:attention", "naive", "--device", "cpu"),
        cwd=tmp_path,
        PYTHONPATH=str(ROOT),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("2 implementations checked: ")


def interpreted_one(monkeypatch, body):
    """A stand-in for a kernel proven in the interpreter; its child process is `python -c body`."""
    one = Implementation("ghost", lambda q, k, v, **_: q, "", proven_in="interpreter")
    child = subprocess.Popen(
        [sys.executable, "-c", body], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return interpreted.finish(one, child)


def test_a_child_process_that_dies_is_wrong(monkeypatch):
    found, _ = interpreted_one(monkeypatch, "import os, sys; print('x'); os.abort()")
    assert found is not None and not found.ok
    assert "the interpreter's process ended with -6" in found.of("wrong")[0].reasons[0]


def test_a_child_process_tells_why_it_is_not_available(monkeypatch):
    record = {"implementations": [], "unavailable": {"ghost": ["triton is not installed"]}}
    found, reasons = interpreted_one(monkeypatch, f"print({json.dumps(json.dumps(record))})")
    assert (found, reasons) == (None, ["triton is not installed"])


def test_only_ours_without_their_device_need_the_interpreter(monkeypatch):
    from dataclasses import replace

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    ghost = Implementation("ghost", lambda q, k, v, **_: q, "", proven_in="interpreter")
    ours = replace(ghost, source="impls/ghost")
    assert interpreted.needs_interpreter(ours, "cpu")
    assert not interpreted.needs_interpreter(ours, "cuda")
    assert not interpreted.needs_interpreter(ghost, "cpu")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not interpreted.needs_interpreter(ours, "cpu")


@pytest.mark.slow
def test_check_is_green_for_everything_that_runs_here():
    done = run("check", "--json", timeout=600)
    record = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    for one in record["implementations"]:
        passed = sum(o["status"] == "passed" for o in one["outcomes"])
        assert passed >= 40, one["implementation"]  # fewest: one of 16-bit dtypes alone
