"""Labels, legends and ticks: every series named, nothing covered or cut off (I04, I08)."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from impls.interface.problem import Problem
from reports import comparison_figure
from reports.axes import DPI, new_figure
from reports.comparison import compared
from reports.facets import facets
from reports.figures import PNG_DPI, drawing_rules, latency, roofline
from reports.history import trend
from reports.history.trends import machine_of
from reports.labels import spread
from reports.legend import choose, looks_of
from reports.points import points
from reports.style import count_name, looks, plain, quantity
from results.run import Run
from results.store import list_runs, load_run
from results.timed_runs import timed_runs
from tests.drawn_run import SIX, drawn, rendered, sweep, tick_texts
from tests.fake_launches import noisy, write_side
from tests.fake_run import cell


@pytest.fixture
def run_of(run_directory):
    """`run_of(records)` → the run as it is read from disk."""
    days = itertools.count(1)

    def make(records: list[dict], **keywords) -> Run:
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=records, created=created, **keywords))

    return make


def label_boxes(figure: Figure):
    """(text, box in pixels) of every straight label; slanted ones have no box of their own."""
    figure.canvas.draw()
    return [
        (text.get_text(), text.get_window_extent())
        for axes in figure.axes
        for text in axes.texts
        if (text.get_gid() or "").startswith("label") and not text.get_rotation()
    ]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    return [
        (name, other)
        for (name, box), (other, second) in itertools.combinations(label_boxes(figure), 2)
        if box.x0 < second.x1 and second.x0 < box.x1 and box.y0 < second.y1 and second.y0 < box.y1
    ]


def outside(figure: Figure) -> list[str]:
    width, height = figure.get_size_inches() * figure.dpi
    return [
        name
        for name, box in label_boxes(figure)
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]


@pytest.mark.parametrize("module", [roofline, latency])
def test_labels_touch_neither_one_another_nor_the_edge(run_of, module):
    figure = drawn(module, run_of(sweep()))
    assert overlapping(figure) == []
    assert outside(figure) == []
    named = " ".join(name for name, _ in label_boxes(figure))
    assert all(name in named for name in SIX)


def test_ticks_are_the_measured_sizes_in_numeric_order(run_of):
    # I08: as text they would sort 1024, 128, 512, 64
    figure = drawn(latency, run_of(sweep(lengths=(1024, 64, 512, 128))))
    assert tick_texts(figure.axes[1].xaxis) == ["64", "128", "512", "1k"]
    lines = [np.asarray(line.get_xdata()).tolist() for line in figure.axes[0].lines]
    swept = [line for line in lines if len(line) == 4]
    assert len(swept) == 7 and all(line == [64, 128, 512, 1024] for line in swept)


def test_log_ticks_are_plain_numbers(run_of):
    figure = drawn(roofline, run_of(sweep(names=("naive",))))
    said = tick_texts(figure.axes[0].xaxis) + tick_texts(figure.axes[0].yaxis)
    assert said and all(re.fullmatch(r"[0-9.]+", text) for text in said), said


def eighty() -> list[dict]:
    heads_of = [(1, 512), (2, 256), (4, 128), (8, 64), (16, 32), (32, 16), (64, 8), (12, 64)]
    return [
        cell(
            "_naive" if i == 0 else f"impl{i}",
            Problem(B=1, T_q=T, T_kv=T, H=H, d_h=d_h),
            1e-8 * T * T * (1 + i + j / 10) * H * d_h / 512,
            series=f"T at H {H}, full",
        )
        for i in range(10)
        for j, (H, d_h) in enumerate(heads_of)
        for T in (128, 512, 2048)
    ]


@pytest.mark.parametrize("module", [roofline, latency])
def test_eighty_series_have_a_legend_inside_the_image_and_none_is_lost(run_of, module):
    figure = drawn(module, run_of(eighty()))
    legend = figure.axes[-1]
    said = [text.get_text() for text in legend.texts]
    assert said[-1] == "64 further series: in the table" and len(said) - 1 == 16
    assert any(text.startswith("_naive ") for text in said)
    assert outside(figure) == [] and overlapping(figure) == []


LONG = [f"attention_of_a_library_with_a_long_name_and_more_{n}" for n in range(12)]


def test_a_legend_of_long_names_stays_inside_the_image(run_of):
    figure = drawn(roofline, run_of(sweep(LONG, lengths=(128, 512))))
    figure.canvas.draw()
    named = [t for t in figure.axes[-1].texts if t.get_text().startswith("attention_of")]
    assert len({text.get_text() for text in named}) == 12
    assert all(text.get_window_extent().x1 <= figure.bbox.width for text in named)


def test_long_names_beside_a_comparison_and_over_trends_keep_their_room(tmp_path):
    """Two runs as well: their dates were written into one another."""
    names = [f"{name} T=64,H=1,d_h=8" for name in LONG[:2]]
    for day in (1, 2):
        write_side(tmp_path, noisy(1, 2, seed=day), names, day=day)
    one, other = (load_run(folder) for folder in sorted(tmp_path.glob("*/*")))
    side_by_side: Any = compared([one, other])
    shown: Any = machine_of(
        timed_runs(tmp_path, list_runs(tmp_path), lambda _: True), "cpu-0123456789ab"
    )
    for module, found in ((comparison_figure, side_by_side), (trend, shown)):
        with drawing_rules():
            figure = module.draw(found)
        assert figure is not None
        figure.canvas.draw()
        boxes = [
            t.get_window_extent()
            for axes in figure.axes
            for t in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels())
            if t.get_text() and t.get_visible()
        ]
        assert min(box.x0 for box in boxes) >= 0 and max(b.x1 for b in boxes) <= figure.bbox.width
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_an_implementation_has_one_colour_in_all_its_series_and_no_two_look_the_same(run_of):
    run = run_of(eighty())
    panels = facets(points(run.cells)[0])
    pen, own = choose(run, panels), looks_of(run)
    owners = {series.name: series.implementation for panel in panels for series in panel.series}
    seen = [(name, pen.looks[name]) for name in pen.named]
    assert len({(look.colour, str(look.dash), look.marker) for _, look in seen}) == len(seen) == 16
    assert all(look.colour == own[owners[name]].colour for name, look in seen)


def test_twelve_implementations_are_told_apart(run_of):
    names = ["_naive", *(f"impl{i}" for i in range(11))]
    figure = drawn(roofline, run_of(sweep(names=names, lengths=(128, 512))))
    legend = figure.axes[-1]
    assert {text.get_text() for text in legend.texts} == set(names)
    handles = [line for line in legend.lines if line.get_marker() not in ("None", None, "")]
    assert len({(line.get_color(), line.get_marker()) for line in handles}) == 12
    assert outside(figure) == []


def test_words_are_as_wide_in_the_file_as_where_they_were_placed():
    """Letters of a range grew by a tenth at the files' dpi, onto the point they stood beside."""
    inches = []
    with drawing_rules():
        for dpi in (DPI, PNG_DPI):
            figure = new_figure(4, 4)
            figure.set_dpi(dpi)
            text = figure.text(0, 0, "T 128…16k", fontsize=7.5)
            inches.append(text.get_window_extent().width / dpi)
    assert inches[1] == pytest.approx(inches[0], rel=0.01)


