"""Running `pytest suites` as a user does, and reading what it left.

A process of its own costs three seconds, most of them torch's: tests that only read share a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from suites.measure.journal import row_of

ROOT = Path(__file__).resolve().parents[1]

# Ceilings as fast as no machine is, so that no cell is above them; measuring real ones takes 8 s.
_FAST = {"flop_per_s": 1e13, "median_flop_per_s": 1e13, "provider": "test", "size": 512}
_GEMM = _FAST | {"providers": {"test": {"flop_per_s": 1e13, "median_flop_per_s": 1e13}}}
_COPY = {"bytes_per_s": 1e12, "copy_bytes_per_s": 1e12, "read_bytes_per_s": 1e12}
ROOFS: dict[str, Any] = {
    "device": "cpu",
    "device_name": "test",
    "threads": 1,
    "measured_utc": "2026-01-01T00:00:00Z",
    "contended": False,
    "foreign_load": 0.0,
    "clock": "cpu_time",
    "datasheet": None,
    "gemm": {"float32": _GEMM, "bfloat16": _GEMM},
    "bandwidth": {
        "dram": _COPY | {"provider": "copy", "working_set_bytes": 1 << 27, "capacity_bytes": None}
    },
    "exp": {"float32": {"exp_per_s": 1e12, "median_exp_per_s": 1e12}},
}
_PLUGIN = """
import suites.measure.ceilings as module
from tests.suite_process import ROOFS

module.ceilings_for = lambda *_, **__: ROOFS
"""
# The first call of a brought kernel is a process too, two seconds for each; `test_first_call.py`
# is about those.
_UNTRIED = """
from impls.interface import first_call

first_call._died = lambda *_: None
"""


@dataclass(frozen=True)
class Measured:
    """What one run of `pytest suites` printed and wrote."""

    code: int
    output: str
    folders: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """The only run directory."""
        (folder,) = self.folders
        return folder

    @property
    def header(self) -> dict[str, Any]:
        """run.json, parsed strictly."""
        return strict((self.folder / "run.json").read_text())

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The last line of each row of the plan in the journal, parsed strictly."""
        lines = [strict(line) for line in (self.folder / "cells.jsonl").read_text().splitlines()]
        return list({row_of(line): line for line in lines}.values())

    def statuses(self) -> dict[str, str]:
        """Status by implementation and T, as "name T"."""
        return {f"{c['implementation']} {c['problem']['T_q']}": c["status"] for c in self.cells}


def strict(text: str) -> Any:
    """JSON without NaN and Infinity."""

    def refuse(word: str) -> float:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def command(
    folder: Path, *arguments: str, is_tried_apart: bool = False
) -> tuple[list[str], dict[str, str]]:
    """The command and environment of `pytest suites` started in `folder`.

    Ceilings are given; `is_tried_apart`: brought kernels are first called in a process, as shipped.
    """
    (folder / "test_roofs.py").write_text(_PLUGIN + ("" if is_tried_apart else _UNTRIED))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "ATTNBENCH"))}
    environment |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "pytest", str(ROOT / "suites"), "-p", "test_roofs"]
    # A user's machine has no hypothesis.
    line += ["-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    return [*line, "--store", str(folder / "store"), *arguments], environment


def run_suites(
    folder: Path, *arguments: str, kernel: str = "", is_tried_apart: bool = False
) -> Measured:
    """Run `pytest suites` in `folder`, with `kernel` written to kernel.py there; see `command`."""
    if kernel:
        (folder / "kernel.py").write_text(kernel)
    line, environment = command(folder, *arguments, is_tried_apart=is_tried_apart)
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    return measured(folder, done.returncode, done.stdout + done.stderr)


def measured(folder: Path, code: int, output: str) -> Measured:
    """What a finished process left in the store of `folder`."""
    folders = tuple(sorted(p.parent for p in (folder / "store").glob("*/*/run.json")))
    return Measured(code, output, folders)


def refused(folder: Path, *arguments: str) -> int:
    """The exit code of a `pytest suites` that ends before it measures, run in this process.

    What it says goes to this process's stdout and stderr.
    """
    given = [str(ROOT / "suites"), "-s", "--store", str(folder / "store"), *arguments]
    for plugin in ("cacheprovider", "faulthandler", "xdist"):
        given += ["-p", f"no:{plugin}"]
    with pytest.MonkeyPatch.context() as patched:
        # Of a test that runs in a worker of pytest-xdist: suites would refuse to.
        patched.delenv("PYTEST_XDIST_WORKER", raising=False)
        patched.chdir(folder)
        return int(pytest.main(given))
