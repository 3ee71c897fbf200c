"""Where a layer's time goes: its parts put together, told in a sentence and drawn as shares."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from impls.interface import layer_cost
from impls.interface.layer_problem import core_of, prefill_part
from impls.interface.layer_shape import LayerShape
from reports.figures import breakdown, latency, roofline
from results.answers.layer import answer
from results.findings import closest_to_bound, findings
from results.layer_parts import breakdowns
from results.phrases import where
from results.store import load_run
from suites import bench_layer
from tests.drawn_run import drawn, rendered, title_of
from tests.fake_cells import cell

BASE = LayerShape(d_model=512, H=8, is_causal=False)
GROUPED = LayerShape(d_model=1024, H=8, H_kv=2)
# Hundredths of a second of each part at T = 512; the core's grow with T², the others' with T.
TIMES = {"projections": 6.0, "core": 5.0, "output": 2.0, "layer": 14.0, "feed_forward": 16.0}
TIMES |= {"block": 33.0, "dropout": 36.3}


@pytest.fixture
def run_of(run_directory):
    days = itertools.count(1)

    def make(records):
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=list(records), created=created))

    return make


def layer_cells(
    shape=BASE, lengths=(512, 1024), names=("flash",), label="base", pass_="forward", flags=()
):
    """Every part at every length, as the sweep has them."""
    changes = {"pass": pass_, "flags": list(flags)}
    records = []
    for T in lengths:
        core_time = TIMES["core"] * (T / 512) ** 2
        for name, time in TIMES.items():
            time *= T / 512
            if name == "core":
                time = core_time
            elif name in ("layer", "block", "dropout"):
                time += core_time - TIMES["core"] * T / 512
            part = {"core": "layer", "dropout": "block"}.get(name, name)
            d_ff = 4 * shape.d_model if part in ("feed_forward", "block") else 0
            dropout = 0.1 if name == "dropout" else 0.0
            problem = prefill_part(
                shape, part, B=1, T=T, dtype="float32", d_ff=d_ff, dropout=dropout
            )
            problem = core_of(problem) if name == "core" else problem
            by = names if problem.has_core else ("naive",)
            series = f"T, {label}, {name}"
            records += [
                cell(one, problem, time / 1e2, suite="layer", series=series, **changes)
                for one in by
            ]
    return records


def test_the_parts_of_each_layer_are_put_together_with_what_is_left(run_of):
    records = layer_cells(names=("naive", "flash")) + layer_cells(GROUPED, (512,), label="grouped")
    found = breakdowns(run_of(records).cells)
    assert [(one.implementation, one.problem.T_q, one.problem.H_kv) for one in found] == [
        *(("naive", 512, 8), ("flash", 512, 8), ("naive", 1024, 8), ("flash", 1024, 8)),
        ("flash", 512, 2),
    ]
    for one in found[:2]:
        assert one.whole == "block" and one.parts[1] == "core"
        # 33 − (6 + 5 + 2 + 16).
        assert one.rest_s == pytest.approx(0.04)
        assert one.core_time_share == pytest.approx(5 / 14)


@pytest.mark.parametrize("shape", [BASE, GROUPED])
def test_the_core_s_share_of_flop_and_its_crossing_are_those_of_the_cost_model(shape, run_of):
    for one in breakdowns(run_of(layer_cells(shape, (128, 640))).cells):
        flop = layer_cost.prefill_flop(shape, one.problem.T_q)
        assert one.core_flop_share == pytest.approx(flop.core_share)
        crossing = layer_cost.crossing_T(shape, layer_cost.prefill_flop)
        assert math.ceil(one.crossing_T - 1e-6) == crossing


def test_a_layer_without_one_of_its_parts_is_not_put_together(run_of):
    missing = [r for r in layer_cells(lengths=(512,)) if "projections" not in r["series"]]
    assert breakdowns(run_of(missing).cells) == []
    broken = {"status": "error", "timing": None, "check": None, "reasons": ["it broke"]}
    records = [r | broken if r["series"].endswith("core") else r for r in layer_cells()]
    run = run_of(records)
    assert breakdowns(run.cells) == [] and answer(run) is None


def test_the_sentence_tells_shares_of_time_and_flop_with_their_crossing(run_of):
    training = layer_cells(lengths=(1024,), pass_="forward_backward")
    for record in training:
        record["timing"] = {**record["timing"], "median_s": 3 * record["timing"]["median_s"]}
    found = answer(run_of(layer_cells() + training))
    assert found is not None
    # At T = 1024: 12 + 20 + 4 of the layer's 38 ms (28 + 20 − 10); of the block's 76 + 32 …
    assert found.sentence == (
        "At T = 1024, d_model 512 (full, H 8, fp32; 1 launch), the core takes 53 % of the layer's "
        "time with flash and has 50 % of its FLOP, at T = 512 36 % and 33 %; their FLOP are equal "
        "at T = 1024; of the block's time the projections 16 %, the core 26 %, the output "
        "projection 5 %, the feed-forward part 42 % and the rest 11 %; dropout 0.1 adds 9 %; with "
        "its backward the block takes 3.00 × its forward."
    )
    assert len(found.cells) == 21


def test_the_block_is_told_where_it_was_measured_last(run_of):
    """The budget ended within the longer layer's parts: its block, and the dropout, were lost."""
    records = [
        record
        for record in layer_cells()
        if record["problem"]["T_q"] == 512
        or record["series"].rpartition(" ")[2] not in ("feed_forward", "block", "dropout")
    ]
    found = answer(run_of(records))
    assert found is not None
    # At T = 512 the block has 33 ms, 36.3 with dropout.
    assert "At T = 1024" in found.sentence
    assert "of the block's time at T = 512 the projections 18 %" in found.sentence
    assert found.sentence.endswith("; dropout 0.1 adds 10 %.")


