"""What a line joins: problems that differ in the swept size alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports.facets import facets
from reports.figures import latency, roofline
from reports.points import points
from reports.sweep import bound_lines
from results.run import Run
from results.store import load_run
from tests.drawn_run import drawn, texts
from tests.fake_run import cell

SQUARE = Problem.parse("B=1,T=256,H=4,d_h=64,causal")
DECODE = SQUARE.with_(T_q=1, T_kv=512)


@pytest.fixture
def run_of(run_directory):
    """`run_of(problems)` → a run of naive on each of them, all in one series."""
    days = itertools.count(1)

    def make(problems: list[Problem], series: str = "given") -> Run:
        records = [cell("naive", p, 0.01 * i, series=series) for i, p in enumerate(problems, 1)]
        return load_run(run_directory(records=records, created=f"202611{next(days):02}T000000Z"))

    return make


def names(run: Run) -> list[list[str]]:
    """The names of the series, by panel."""
    return [[series.name for series in facet.series] for facet in facets(points(run.cells)[0])]


def test_a_decode_step_is_no_point_of_the_line_of_a_prefill(run_of):
    """T_q = 1 over 512 keys was joined to T = 256, and its bound as well."""
    run = run_of([SQUARE, DECODE])
    assert names(run) == [["naive", "naive T_q 1"]]
    (facet,) = facets(points(run.cells)[0])
    assert [len(line) for line in bound_lines(facet)] == [1, 1]
    for module in (roofline, latency):
        lines = [line for axes in drawn(module, run).axes for line in axes.lines]
        joined = [line for line in lines if line.get_linewidth() in (1.2, 1.5)]
        assert joined and all(np.asarray(line.get_xdata()).size == 1 for line in joined)


def test_decode_steps_over_growing_caches_are_one_line(run_of):
    run = run_of([DECODE, DECODE.with_(T_kv=1024), SQUARE, SQUARE.with_(T_q=512, T_kv=512)])
    assert names(run) == [["naive T_q 1", "naive"]]
    said = texts(drawn(roofline, run))
    assert "T_kv 512…1k" in said and "T 256…512" in said
    labels = [axes.get_xlabel() for axes in drawn(latency, run).axes]
    assert labels[1] == "sequence length T; T_kv where a name has T_q"


def test_unrelated_problems_are_not_joined_because_each_size_comes_once(run_of):
    assert names(run_of([SQUARE, SQUARE.with_(T_q=512, T_kv=512, H=8, H_kv=8)])) == [
        ["naive H 4", "naive H 8"],
    ]
    few = SQUARE.with_(T_q=128, T_kv=128)
    assert names(run_of([SQUARE.with_(B=4), few])) == [["naive B 4", "naive B 1"]]


@pytest.mark.parametrize(
    ("series", "problems"),
    [
        ("T", [SQUARE.with_(B=B, T_q=1024 // B, T_kv=1024 // B) for B in (1, 2, 4)]),
        # B·T = 1024 as far as it can: B stays at 1 where T alone is more.
        ("T", [SQUARE.with_(B=B, T_q=T, T_kv=T) for B, T in ((4, 256), (2, 512), (1, 2048))]),
        ("H", [SQUARE.with_(H=H, H_kv=H, d_h=256 // H, d_v=256 // H) for H in (2, 4, 8)]),
        ("d_h", [SQUARE.with_(H=H, H_kv=H, d_h=256 // H, d_v=256 // H) for H in (2, 4, 8)]),
        ("d_h", [SQUARE.with_(d_h=d_h, d_v=d_h) for d_h in (16, 40, 256)]),
        ("H_kv", [SQUARE.with_(H_kv=H_kv) for H_kv in (1, 2, 4)]),
    ],
)
def test_sizes_whose_product_is_the_same_move_together_on_one_line(run_of, series, problems):
    assert names(run_of(problems, series)) == [["naive"]]
