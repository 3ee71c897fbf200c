"""A new implementation, a new sweep and a new figure are one new file each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite_process import ROOT, command, measured

IMPLEMENTATION = '''
"""A new implementation."""

import torch

from impls.interface.attention import Capabilities, Implementation


def forward(q, k, v, *, causal=False, window=None, mask=None, scale=None, softcap=None):
    """Full attention only."""
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


brand_new = Implementation(
    name="brand_new",
    forward=forward,
    summary="new",
    capabilities=Capabilities(passes=("forward",), needs=(), gqa=False, causal=False, window=False),
)
'''
SWEEP = '''
"""A new sweep, over the batch."""

from impls.interface.problem import Problem
from suites.session.sweep import Series

AXIS = "batch"


def series(device, dtype):
    """B doubles."""
    one = Problem(B=1, T_q=32, T_kv=32, H=2, d_h=16, dtype=dtype)
    return [Series("B", tuple(one.with_(B=B) for B in (1, 2, 4)))]


def bench_batch(cell, measure):
    """Measure one cell."""
    measure(cell)
'''
FIGURE = '''
"""A new figure."""

from matplotlib.figure import Figure

TITLE = "Brand new"


def draw(run):
    """One bar per cell."""
    figure = Figure()
    axes = figure.add_subplot()
    axes.bar(range(len(run.comparable_cells)), [c.time_s for c in run.comparable_cells])
    return figure
'''


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the house with three new files in it."""
    copy = tmp_path_factory.mktemp("house")
    for name in ("impls", "suites", "results", "reports"):
        ignored = shutil.ignore_patterns("__pycache__", "runs", "ceilings", "out")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "impls" / "brand_new.py").write_text(IMPLEMENTATION.lstrip())
    (copy / "suites" / "bench_batch.py").write_text(SWEEP.lstrip())
    (copy / "reports" / "figures" / "brand_new.py").write_text(FIGURE.lstrip())
    return copy


def test_three_new_files_are_measured_swept_and_drawn(checkout: Path):
    line, environment = command(checkout, "--impl", "brand_new", "--benchmark-max-time", "0.05")
    line = [
        str(checkout / "suites" / "bench_batch.py") if x == str(ROOT / "suites") else x
        for x in line
    ]
    environment["PYTHONPATH"] = os.pathsep.join([str(checkout), str(ROOT)])
    done = subprocess.run(
        line,
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = measured(checkout, done.returncode, done.stdout + done.stderr)
    assert found.code == 0, found.output
    cells = {(c["implementation"], c["problem"]["B"]): c["status"] for c in found.cells}
    assert cells == {(name, B): "ok" for name in ("brand_new", "naive") for B in (1, 2, 4)}
    assert {c["suite"] for c in found.cells} == {"batch"}
    reports = [sys.executable, "-m", "reports", str(found.folder), "--out", str(checkout / "out")]
    drawn = subprocess.run(
        reports,
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert drawn.returncode == 0, drawn.stderr
    assert [p.suffix for p in sorted((checkout / "out").rglob("brand_new.*"))] == [".png", ".svg"]
    (page,) = (checkout / "out").rglob("report.html")
    assert "Brand new" in page.read_text()
