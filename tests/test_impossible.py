"""A row that beats its machine is marked impossible, whoever wrote the file."""

from __future__ import annotations

import pytest

from impls.interface.problem import Problem
from results.findings import findings
from results.store import load_run
from tests.fake_cells import cell

PROBLEM = Problem(B=1, T_q=512, T_kv=512, H=8, d_h=64)


@pytest.mark.parametrize(
    ("times_the_peak", "is_flagged"), [(0.9, False), (1.02, False), (1.3, True), (30.0, True)]
)
def test_a_time_above_the_peak_is_flagged_when_the_file_does_not(
    run_directory, times_the_peak: float, is_flagged: bool
):
    honest, impossible = (cell(name, PROBLEM, time_s=0.01) for name in ("naive", "sdpa_flash"))
    assert impossible["bound"]
    impossible["timing"]["median_s"] = impossible["bound"]["time_s"] / times_the_peak
    impossible["flags"] = []
    run = load_run(run_directory(records=[honest, impossible]))
    found = next(c for c in run.cells if c.implementation == "sdpa_flash")
    assert ("above_ceiling" in found.flags) == is_flagged
    assert found.is_comparable != is_flagged
    if is_flagged:
        assert all("sdpa_flash" not in f.sentence for f in findings(run) if "fastest" in f.sentence)