def test_a_name_looks_the_same_whatever_else_is_in_the_run():
    few, many = looks(["naive", "sdpa_flash"]), looks(["naive", "sdpa_flash", "flex", "mine"])
    assert few["naive"] == many["naive"] and few["sdpa_flash"] == many["sdpa_flash"]
    assert (
        len({(n.colour, n.marker, str(n.dash)) for n in looks(map(str, range(80))).values()}) == 80
    )


def test_a_dollar_or_an_angle_in_a_name_is_shown_as_it_is(run_of):
    svg = rendered(latency, run_of(sweep(names=("$x^2$ <b>",)))).svg
    assert "$x^2$ &lt;b&gt;" in svg


def test_a_name_in_another_script_is_drawn_without_a_word_on_stderr(run_of):
    svg = rendered(latency, run_of(sweep(names=("日本", "naïve")))).svg
    assert "日本" in svg and "naïve" in svg


@pytest.mark.parametrize(
    ("wanted", "gap", "low", "high"),
    [([5, 5, 5], 2, 0, 20), ([0, 0, 19], 3, 0, 20), ([9, 1, 9.5], 1, 0, 10), ([1] * 30, 2, 0, 10)],
)
def test_spread_labels_keep_their_order_their_gap_and_their_room(wanted, gap, low, high):
    placed = spread(wanted, gap, low, high)
    possible = min(gap, (high - low) / (len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], placed[i]))
    in_order = [placed[i] for i in order]
    assert all(b - a > possible - 1e-9 for a, b in itertools.pairwise(in_order))
    assert low - 1e-9 <= min(placed) and max(placed) <= high + 1e-9
    assert spread([3.0, 15.0], 2, 0, 20) == [3.0, 15.0], "what does not touch is not moved"


def test_numbers_are_written_in_plain_digits():
    assert [plain(v) for v in (0.0000123, 9.996, 1504.4, 0)] == ["0.0000123", "10.0", "1504", "0"]
    assert [quantity(v, "FLOP/s") for v in (203e9, 38.24e9)] == ["203 GFLOP/s", "38.2 GFLOP/s"]
    assert quantity(0.0123e-6, "s") == "12.3 ns"
    assert [count_name(n) for n in (64, 1000, 1024, 1536, 131072)] == [
        "64",
        "1000",
        "1k",
        "1.5k",
        "128k",
    ]


def test_levels_too_near_to_be_told_apart_are_named_together_above_them(run_of):
    """Names between lines a few pixels apart were struck through."""

    def three_providers(header):
        best = header["ceilings"]["gemm"]["float32"]
        for name, rate in (("numpy", 97e9), ("mkldnn", 94e9)):
            best["providers"] = best["providers"] | {name: {"flop_per_s": rate}}

    figure = drawn(roofline, run_of(sweep(names=("naive",)), change=three_providers))
    together = "torch.mm 100 GFLOP/s (measured)\nnumpy 97.0 GFLOP/s\nmkldnn 94.0 GFLOP/s"
    boxes = [box for name, box in label_boxes(figure) if name == together]
    axes = figure.axes[0]
    assert len(boxes) == 2 and boxes[0].y0 >= axes.transData.transform((1, 100e9))[1]
    paper = [text.get_bbox_patch() for axes in figure.axes for text in axes.texts]
    assert all(patch is not None for patch in paper), "no line shows through letters"


def test_a_name_among_the_points_of_others_has_a_leader_to_its_own(run_of):
    def leaders(names):
        axes = drawn(roofline, run_of(sweep(names=names, lengths=(512, 1024)))).axes[0]
        return sum(line.get_linewidth() == 0.6 for line in axes.lines)

    assert leaders(("naive",)) == 0
    assert leaders(("naive", "sdpa_math", "compiled_naive")) >= 2
