"""The figures of decoding, of memory and of the backward, by their lines and words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports.figures import backward, decode, memory
from results.store import load_run
from tests.drawn_run import drawn, marks, rendered, sweep, texts, tick_texts, title_of
from tests.fake_cells import cell

STEP = Problem.parse("T_q=1,T_kv=8192,H=32,H_kv=8,d_h=128,bfloat16")


@pytest.fixture
def run_of(run_directory):
    days = itertools.count(1)

    def make(records, **keywords):
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=list(records), created=created, **keywords))

    return make


def step(name: str, time_s: float | None, **changes) -> dict:
    sizes = {k: changes.pop(k) for k in ("B", "T_q", "T_kv", "H_kv", "dtype") if k in changes}
    return cell(name, STEP.with_(**sizes), time_s, suite="decode", series="any", **changes)


def over_heads(dtype: str = "bfloat16") -> list[dict]:
    """One that reads keys for every head and one that reads them once."""
    found = []
    for H_kv in (32, 8, 1):
        found += [
            step("sdpa_flash", 0.07, H_kv=H_kv, dtype=dtype),
            step("grouped_decode", 0.002 * H_kv, H_kv=H_kv, dtype=dtype),
        ]
    return found


def over_lengths(names=("sdpa_flash", "grouped_decode")) -> list[dict]:
    lengths = (2048, 16384, 65536)
    return [
        step(name, 1e-5 * T_kv / 8 * H_kv / 8, T_kv=T_kv, H_kv=H_kv)
        for name in names
        for T_kv in lengths
        for H_kv in (32, 8)
    ]


def titles(figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_a_short_run_shows_time_and_rate_against_the_heads_alone(run_of):
    figure = drawn(decode, run_of(over_heads()))
    assert titles(figure) == ["bf16 · T_kv = 8k"] * 2
    time, rate = figure.axes
    assert time.get_xlabel() == rate.get_xlabel() == "key/value heads H_kv"
    assert tick_texts(time.xaxis) == ["1", "8", "32"]
    said = texts(figure)
    # K and V of 32 heads, q and out, in 70 ms; of 8 heads in 9.6 ms.
    assert pytest.approx(1.92e9, rel=0.002) == 2 * 128 * (2 * 32 * 8192 + 2 * 32) / 0.07
    assert "sdpa_flash  1.92 GB/s" in said and "sdpa_flash  70.0 ms" in said


def test_the_rate_is_of_compulsory_bytes(run_of):
    _, rate = drawn(decode, run_of(over_heads())).axes
    points = {
        round(float(x)): float(y)
        for line in rate.lines
        if str(line.get_gid()).startswith("point-")
        for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
        if y < 2.0
    }
    expected = {H_kv: 2 * 128 * (2 * H_kv * 8192 + 2 * 32) / 0.07 / 1e9 for H_kv in (32, 8, 1)}
    assert points == pytest.approx(expected)


def test_the_roofs_of_reading_that_serve_the_points_are_drawn_and_named(run_of):
    """The fake machine's caches are told by the bound of each cell: all of these are of the LLC."""
    figure = drawn(decode, run_of(over_heads()))
    roofs = [line for line in figure.axes[1].lines if line.get_gid() == "roof-read"]
    assert [float(np.asarray(line.get_ydata())[0]) for line in roofs] == [pytest.approx(90.0)]
    assert "LLC read 90.0 GB/s" in texts(figure)


def test_a_longer_run_has_a_panel_for_each_implementation_and_a_line_for_each_head_count(run_of):
    figure = drawn(decode, run_of([*over_heads(), *over_lengths()]))
    assert titles(figure)[2:] == ["sdpa_flash · bf16", "grouped_decode · bf16"]
    for axes in figure.axes[2:]:
        words = [text.get_text().split("  ")[0] for text in axes.texts]
        assert {"H_kv 32", "H_kv 8"} <= set(words)
        assert tick_texts(axes.xaxis)[0] == "2k"
    colours = [
        {
            line.get_markeredgecolor()
            for line in axes.lines
            if str(line.get_gid()).startswith("point-")
        }
        for axes in figure.axes[2:]
    ]
    assert all(len(found) == 1 for found in colours) and colours[0] != colours[1]


