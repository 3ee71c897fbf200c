"""The figure of models: a row each, bars that end where they should, and words for what is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from impls.interface.problem import Problem
from reports.figures import models
from results.store import load_run
from tests.drawn_run import drawn, marks, rendered, sweep, texts, tick_texts
from tests.fake_cells import cell

PROMPT = Problem(B=1, T_q=128, T_kv=128, H=8, d_h=64, causal=True)
STEP = PROMPT.with_(T_q=1, T_kv=4096)


@pytest.fixture
def run_of(run_directory):
    days = itertools.count(1)

    def make(records):
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=list(records), created=created))

    return make


def bar(series, time_s: float | None = 0.05, name="flash", problem=None, **changes):
    problem = problem or (STEP if "decode" in series else PROMPT)
    return cell(name, problem, time_s, suite="models", series=series, **changes)


def full(row="a-7b GQA-8"):
    return [
        bar(f"{row}, {phase} {part}, T {'128 of 4096' if phase == 'prefill' else '4096'}")
        for phase in ("prefill", "decode")
        for part in ("layer", "core")
    ]


def bars(axes):
    """(row, time, colour inside) of each mark."""
    found = [line for line in axes.lines if str(line.get_gid()).startswith("point-")]
    return [
        (round(m.get_ydata()[0], 1), m.get_xdata()[0], to_rgba(m.get_markerfacecolor()))
        for m in found
    ]


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_a_mark_stands_at_the_time_of_one_token_and_says_its_length(run_of):
    figure = drawn(models, run_of(full()))
    prefill, decode = figure.axes
    assert [end for _, end, _ in bars(prefill)] == pytest.approx([0.05 / 128] * 2)
    assert [end for _, end, _ in bars(decode)] == pytest.approx([0.05] * 2)
    assert "T 128 of 4k, flash" in words(prefill) and "T 4k, flash" in words(decode)
    # One unit a column, under whose name the numbers stand.
    assert {"µs", "391"} <= set(words(prefill)) and {"ms", "50.0"} <= set(words(decode))
    assert "a-7b" in words(prefill) and "GQA-8" in words(prefill)


def test_the_bound_is_a_tick_and_its_share_is_written(run_of):
    (record,) = [bar("a MHA, prefill core, T 128", 0.01)]
    bound_s = record["bound"]["time_s"]
    (axes,) = drawn(models, run_of([record])).axes
    (tick,) = (n for n in axes.lines if (n.get_gid() or "").startswith("bound"))
    assert np.asarray(tick.get_xdata()).tolist() == pytest.approx([bound_s / 128] * 2)
    assert f"{100 * bound_s / 0.01:.0f} %" in words(axes)


def test_a_batch_counts_all_its_tokens(run_of):
    wide = PROMPT.with_(B=4)
    (axes,) = drawn(models, run_of([bar("a MHA, prefill core, T 128", 0.08, problem=wide)])).axes
    assert [end for _, end, _ in bars(axes)] == pytest.approx([0.08 / 512])


def test_no_bar_begins_where_a_logarithmic_axis_happens_to(run_of):
    """Bars from the left edge told by their length what only the edge had decided."""
    (axes, _) = drawn(models, run_of(full())).axes
    assert not [p for p in axes.patches if p.get_window_extent().height < 0.9 * 72 * models.ROW]
    gaps = [line for line in axes.lines if str(line.get_gid()).startswith("gap")]
    ticks = [line for line in axes.lines if str(line.get_gid()).startswith("bound")]
    assert len(gaps) == len(ticks) == 2
    for gap, tick, (_, time_s, _) in zip(gaps, ticks, bars(axes), strict=True):
        bound_s = np.asarray(tick.get_xdata())[0]
        assert np.asarray(gap.get_xdata()) == pytest.approx([bound_s, time_s])


def test_a_time_of_zero_is_named_and_not_called_ok(run_of):
    figure = drawn(models, run_of([*full(), bar("b MHA, prefill core, T 128", 0.0)]))
    assert "not drawable" in words(figure.axes[0]) and "ok" not in words(figure.axes[0])
    assert "1 point not drawable: flash" in "\n".join(texts(figure))


def test_the_fastest_that_is_in_no_doubt_is_shown(run_of):
    label = "a MHA, decode core, T 4096"
    records = [bar(label, 0.03, "slow"), bar(label, 0.02, "good")]
    records.append(bar(label, 0.01, "ghost", flags=["contended"]))
    (axes,) = drawn(models, run_of(records)).axes
    ((_, end, face),) = bars(axes)
    assert end == pytest.approx(0.02) and face[:3] != (1.0, 1.0, 1.0)
    alone = drawn(models, run_of([bar(label, 0.01, "ghost", flags=["contended"])]))
    ((_, _, face),) = bars(alone.axes[0])
    assert face[:3] == (1.0, 1.0, 1.0)
    assert "Hollow: flagged, left out of every ratio (1)." in "\n".join(texts(alone))


def test_an_encoder_has_no_decode_and_what_is_missing_says_why(run_of):
    encoder = PROMPT.with_(causal=False)
    records = [
        bar("bert MHA, prefill core, T 128", problem=encoder),
        bar("gpt MHA, prefill core, T 128"),
        bar("gpt MHA, decode core, T 4096", None, reasons=["beyond the budget"]),
        bar("gpt MHA, decode layer, T 4096", None, status="oom", reasons=["needs 9 GB"]),
    ]
    decode = drawn(models, run_of(records)).axes[1]
    assert bars(decode) == []
    assert words(decode).count("an encoder: no decode") == 1
    assert "skipped" in words(decode) and "oom" in words(decode)


def test_rows_are_in_the_order_of_the_prompts_and_models_without_one_follow(run_of):
    records = [bar(f"{name} MHA, decode core, T 8") for name in ("c", "b")]
    records += [bar(f"{name} MHA, prefill core, T 8") for name in ("a", "b")]
    prefill = drawn(models, run_of(records)).axes[0]
    named = [t for t in prefill.texts if t.get_text() in ("a", "b", "c")]
    assert [t.get_text() for t in sorted(named, key=lambda t: t.get_position()[1])] == [
        *("a", "b", "c")
    ]


@pytest.mark.parametrize(("phase", "title"), models.PHASES.items())
def test_a_phase_that_was_not_asked_for_has_no_panel(run_of, phase, title):
    (axes,) = drawn(models, run_of([bar(f"a-7b MHA, {phase} core, T 8")])).axes
    assert axes.get_title(loc="left") == title and "a-7b" in words(axes)


@pytest.mark.parametrize("count", [1, 5, 30])
def test_words_do_not_run_into_one_another(run_of, count):
    """Also where the name of an implementation is longer than any of ours."""
    records = [r for n in range(count) for r in full(f"quite-a-long-name-{n} GQA-8 window 4096")]
    records[0] |= {"implementation": "attention_of_a_library_with_a_long_name_for_hopper"}
    figure = drawn(models, run_of(records))
    figure.canvas.draw()
    width, height = figure.bbox.width, figure.bbox.height
    boxes = [t.get_window_extent() for axes in figure.axes for t in axes.texts if t.get_text()]
    boxes += [t.get_window_extent() for axes in figure.axes for t in axes.get_xticklabels()]
    boxes += [t.get_window_extent() for t in figure.texts]
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    prefill, decode = figure.axes
    assert all(t.get_window_extent().x1 < decode.bbox.x0 for t in prefill.texts)
    for one, other in itertools.combinations(boxes, 2):
        apart = (
            one.x1 <= other.x0 + 1
            or other.x1 <= one.x0 + 1
            or one.y1 <= other.y0 + 3
            or other.y1 <= one.y0 + 3
        )
        assert apart, (one, other)


def test_both_panels_have_one_scale_in_plain_numbers(run_of):
    prefill, decode = drawn(models, run_of(full())).axes
    assert prefill.get_xlim() == decode.get_xlim()
    ticks = tick_texts(prefill.xaxis)
    assert ticks and all(text.split()[1] in ("ns", "µs", "ms", "s") for text in ticks)


def test_no_model_no_figure(run_of):
    assert models.draw(run_of(sweep(names=("naive",)))) is None
    unread = run_of([bar("a MHA, training, T 8")])
    assert models.draw(unread) is None


def test_every_bar_has_its_cell_in_the_svg(run_of):
    assert marks(rendered(models, run_of(full())).svg) == 4