def test_dropout_that_takes_no_longer_is_told_so(run_of):
    records = layer_cells(lengths=(512,))
    block = next(r for r in records if r["series"].endswith("block"))
    for record in records:
        if record["series"].endswith("dropout"):
            record["timing"] = block["timing"]
    found = answer(run_of(records))
    assert found is not None
    assert found.sentence.endswith("; dropout 0.1 adds nothing that could be measured.")


def test_cells_in_doubt_are_not_told_but_drawn_and_counted(run_of):
    run = run_of(layer_cells(flags=["contended"]))
    assert answer(run) is None
    figure = drawn(breakdown, run)
    told = " ".join(text.get_text() for text in figure.texts)
    assert "14 of the cells are flagged" in told and "Dropout" not in told


def bars_of(axes) -> dict[str, Rectangle]:
    return {str(bar.get_gid()): bar for bar in axes.patches if isinstance(bar, Rectangle)}


def test_each_bar_s_shares_add_up_to_the_whole(run_of):
    figure = drawn(breakdown, run_of(layer_cells(names=("naive", "flash"))))
    assert len(figure.axes) == 2
    for axes in figure.axes:
        bars = bars_of(axes)
        for x, core in ((0, 5 / 33), (1, 20 / 76)):
            those = [bar for gid, bar in bars.items() if gid.endswith(f"-{x}")]
            assert sum(bar.get_height() for bar in those) == pytest.approx(1.0)
            found = next(bar for bar in those if "part-core-" in str(bar.get_gid()))
            assert found.get_height() == pytest.approx(core) and found.get_y() == 0.0
        lines = {str(n.get_gid()): np.asarray(n.get_ydata())[0] for n in axes.lines}
        share = next(y for gid, y in lines.items() if gid.endswith("-1"))
        # FLOP a token at T = 1024 by d_model²: 4·2 of products, 2·4·T/d_model / 2, 4·2·2 of d_ff.
        assert share == pytest.approx(8 / (8 + 8 + 16))
    assert "adds 9 to 10 % of the block's time" in " ".join(t.get_text() for t in figure.texts)
    assert [t.get_text().split("\n")[0] for t in figure.axes[0].get_xticklabels()] == ["512", "1k"]


