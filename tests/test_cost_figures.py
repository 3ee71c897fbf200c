"""The figures of a comparison: what is drawn where, and that it can be read."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from impls.interface.device_rates import DeviceRates, of_datasheet
from impls.layer.comparison import Setting, compare
from impls.layer.models import model
from reports.cost import cache, core_share, tokens
from reports.cost.__main__ import main
from reports.cost.comparison import read_comparison
from reports.figures import drawing_rules

WORDS = ("mha", "gqa8", "mqa", "mla")
H200 = of_datasheet("h200-sxm")


def compared(words=WORDS, base="llama-2-70b", lengths=(1024, 8192, 65536, 2**21), **setting):
    given = {"dtype": "float16", "rates": H200, "memory_bytes": 141e9} | setting
    found = compare(model(base), words, lengths, Setting(**given))
    return json.loads(json.dumps(found.to_json(), allow_nan=False))


def drawn(module, record) -> Any:
    with drawing_rules():
        return module.draw(read_comparison(record))


def corners(axes) -> dict[int, np.ndarray]:
    """The points (x, y) of each line of the axes, by its place among them."""
    return {i: np.asarray(line.get_xydata()) for i, line in enumerate(axes.lines)}


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_the_cache_is_drawn_against_what_devices_hold():
    record = compared(model_weight_bytes=100 * 10**9)
    figure = drawn(cache, record)
    points = corners(figure.axes[0]).values()
    across = {round(float(line[0, 1]), 6) for line in points if np.ptp(line[:, 1]) == 0}
    assert {24, 80, 141, 288, 41} <= across
    mha = max((line for line in points if len(line) == 4), key=lambda line: line[-1, 1])
    assert mha[0, 1] == pytest.approx(2 * 80 * 64 * 128 * 1024 * 2 / 1e9)
    assert "h200-sxm, 141 GB" in texts(figure)
    assert "141 less 100 GB of weights: 41.0 GB" in texts(figure)
    assert "MHA  5.50 TB" in texts(figure)


def test_memories_far_above_small_caches_do_not_squeeze_them():
    figure = drawn(cache, compared(("mha",), "transformer-base", (128, 256, 512, 600)))
    assert "rtx4090, 24 GB" in texts(figure)
    assert not [text for text in texts(figure) if "b300" in text]


@pytest.mark.parametrize(("module", "panels"), [(cache, 1), (core_share, 2), (tokens, 1)])
def test_one_length_is_a_mark_and_no_empty_panel(module, panels):
    figure = drawn(module, compared(("mha",), lengths=(1024,)))
    for axes in figure.axes[:panels]:
        shown = [line for line in axes.lines if line.get_marker() not in ("None", "none", "")]
        at = {tuple(line.get_xdata()) for line in shown if len(line.get_xdata()) == 1}
        assert (1024,) in at


def test_crossings_are_marked_where_the_core_is_half():
    figure = drawn(core_share, compared())
    marks = [
        {
            str(axes.lines[i].get_gid()): line[0].tolist()
            for i, line in corners(axes).items()
            if str(axes.lines[i].get_gid()).startswith("crossing-")
        }
        for axes in figure.axes[:2]
    ]
    assert marks[0]["crossing-MHA"] == [2 * 16384 - 1, 50]
    assert marks[1]["crossing-GQA-8"] == [9216, 50]
    assert {"32,767", "16,384", "18,431", "9,216"} <= set(texts(figure))


def test_a_core_that_never_catches_up_is_named():
    figure = drawn(core_share, compared(("mistral-7b", "mha")))
    assert texts(figure).count("never") == 2
    assert any("mistral-7b in prefill" in text for text in texts(figure))


def test_prefill_and_decode_are_drawn_apart_and_at_most():
    record = compared()
    figure = drawn(tokens, record)
    last = {row["variant"]: row for row in record["rows"][-4:]}
    points = corners(figure.axes[0]).values()
    ends = [float(line[-1, 1]) for line in points if len(line) == 4]
    assert sorted(ends) == sorted(
        row[f"{part}_tokens_per_s"] for row in last.values() for part in ("prefill", "decode")
    )
    assert any(
        "h200-sxm, 4.80 TB/s (datasheet)" in text.replace("\n", " ") for text in texts(figure)
    )


def test_what_is_not_known_is_not_drawn():
    assert drawn(tokens, compared(rates=None, memory_bytes=None)) is None
    slow = DeviceRates("Some CPU", 2e10, {}, None, "then", True)
    figure = drawn(tokens, compared(rates=slow, memory_bytes=None))
    assert not [text for text in texts(figure) if "MHA prefill" in text]
    assert any("No prefill" in text for text in texts(figure))


@pytest.mark.parametrize("module", [cache, core_share, tokens])
@pytest.mark.parametrize(
    "words, base, lengths",
    [
        (WORDS, "llama-2-70b", (1024, 8192, 65536, 2**21)),
        (("mha", "mqa", "llama-2-7b", "mistral-7b", "deepseek-v2"), "gemma-2-9b", (1024, 8192)),
    ],
)
def test_no_name_covers_another_or_leaves_the_figure(module, words, base, lengths):
    figure = drawn(module, compared(words, base, lengths))
    figure.canvas.draw()  # names of axes find their places only now
    labels = [text for text in figure.findobj(Text) if (text.get_gid() or "").startswith("label")]
    assert len(labels) >= len(words)
    boxes = [label.get_window_extent() for label in labels]
    for (one, a), (other, b) in itertools.combinations(zip(labels, boxes, strict=True), 2):
        assert not a.shrunk(0.98, 0.7).overlaps(b.shrunk(0.98, 0.7)), (one, other)
    page = figure.bbox
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible():
            box = text.get_window_extent()
            assert page.x0 <= box.x0 and box.x1 <= page.x1, text
            assert page.y0 <= box.y0 and box.y1 <= page.y1, text


def test_the_command_writes_each_figure_twice(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("reports.figures.PNG_DPI", 30)  # a small picture is written sooner
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(compared(("mha",), lengths=(1024, 4096))), encoding="utf-8")
    assert main([str(file), "--out", str(tmp_path / "out")]) == 0
    written = capsys.readouterr().out.split()
    assert sorted(path.rsplit("/")[-1] for path in written) == sorted(
        f"cost-{stem}.{kind}"
        for stem in ("cache", "core-share", "tokens")
        for kind in ("png", "svg")
    )
    assert all((tmp_path / "out" / path).stat().st_size > 1000 for path in written)
    assert not any("<dc:date>" in path.read_text("utf-8") for path in tmp_path.glob("out/*.svg"))


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"setting": 3}'])
def test_what_is_no_comparison_ends_2(tmp_path, capsys, text):
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    assert main([str(file), "--out", str(tmp_path)]) == 2
    assert "x.json" in capsys.readouterr().err
    assert main([str(tmp_path / "absent.json")]) == 2
