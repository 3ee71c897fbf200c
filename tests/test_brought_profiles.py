"""A static run of a kernel that was brought: what is told of it, and what is not asked of it."""

from __future__ import annotations

from typing import Any

import pytest

from reports.next_steps import next_steps
from reports.static_page import static_page
from results.findings import findings
from results.run import Run
from results.store import load_run
from tests.fake_profiles import profile
from tests.fake_static_run import write_static_run

MINE: dict[str, Any] = {
    "kernel": "add",
    "origin": "mine.py",
    "dtype": None,
    "d_h": None,
    "is_default": False,
    "bound__of": "dram",
    "bound__limited_by": "dram",
}


def run_of(tmp_path, *records) -> Run:
    return load_run(write_static_run(tmp_path / "runs", records))


def told(run: Run) -> str:
    return " ".join(finding.sentence for finding in findings(run))


def test_a_brought_kernel_that_compiled_is_told_of(tmp_path):
    run = run_of(tmp_path, profile(**MINE, arch="sm_80"), profile(**MINE, arch="sm_90"))
    assert "Of 2 compiled blocks none spills a register." in told(run)
    assert "Share of the memory bandwidth" in told(run)
    assert "sm_80 66 to 100 % (add, limited by device memory)" in told(run)
    assert "No kernel of this run compiled" not in static_page(run, [])


def test_spills_of_a_brought_kernel_are_counted(tmp_path):
    spilling = profile(**MINE, resources__spill_stores=3, resources__spill_loads=4)
    assert (
        "1 of 1 compiled block spill, none of them in the hot loop; most: add sm_90 with 3 stores "
        "and 4 loads." in told(run_of(tmp_path, spilling))
    )


@pytest.mark.parametrize(
    ("is_brought", "commands"), [(True, ["show"]), (False, ["gate --static", "show"])]
)
def test_the_gate_is_proposed_for_shipped_kernels_alone(tmp_path, is_brought, commands):
    run = run_of(tmp_path, profile(**MINE) if is_brought else profile())
    lines = next_steps(run)
    assert [line.partition(" results ")[2].rpartition(" ")[0] for line in lines] == commands