def test_no_number_is_struck_through_and_no_mark_stands_in_a_title(run_of):
    """FLOP of the core at T = 1024 are 25 % of the block's: the middle of the projections' bar."""
    records = layer_cells(lengths=(512, 1024, 2048))
    for record in records:
        factor = {"projections": 2.0, "core": 0.3}.get(record["series"].split(", ")[-1], 1.0)
        median_s = factor * record["timing"]["median_s"]
        record["timing"] = {**record["timing"], "median_s": median_s}
    figure = drawn(breakdown, run_of(records))
    figure.canvas.draw()
    (axes,) = figure.axes
    lines = {str(line.get_gid()): line for line in axes.lines}
    numbers = [text for text in axes.texts if text.get_text().isdigit()]
    assert len(numbers) > 6
    for text in numbers:
        box, x = text.get_window_extent(), round(text.get_position()[0])
        share = np.asarray(lines[f"flop-0-{x}"].get_ydata())[0]
        y = axes.transData.transform((x, share))[1]
        assert not box.y0 < y < box.y1, text.get_text()
    mark, title = lines["crossing-0"], title_of(axes).get_window_extent()
    assert mark.get_window_extent().y1 <= title.y0


def test_parts_that_take_longer_apart_than_together_are_shares_of_their_sum(run_of):
    records = layer_cells(lengths=(512,))
    for record in records:
        if record["series"].endswith("block"):
            record["timing"] = {**record["timing"], "median_s": 0.2}
    figure = drawn(breakdown, run_of(records))
    heights = [bar.get_height() for bar in bars_of(figure.axes[0]).values()]
    assert sum(heights) == pytest.approx(1.0) and min(heights) == 0.0


def test_a_layer_alone_is_drawn_without_a_block(run_of):
    alone = [r for r in layer_cells() if r["series"].split(", ")[-1] in (*TIMES,)[:4]]
    figure = drawn(breakdown, run_of(alone))
    assert figure.axes[0].get_ylabel() == "share of the layer's time"
    found = answer(run_of(alone))
    assert found is not None and "block" not in found.sentence


def test_no_id_comes_twice_and_nothing_is_drawn_of_other_sweeps(run_of):
    svg = rendered(breakdown, run_of(layer_cells(names=("naive", "flash")))).svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    problem = core_of(prefill_part(BASE, "layer", B=1, T=64, dtype="float32"))
    assert breakdown.draw(run_of([cell("naive", problem, 0.1)])) is None


def test_layers_stay_out_of_the_figures_and_findings_of_attention(run_of):
    layers = [r for r in layer_cells() if not r["series"].endswith("core")]
    run = run_of(layers)
    assert latency.draw(run) is None and roofline.draw(run) is None
    assert closest_to_bound(run) is None


def test_a_sentence_names_the_part(run_of):
    run = run_of(layer_cells(lengths=(512,)))
    told = {where(c, run) for c in run.cells}
    assert "T = 512, output projection (H 8, d_h 64, d_model 512, fp32, bthd)" in told
    assert any(", block with dropout 0.1 (" in t for t in told)
    assert len(told) == len(TIMES)
    assert findings(run)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_sweep_has_every_part_at_every_length_and_asks_once_for_what_has_no_core(device):
    series = bench_layer.series(device, "float32")
    assert len({line.label for line in series}) == len(series) == 14
    for name in ("base", "grouped"):
        ladders = [line for line in series if line.label.startswith(f"T, {name}, ")]
        lengths = {tuple((p.B, p.T_q) for p in line.problems) for line in ladders}
        assert len(ladders) == 7 and len(lengths) == 1
        cores = {p for line in ladders for p in line.problems if p.is_attention}
        layers = {
            p for line in ladders for p in line.problems if p.around and p.around.part == "layer"
        }
        assert cores == {core_of(p) for p in layers}
    for line in series:
        if not line.problems[0].has_core:
            assert line.implementations == ("naive",)
    if device == "cuda":
        assert {p.B * p.T_q for line in series for p in line.problems} == {16384}
