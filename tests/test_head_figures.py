"""Figures of head counts, head sizes and pruned heads: gaps stay gaps, and quality is beside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from impls.interface.around import Around
from impls.interface.layer_shape import LayerShape
from impls.interface.problem import Problem
from reports.figures import head_count, head_size_independent, heads, pruned_heads
from results.store import load_run
from tests.drawn_run import drawn, marks, rendered, sweep, texts, tick_texts
from tests.fake_cells import cell


@pytest.fixture
def run_of(run_directory):
    days = itertools.count(1)

    def make(records):
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=list(records), created=created))

    return make


def count(name, H, time_s=0.03, part="core", **changes):
    problem = Problem(B=1, T_q=512, T_kv=512, H=H, d_h=512 // H)
    if part == "layer":
        shape = LayerShape(d_model=512, H=H, is_causal=False)
        problem = problem.with_(around=Around("layer", shape))
    series = f"H at d_model 512, {part}"
    return cell(name, problem, time_s, suite="head_count", series=series, **changes)


def size(name, d_h, time_s: float | None = 0.03, **changes):
    problem = Problem(B=1, T_q=128, T_kv=128, H=32, d_h=d_h, causal=True)
    line = {"suite": "head_size_independent", "series": "d_h at H 32, core, T 128"}
    return cell(name, problem, time_s, **line, **changes)


def kept(H, time_s, series="kept of 32 heads, prefill, T 64", d_model=4096):
    around = Around("layer", LayerShape(d_model=d_model, H=H, d_h=128))
    problem = Problem(B=1, T_q=64, T_kv=64, H=H, d_h=128, causal=True, around=around)
    return cell("naive", problem, time_s, suite="pruned_heads", series=series)


def coloured(axes):
    """The lines between points, as (x, y) without their gaps' values."""
    whose = [(line, line.get_gid() or "") for line in axes.lines]
    found = [n for n, gid in whose if n.get_linewidth() == 1.5 and gid.startswith("part-of-")]
    return [(np.asarray(n.get_xdata()), np.asarray(n.get_ydata())) for n in found]


def refused(name, d_h, why):
    return size(name, d_h, None, status="unsupported", reasons=[why])


def test_what_an_implementation_cannot_do_breaks_its_line_and_is_told(run_of):
    records = [size("naive", d_h) for d_h in (16, 64, 128, 256, 512)]
    records += [size("flash", d_h) for d_h in (16, 64, 256)]
    records += [refused("flash", d_h, f"d_h={d_h} is odd") for d_h in (128, 512)]
    figure = drawn(head_size_independent, run_of(records))
    for axes in figure.axes[:2]:
        lines = sorted(coloured(axes), key=lambda line: np.isnan(line[1]).sum())
        (_, whole), (xs, broken) = lines
        assert not np.isnan(whole).any()
        assert dict(zip(xs, np.isnan(broken), strict=True)) == {
            **{16: False, 64: False, 128: True, 256: False},
            512: True,
        }
    said = " ".join("\n".join(texts(figure)).split())
    assert "Gaps: flash at d_h 128, 512 (d_h=128 is odd)." in said


def test_a_size_that_only_another_setting_has_is_no_gap(run_of):
    """Two d_h in one panel of T, each with lengths of its own."""
    from reports.figures import latency

    records = sweep(names=("naive",), lengths=(128, 512, 2048))
    for T in (256, 1024):
        problem = Problem(B=1, T_q=T, T_kv=T, H=8, d_h=32)
        records.append(cell("naive", problem, 1e-7 * T * T))
    lines = coloured(drawn(latency, run_of(records)).axes[0])
    assert len(lines) == 2 and not any(np.isnan(ys).any() for _, ys in lines)


@pytest.mark.parametrize("status", ["skipped", "unavailable"])
def test_what_was_not_tried_is_no_gap_to_explain(run_of, status):
    records = [size("naive", 64), size("naive", 128)]
    records.append(size("naive", 256, None, status=status, reasons=["beyond the budget"]))
    said = "\n".join(texts(drawn(head_size_independent, run_of(records))))
    assert "Gaps" not in said


def test_who_has_no_point_at_all_is_no_gap_in_a_line(run_of):
    records = [size("naive", 64), size("naive", 128), refused("never", 64, "cannot")]
    assert "never" not in "\n".join(texts(drawn(head_size_independent, run_of(records))))


