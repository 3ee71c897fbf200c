"""How a supervised run ends: its exit code, its table, and what to type to go on."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from suites.supervisor.display import Display, Lines
from suites.supervisor.request import ROOT
from suites.supervisor.run_files import RunFiles

WRONG, USAGE, BROKEN = 1, 2, 5


def tell_the_end(files: RunFiles, display: Display, code: int, children: int, how: str = "") -> int:
    """Show the run that is over; → `code`, or where that is 0 the code of what was measured.

    `how` is what `resume` is told besides, to go on as this run was measured.
    """
    code = code or _code_of(files)
    left = sum(len(files.left(launch)) for launch in range(1, files.launches + 1))
    display.ends(
        {
            "run": files.name,
            "path": str(files.path),
            "counts": files.counts,
            "cells_left": left,
            "exit_code": code,
            "children": children,
        }
    )
    if isinstance(display, Lines):
        if files.statuses:
            # A process of its own: what a run means is not known here.
            show = [sys.executable, "-m", "results", "show", str(files.path)]
            show += ["--store", str(files.path.parents[1])]
            subprocess.run(show, cwd=ROOT, check=False)
        if left:
            print(f"{left} cells are left. Go on:\n  {_go_on(files.path)}{how}")
    return code


def _code_of(files: RunFiles) -> int:
    found = set(files.statuses.values())
    if "wrong" in found:
        return WRONG
    return BROKEN if found & {"crashed", "timeout", "error"} or "ok" not in found else 0


def _go_on(path: Path) -> str:
    there = "" if Path.cwd() == ROOT else f"cd {shlex.quote(str(ROOT))} && "
    return f"{there}{shlex.quote(sys.executable)} -m suites resume {shlex.quote(str(path))}"