def test_titles_of_long_names_do_not_run_into_one_another(run_of):
    names = [
        f"decode_of_a_library_with_a_long_name_and_of_its_last_variant_for_all_{n}"
        for n in range(3)
    ]
    figure = drawn(decode, run_of([*over_heads(), *over_lengths(names)]))
    figure.canvas.draw()
    boxes = [title_of(axes).get_window_extent() for axes in figure.axes]
    assert len(boxes) == 5 and max(box.x1 for box in boxes) <= figure.bbox.width
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_two_dtypes_are_two_rows_and_the_lengths_are_of_the_narrow_one(run_of):
    wide = [step("sdpa_flash", 0.1, T_kv=T, dtype="float32") for T in (2048, 8192)]
    records = [*over_heads(), *over_heads("float32"), *wide, *over_lengths(("sdpa_flash",))]
    figure = drawn(decode, run_of(records))
    assert titles(figure) == [
        *("bf16 · T_kv = 8k",) * 2,
        *("fp32 · T_kv = 8k",) * 2,
        "sdpa_flash · bf16",
    ]


def test_batches_and_several_queries_are_no_points_of_a_line(run_of):
    others = [step("sdpa_flash", 0.2, B=4), step("sdpa_flash", 0.2, T_q=4)]
    run = run_of([*over_heads(), *others])
    assert marks(rendered(decode, run).svg) == 2 * 6
    assert decode.draw(run_of(others)) is None


def test_a_line_is_broken_where_an_implementation_cannot(run_of):
    known = [r for r in over_lengths() if r["problem"]["T_kv"] != 16384]
    gap = [step("grouped_decode", 0.1, T_kv=16384, H_kv=n) for n in (32, 8)]
    fails = [step("sdpa_flash", None, T_kv=16384, status="oom", reasons=["no"]) for _ in (1,)]
    figure = drawn(decode, run_of([*over_heads(), *known, *gap, *fails]))
    one = next(a for a in figure.axes if a.get_title(loc="left") == "sdpa_flash · bf16")
    whole = next(a for a in figure.axes if a.get_title(loc="left") == "grouped_decode · bf16")
    assert tick_texts(one.xaxis)[0] == tick_texts(whole.xaxis)[0] == "2k"

    def corners(axes):
        drawn_lines = [np.asarray(n.get_ydata(), dtype=float) for n in axes.lines]
        return [ys for ys in drawn_lines if len(ys) == 4]

    assert corners(one) and all(np.isnan(ys).any() for ys in corners(one))
    assert corners(whole) and not any(np.isnan(ys).any() for ys in corners(whole))


def test_flagged_steps_are_hollow_and_counted(run_of):
    flagged = [r | {"flags": ["contended"]} for r in over_heads()]
    figure = drawn(decode, run_of(flagged))
    points = [n for a in figure.axes for n in a.lines if str(n.get_gid()).startswith("point-")]
    assert {point.get_markerfacecolor() for point in points} == {"white"}
    assert "(contended 6)" in " ".join(" ".join(texts(figure)).split())


def test_memory_sets_peaks_beside_the_cache_of_one_layer(run_of):
    figure = drawn(memory, run_of(sweep(names=("naive", "sdpa_flash"), lengths=(512, 2048))))
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "forward · fp32"
    said = texts(figure)
    # 2·8 heads·2048·64·4 bytes; two matrices of scores, float32, and the output.
    assert "KV cache  8.39 MB" in said
    assert "naive  273 MB" in said and 8 * 2048 * (2 * 2048 + 64) * 4 == 272_629_760
    assert tick_texts(axes.xaxis) == ["512", "1k", "2k"] or tick_texts(axes.xaxis) == ["512", "2k"]


def test_memory_has_a_panel_for_training_and_none_for_one_length(run_of):
    square = sweep(names=("naive",), lengths=(512, 2048))
    both = {"suite": "backward", "pass": "forward_backward"}
    training = sweep(names=("naive",), lengths=(512, 2048), **both)
    figure = drawn(memory, run_of([*square, *training]))
    assert titles(figure) == ["forward · fp32", "forward + backward · fp32"]
    assert memory.draw(run_of(sweep(names=("naive",), lengths=(512,)))) is None


def test_a_run_whose_peaks_nobody_knows_has_no_figure_of_memory(run_of):
    unknown = {"memory": {"peak_bytes": None, "peak_reserved_bytes": None, "how": None}}
    assert memory.draw(run_of(sweep(lengths=(512, 2048), **unknown))) is None


def test_the_backward_alone_and_both_passes_have_panels_of_their_own(run_of):
    passes = ("backward", "forward_backward")
    records = [
        record
        for pass_ in passes
        for record in sweep(
            names=("naive",), lengths=(512, 1024), suite="backward", **{"pass": pass_}
        )
    ]
    figure = drawn(backward, run_of(records))
    assert [title for title in titles(figure) if title] == [
        *("full · backward", "causal · backward"),
        *("full · forward + backward", "causal · forward + backward"),
    ]
    assert backward.draw(run_of(sweep(lengths=(512, 1024)))) is None
    one = sweep(names=("naive",), lengths=(512,), suite="backward", **{"pass": "backward"})
    assert backward.draw(run_of(one)) is None, "one length is a row of the table"