def test_the_papers_quality_stands_beside_its_head_counts_on_the_same_axis(run_of):
    records = [
        count("naive", H, part=part) for H in (1, 4, 8, 16, 32) for part in ("core", "layer")
    ]
    figure = drawn(head_count, run_of(records))
    time, share, *_, perplexity, bleu = figure.axes
    titles = [t for axes in figure.axes if (t := axes.get_title(loc="left"))]
    assert titles == [
        "full · H at d_model 512, core",
        "full · H at d_model 512, layer",
        "published quality of these H",
    ]
    assert perplexity.get_xlim() == pytest.approx(time.get_xlim(), rel=0.01)
    assert tick_texts(bleu.xaxis) == tick_texts(share.xaxis) == ["1", "4", "8", "16", "32"]
    for axes, values in (
        (perplexity, [5.29, 5.00, 4.92, 4.91, 5.01]),
        (bleu, [24.9, 25.5, 25.8, 25.8, 25.4]),
    ):
        (line,) = (n for n in axes.lines if n.get_gid() == "quality")
        assert list(np.asarray(line.get_xdata())) == [1, 4, 8, 16, 32]
        assert list(np.asarray(line.get_ydata())) == values
        assert [float(t.get_text()) for t in axes.texts] == values
    assert "https://arxiv.org/abs/1706.03762" in "\n".join(texts(figure))
    boxes = [axes.get_position() for axes in (time, perplexity)]
    assert boxes[0].y0 == boxes[1].y0 and boxes[1].x0 > boxes[0].x1


def test_labels_of_quality_do_not_cover_its_line(run_of):
    figure = drawn(head_count, run_of([count("naive", H) for H in (1, 8)]))
    figure.canvas.draw()
    for axes in figure.axes[-2:]:
        (line,) = (n for n in axes.lines if n.get_gid() == "quality")
        corners = axes.transData.transform(np.asarray(line.get_xydata()))
        dots = np.concatenate([np.linspace(a, b, 60) for a, b in itertools.pairwise(corners)])
        for text in axes.texts:
            box = text.get_window_extent()
            inside = (dots > (box.x0, box.y0)) & (dots < (box.x1, box.y1))
            assert not inside.all(axis=1).any(), text.get_text()


def test_a_pruned_layer_stands_at_the_share_of_heads_it_kept(run_of):
    records = [kept(H, 0.1 * H / 32) for H in (32, 24, 8, 4)]
    records.append(kept(16, None) | {"status": "oom", "reasons": ["needs 9 GB"]})
    figure = drawn(pruned_heads, run_of(records))
    assert "Gaps: naive at 50 % kept (needs 9 GB)." in " ".join(texts(figure))
    ((xs, _),) = coloured(figure.axes[0])
    assert list(xs) == [12.5, 25, 75, 100]
    assert tick_texts(figure.axes[1].xaxis) == ["12.5 %", "25 %", "75 %", "100 %"]
    assert figure.axes[1].get_xlabel() == "share of the heads kept"
    assert "d_model=4096" in figure.texts[0].get_text()
    half = drawn(pruned_heads, run_of([kept(H, 0.1, d_model=2048) for H in (16, 4)]))
    ((xs, _),) = coloured(half.axes[0])
    assert list(xs) == [25, 100]


def test_panels_of_two_sweeps_in_one_row_have_time_axes_of_their_own(run_of):
    slow = [kept(H, 30.0 * H / 32, "kept of 32 heads, decode") for H in (32, 8)]
    figure = drawn(pruned_heads, run_of([*(kept(H, 0.1 * H / 32) for H in (32, 8)), *slow]))
    tops = [axes.get_ylim()[1] for axes in figure.axes if axes.get_title(loc="left")]
    assert len(tops) == 2 and max(tops) > 100 * min(tops)


@pytest.mark.parametrize("module", [head_count, head_size_independent, pruned_heads])
def test_runs_without_the_sweep_have_no_figure_of_it(run_of, module):
    assert module.draw(run_of(sweep(names=("naive",)))) is None


@pytest.mark.parametrize(
    ("module", "records"),
    [
        (head_count, [count("naive", 8)]),
        (head_size_independent, [size("naive", 128), size("flash", 512)]),
        (pruned_heads, [kept(32, 0.1)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_sweep_of_one_size_is_drawn(run_of, module, records):
    assert marks(rendered(module, run_of(records)).svg) == 2 * len(records)


def test_gaps_are_told_in_the_figure_of_heads_too(run_of):
    records = []
    for d_h in (64, 512):
        problem = Problem(B=1, T_q=384, T_kv=384, H=4, d_h=d_h)
        line = {"suite": "head_size", "series": "d_h at H 4, full"}
        records.append(cell("naive", problem, 0.02, **line))
        can = d_h < 512
        told = {} if can else {"status": "oom", "reasons": ["needs 9 GB"]}
        records.append(cell("flash", problem, 0.01 if can else None, **line, **told))
    said = "\n".join(texts(drawn(heads, run_of(records))))
    assert "Gaps: flash at d_h 512 (needs 9 GB)." in said
