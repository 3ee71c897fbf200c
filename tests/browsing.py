"""A report to open in the tests' browser, and what tests ask of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from tests.chromium import executable
from tests.fake_run import cell, default_cells, write_run

VISIBLE = "[...document.querySelectorAll('#cells tbody tr')].filter(row => !row.hidden)"
NASTY = 'a "b" <i>&-2'
needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(executable() is None, reason="no Chromium on this machine (apt: chromium)"),
]


def written(tmp: Path, records: list[dict]) -> Path:
    """The page of a run of these records."""
    write_run(tmp / "runs", records=records)
    main(["--store", str(tmp / "runs"), "--out", str(tmp / "out")])
    (page,) = (tmp / "out").glob("*/report.html")
    return page


def awkward_report(tmp: Path) -> Path:
    """The fake run, an implementation of an awkward name and two sizes of heads in it."""
    problem = Problem.parse("T=512,H=8,d_h=64")
    few = problem.with_(H=4, H_kv=2)
    others = [cell(NASTY, problem, 0.004), cell("naive", few, 0.004), cell(NASTY, few, 0.001)]
    return written(tmp, [*default_cells(), *others])
