"""A brought kernel that ends the process, hangs or raises when it is first called."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from impls.interface.attention import Implementation
from impls.interface.availability import Inability, inability
from impls.interface.brought import bring
from impls.interface.first_call import inability_tried_apart
from impls.interface.rectangular import rectangular_fault
from results.findings import findings
from results.store import load_run
from tests.suite_process import ROOT, Measured, run_suites

KERNELS = """
import ctypes, os, time, torch

def segv(q, k, v):
    ctypes.string_at(0)

def leaving(q, k, v):
    os._exit(0)

def hanging(q, k, v):
    time.sleep(600)

def raising(q, k, v):
    raise KeyError("no such tile")

def lacking(q, k, v):
    import no_such_library

def on_a_gpu(q, k, v):
    raise RuntimeError("0 active drivers ([]). There should only be one.")

def right(q, k, v):
    print("a kernel may print")
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
"""
CAUSAL = """
import torch
from torch.nn.functional import scaled_dot_product_attention

def aligned_left(q, k, v, causal=False):
    return scaled_dot_product_attention(q, k, v, is_causal=causal)

def square(q, k, v, causal=False):
    return scaled_dot_product_attention(q, k, v, is_causal=causal)

square.causal_rectangular = False

def refusing(q, k, v, causal=False):
    if q.shape != k.shape:
        raise ValueError("T_q must be T_kv")
    return square(q, k, v, causal)

def aligned_right(q, k, v, causal=False):
    T_q, T_kv = q.shape[2], k.shape[2]
    mask = torch.ones(T_q, T_kv, dtype=torch.bool).tril(T_kv - T_q) if causal else None
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)

def without_causal(q, k, v):
    return scaled_dot_product_attention(q, k, v)
"""
TOP_LEFT = "its causal mask is aligned to the top left; the bottom right is wanted: "
TRIED = "(tried with B=1,T=16,H=2,d_h=64,float32)"


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNELS)
    return tmp_path / "kernel.py"


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Measured:
    """Two that end the process beside one that is right."""
    names = [f"kernel.py:{name}" for name in ("segv", "leaving", "right")]
    sizes = ("--problem", "T=33,H=2,d_h=16", "--benchmark-max-time", "0.02")
    folder = tmp_path_factory.mktemp("suite")
    asked = ("--impl", ",".join(names), *sizes)
    return run_suites(folder, *asked, kernel=KERNELS, is_tried_apart=True)


def test_who_ends_the_process_crashed_and_the_others_are_measured(suite):
    assert suite.statuses() == {
        "naive 33": "ok", "segv 33": "crashed", "leaving 33": "crashed", "right 33": "ok",
    }  # fmt: skip
    assert suite.code == 1, suite.output
    reasons = {cell["implementation"]: " ".join(cell["reasons"]) for cell in suite.cells}
    assert "SIGSEGV" in reasons["segv"] and "kernel.py:5" in reasons["segv"]
    assert "exit code 0" in reasons["leaving"]


@pytest.mark.slow
def test_a_check_of_who_ends_the_process_has_its_row_and_ends_1(kernels):
    done = subprocess.run(
        [sys.executable, "-m", "impls", "check", "--impl", f"{kernels}:segv", "--json"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (told,) = json.loads(done.stdout)["implementations"]
    assert told["implementation"] == "segv" and "SIGSEGV" in told["outcomes"][0]["reasons"][0]


@pytest.mark.slow
def test_who_does_not_come_back_ran_out_of_time(kernels, monkeypatch):
    monkeypatch.setattr("impls.interface.first_call._START_S", 4.0)
    told = inability_tried_apart(bring("kernel.py:hanging"), "cpu", limit_s=0.1)
    assert told == Inability("timeout", ("its first call took longer than 0.1 s",))


def test_who_comes_back_is_not_in_the_way(kernels):
    assert inability_tried_apart(bring("kernel.py:right"), "cpu") is None


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("raising", "error", "KeyError: 'no such tile' TRIED at FILE:14"),
        ("lacking", "unavailable", "ModuleNotFoundError: No module named 'no_such_library' TRIED"),
    ],
)
def test_what_a_brought_kernel_raises_is_its_error_unless_something_is_lacking(
    kernels, name, status, reason
):
    told = inability(bring(f"kernel.py:{name}"), "cpu")
    assert told == Inability(
        status, (reason.replace("TRIED", TRIED).replace("FILE", str(kernels)),)
    )


def test_a_brought_triton_kernel_without_a_gpu_says_how_to_prove_it(kernels):
    told = inability(bring("kernel.py:on_a_gpu"), "cpu")
    assert told is not None and told.status == "unavailable"
    assert told.reasons[0].startswith("RuntimeError: 0 active drivers")
    line = "TRITON_INTERPRET=1 python -m impls check --impl kernel.py:on_a_gpu"
    assert f"`{line}`" in told.reasons[1]


@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [
        ("aligned_left", True),
        ("aligned_right", False),
        ("square", False),
        ("refusing", False),
        ("without_causal", False),
    ],
)
def test_causal_that_is_wrong_where_queries_and_keys_differ_is_found(tmp_path, name, is_wrong):
    """SDPA's is_causal is aligned to the top left: right at every square problem."""
    (tmp_path / "kernel.py").write_text(CAUSAL)
    fault = rectangular_fault(bring(f"{tmp_path / 'kernel.py'}:{name}"), "cpu")
    assert bool(fault) == is_wrong and (not fault or fault.startswith(TOP_LEFT))


@pytest.mark.slow
def test_a_run_says_so_before_its_cells_and_in_its_findings(tmp_path):
    sizes = ("--problem", "T=33,H=2,d_h=16,causal", "--benchmark-max-time", "0.02")
    found = run_suites(tmp_path, "--impl", "kernel.py:aligned_left", *sizes, kernel=CAUSAL)
    assert found.code == 0 and found.statuses()["aligned_left 33"] == "ok"
    assert "WARNING: aligned_left is wrong for causal T_q ≠ T_kv" in found.output
    told = findings(load_run(found.folder))[0].sentence
    assert told.startswith(f"aligned_left is wrong for causal T_q ≠ T_kv ({TOP_LEFT}")
    assert "python -m impls check --impl kernel.py:aligned_left shows more" in told


def test_ours_are_called_here_alone(monkeypatch):
    def never(*_):
        raise AssertionError("it was called apart")

    monkeypatch.setattr("impls.interface.first_call._died", never)
    ours = Implementation("ours", lambda q, k, v, **_: q, "", source="impls/ours.py")
    assert inability_tried_apart(ours, "cpu") is None
