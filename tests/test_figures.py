"""Figures by their marks and words: what is drawn, and what is said of the rest (I01, P08)."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports.figures import heads, latency, render, roofline
from results.run import Run
from results.store import load_run
from tests.drawn_run import drawn, marks, rendered, sweep, texts, tick_texts
from tests.fake_run import cell


@pytest.fixture
def run_of(run_directory):
    """`run_of(records)` → the run as it is read from disk."""
    days = itertools.count(1)

    def make(records: list[dict], **keywords) -> Run:
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=records, created=created, **keywords))

    return make


def test_roofline_facets_by_mask_and_dtype(run_of):
    single = sweep(names=("naive",))
    half = [r | {"problem": r["problem"] | {"dtype": "bfloat16"}} for r in single]
    for number, record in enumerate(half):
        record["cell"] = f"{number:016x}"
    figure = drawn(roofline, run_of(single + half))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["full · fp32", "causal · fp32", "full · bf16", "causal · bf16"]


def test_roofline_names_every_ceiling_with_its_value_and_the_ridge(run_of):
    def two_providers(header):
        best = header["ceilings"]["gemm"]["float32"]
        slower = {"flop_per_s": 40e9, "median_flop_per_s": 39e9}
        best["providers"] = best["providers"] | {"numpy": slower}

    said = texts(drawn(roofline, run_of(sweep(names=("naive",)), change=two_providers)))
    for words in ("torch.mm 100 GFLOP/s (measured)", "numpy 40.0 GFLOP/s", "L2 190 GB/s"):
        assert words in said
    assert "LLC 100 GB/s" in said and "DRAM 38.0 GB/s" in said
    # 100 GFLOP/s over 38 GB/s is 2.63 FLOP/byte.
    assert "ridge 2.6 (DRAM)" in said


def test_roofline_draws_the_exponential_line_of_each_head_size(run_of):
    def slow_exp(header):
        header["ceilings"]["exp"]["float32"] = {"exp_per_s": 0.5e9}

    # 4 · 64 · 0.5 Gexp/s
    run = run_of(sweep(names=("naive",)), change=slow_exp)
    assert "exp, d_h=64: 128 GFLOP/s" in texts(drawn(roofline, run))


def test_an_exponential_line_far_above_is_said_and_not_drawn(run_of):
    figure = drawn(roofline, run_of(sweep(names=("naive",))))
    # 4 · 64 · 1.6 Gexp/s is more than twice the roof of 100 GFLOP/s
    said = " ".join("\n".join(texts(figure)).split())
    assert "Not in the plot, far above it: what exponentials alone would allow" in said
    assert "R being the measured exponentials per second (exp, d_h=64: 410 GFLOP/s)." in said
    assert not any(line.get_gid() == "roof-exp" for axes in figure.axes for line in axes.lines)


def test_only_lines_that_are_drawn_are_explained(run_of):
    said = " ".join(texts(drawn(roofline, run_of(sweep(names=("naive",))))))
    assert "Solid grey" in said and "Dotted" not in said and "Dashed" not in said


def test_a_datasheet_is_dashed_beside_the_measured_roof(run_of):
    def with_sheet(header):
        header["ceilings"]["datasheet"] = {
            "key": "X",
            "fp32_flop_per_s": 150e9,
            "bytes_per_s": 50e9,
            "source": "sheet",
            "confidence": "A",
        }

    figure = drawn(roofline, run_of(sweep(names=("naive",)), change=with_sheet))
    dashed = [line for line in figure.axes[0].lines if line.get_gid() == "roof-datasheet"]
    assert len(dashed) == 1 and dashed[0].is_dashed()
    assert "datasheet 150 GFLOP/s, 50.0 GB/s" in texts(figure)


def test_a_run_without_ceilings_still_draws_its_points(run_of):
    def none(header):
        header["ceilings"] = None

    run = run_of(sweep(names=("naive",), bound=None), change=none)
    assert marks(rendered(roofline, run).svg) == len(run.cells)
    assert "No ceilings were measured in this run." in "\n".join(texts(drawn(roofline, run)))
    assert marks(rendered(latency, run).svg) == len(run.cells)


def test_a_rate_of_nothing_is_no_roof(run_of):
    def idle(header):
        header["ceilings"]["bandwidth"]["dram"]["bytes_per_s"] = 0.0
        header["ceilings"]["exp"]["float32"]["exp_per_s"] = 0.0

    def no_product(header):
        header["ceilings"]["gemm"]["float32"]["flop_per_s"] = 0.0

    records = sweep(names=("naive",), lengths=(512, 1024))
    said = " ".join(texts(drawn(roofline, run_of(records, change=idle))))
    assert "LLC 100 GB/s" in said and "DRAM" not in said and "exp, d_h" not in said
    said = " ".join(texts(drawn(roofline, run_of(records, change=no_product))))
    assert "No fp32 compute ceiling was measured in this run." in said


def test_without_a_bound_its_strip_says_so_and_nothing_is_said_to_be_shaded(run_of):
    def bare(header):
        header["ceilings"] = None

    said = texts(drawn(latency, run_of(sweep(names=("naive",), bound=None), change=bare)))
    assert said.count("no bound: no ceiling was measured for it") == 2
    assert not any("Shaded" in words for words in said)
    bound = texts(drawn(latency, run_of(sweep(names=("naive",)))))
    assert not any("no bound" in words for words in bound) and any("Shaded" in w for w in bound)


def test_every_ok_cell_is_one_mark_and_marks_grow_with_T(run_of):
    run = run_of(sweep(lengths=(128, 1024, 8192)))
    assert marks(rendered(roofline, run).svg) == len(run.cells) == 36
    assert marks(rendered(latency, run).svg) == 2 * 36  # once above, once in the strip
    lines = drawn(roofline, run).axes[0].lines
    points = [line for line in lines if str(line.get_gid()).startswith("point-")]
    sizes = [point.get_markersize() for point in points if point.get_marker() == "s"]
    assert len(sizes) == 3 and sizes == sorted(set(sizes))


def test_points_of_other_suites_do_not_clutter_the_roofline(run_of):
    problem = Problem.parse("T=1024,H=16,d_h=32")
    other = cell("naive", problem, 0.03, suite="heads", series="H at d_model 512")
    assert marks(rendered(roofline, run_of([*sweep(names=("naive",)), other])).svg) == 14
    assert marks(rendered(roofline, run_of([other])).svg) == 1


def test_points_that_no_log_axis_shows_are_counted_and_named(run_of):
    # I01: latency 0, 5, 7 at T 1, 2, 4 and an error bar of 1 ± 2
    records = []
    for T, time_s in ((1, 0.0), (2, 5.0), (4, 7.0)):
        record = cell("naive", Problem(B=1, T_q=T, T_kv=T, H=1, d_h=8), 1.0)
        # A quartile below zero is refused where a run is read: no clock shows it.
        record["timing"] |= {"median_s": time_s, "q1_s": 0.0, "q3_s": 3 * time_s}
        records.append(record)
    run = run_of(records)
    for module in (roofline, latency):
        foot = "\n".join(texts(drawn(module, run)))
        assert "1 point not drawable: naive B=1,T=1,H=1,d_h=8,float32 (time 0 s)." in foot
    lines = drawn(latency, run).axes[0].lines
    (bars,) = (np.asarray(n.get_ydata()) for n in lines if "whiskers" in (n.get_gid() or ""))
    # lower and upper end of two points; what would cross zero ends at a hundredth of its point
    assert bars[[0, 1, 3, 4]].tolist() == [0.05, 15.0, 0.07, 21.0]


def test_a_wrong_result_is_named_and_not_drawn(run_of):
    wrong = cell("flex", Problem.parse("T=512,H=8,d_h=64"), 0.004, status="wrong")
    run = run_of([*sweep(names=("naive",)), wrong])
    assert marks(rendered(roofline, run).svg) == 14
    assert "flex B=1,T=512,H=8,d_h=64,float32 (wrong result)" in "\n".join(
        texts(drawn(roofline, run))
    )


def test_flagged_points_are_hollow_and_counted(run_of):
    figure = drawn(roofline, run_of(sweep(names=("naive",), flags=["contended"])))
    points = [n for n in figure.axes[0].lines if str(n.get_gid()).startswith("point-")]
    assert {point.get_markerfacecolor() for point in points} == {"white"}
    assert "(contended 14)" in "\n".join(texts(figure))


def test_a_point_far_above_its_bound_is_kept_in_sight_and_named(run_of):
    # P08: 30 times what the machine can do
    ghost = cell("ghost", Problem.parse("T=512,H=8,d_h=64"), 1.8e-4, flags=["above_ceiling"])
    foot = "\n".join(texts(drawn(latency, run_of([*sweep(), ghost]))))
    # 2·8·512²·128 FLOP at 100 GFLOP/s are 5.37 ms
    assert re.search(r"drawn at its edge: ghost B=1,T=512,\S+ at 298[0-9] %", foot)


def test_several_launches_are_one_point_with_their_range(run_of):
    problem = Problem.parse("T=512,H=8,d_h=64")
    records = [cell("naive", problem, t, launch=n + 1) for n, t in enumerate((0.01, 0.012, 0.03))]
    run = run_of(records)
    assert marks(rendered(roofline, run).svg) == 1
    assert "median of 3 launches, bars: fastest and slowest" in "\n".join(
        texts(drawn(latency, run))
    )


def test_heads_are_drawn_by_series_and_only_where_a_run_has_them(run_of):
    assert render(heads, run_of(sweep())) is None
    records = sweep(lengths=(128,))
    for H in (2, 4, 8, 16):
        sizes = Problem(B=1, T_q=1024, T_kv=1024, H=H, d_h=512 // H)
        records.append(cell("naive", sizes, 0.03, suite="heads", series="H at d_model 512"))
    for d_h in (16, 40, 256):
        sizes = Problem(B=1, T_q=1024, T_kv=1024, H=8, d_h=d_h)
        records.append(cell("naive", sizes, 0.02, suite="head_size", series="d_h at H 8"))
    figure = drawn(heads, run_of(records))
    titles = [t for axes in figure.axes if (t := axes.get_title(loc="left"))]
    assert titles == ["full · H at d_model 512", "full · d_h at H 8"]
    assert [axes.get_xlabel() for axes in figure.axes[1::2]] == ["heads H", "head size d_h"]
    assert tick_texts(figure.axes[1].xaxis) == ["2", "4", "8", "16"]
    assert len(figure.axes) == 4, "one line a series: d_h moves with H"
