"""Faults of other people's reports, each with its small input: A13, F05, P08, P10, Y03, and kin.

The others of their kind are where their subject is: I01 and P08 in test_figures, I04 and I08 in
test_figure_labels, I05 and I10 in test_figure_files, A13 and F05 also in test_table.
"""

from __future__ import annotations

import csv
import io
import itertools
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex

from impls.interface.problem import Problem
from reports.__main__ import main
from reports.comparison import compared, sentences
from reports.comparison_command import comparison_csv
from reports.comparison_page import comparison_page
from reports.figures import latency, memory, models, roofline, speed_up, winners
from reports.page import page
from reports.style import looks
from results.findings import findings
from results.run import Run
from results.store import load_run
from tests.drawn_run import drawn, rendered, sweep, texts
from tests.fake_run import cell, write_run

P = Problem.parse("T=512,H=8,d_h=64")


@pytest.fixture
def run_of(run_directory):
    """`run_of(records)` → the run as it is read from disk."""
    days = itertools.count(1)

    def make(records: list[dict], **keywords) -> Run:
        created = f"202611{next(days):02}T000000Z"
        return load_run(run_directory(records=records, created=created, **keywords))

    return make


def test_before_and_after_have_one_unit_a_column_and_raw_seconds(run_of):
    """A13: 0.0123 µs, 1.5 ms and 2.1 s, before and after."""
    times = (0.0123e-6, 1.5e-3, 2.1)
    before, after = (
        run_of([cell(f"impl{i}", P, by * time_s, bound=None) for i, time_s in enumerate(times)])
        for by in (1.0, 2.0)
    )
    found = compared([before, after])
    text = comparison_page(found, [])
    assert {"A ms", "B ms"} <= set(re.findall(r"<th [^>]*>([^<]+)</th>", text))
    rows = re.findall(r'<tr id="r\d+"[^>]*>(.*)', text)
    shown = {row.split("<td>")[1]: row.split("<td>")[4:6] for row in rows}
    # The lower quartile of a launch, 0.995 of its median.
    assert shown["impl0"] == ["0.0000122", "0.0000245"] and shown["impl2"] == ["2090", "4179"]
    read = csv.DictReader(io.StringIO(comparison_csv(found)))
    assert sorted(float(row["base_s"]) for row in read) == pytest.approx([0.995 * t for t in times])


def test_names_beside_full_and_causal_have_one_unit(run_of):
    """A13: 500 ms under 1.5 s, and 900 µs beside 1.5 ms."""
    long = P.with_(T_q=4096, T_kv=4096)
    times = (1.5, 0.5, 0.021)
    records = [cell(f"impl{i}", long, time_s) for i, time_s in enumerate(times)]
    records.append(cell("impl0", long.with_(causal=True), 0.0009))
    said = texts(drawn(latency, run_of(records)))
    assert {"impl0  1500 ms", "impl1  500 ms", "impl2  21.0 ms", "impl0  0.900 ms"} <= set(said)


def test_a_fallback_is_in_no_mean_and_no_win_and_is_counted(run_of):
    """F05: the baseline's rows at one size ran another kernel than their name says."""
    why = "asked for a flash kernel, ran aten::bmm"
    fell = cell("naive", P.with_(causal=True), status="error", reasons=[why])
    fast = [cell("fast", p, 0.01) for p in (P, P.with_(causal=True))]
    run = run_of([cell("naive", P, 0.02), fell, *fast])
    told = [one.sentence for one in findings(run)]
    assert any("2.00 × naive" in sentence for sentence in told)
    lines = [n for axes in drawn(speed_up, run).axes for n in axes.lines]
    assert sum(str(line.get_gid()).startswith("point-") for line in lines) == 1
    text = page(run, [])
    assert f"1 error: naive ({why})" in text
    assert "1 row left out of every ratio and best-of: 1 error." in text
    (said,) = (s for s, _ in sentences(compared([run_of([cell("naive", P, 0.02), *fast]), run]))
               if "geometric mean" in s)  # fmt: skip
    assert "Over 3 cells" in said


@pytest.mark.parametrize("times", [1.3, 30])
def test_what_is_above_the_peak_wins_nothing(run_of, times):
    """P08: 1.3 and 30 times the machine's peak of 100 GFLOP/s."""
    lengths = (512, 1024)
    bounds = {T: 2 * 8 * T * T * 128 / 100e9 for T in lengths}
    records = [
        cell(name, P.with_(T_q=T, T_kv=T), bounds[T] * slow)
        for T in lengths
        for name, slow in (("naive", 2), ("chunked", 3))
    ]
    ghosts = [
        cell("ghost", P.with_(T_q=T, T_kv=T), bounds[T] / times, flags=["above_ceiling"])
        for T in lengths
    ]
    run = run_of(records + ghosts)
    assert not any("ghost is" in one.sentence for one in findings(run))
    assert not any("ghost" in words for words in texts(drawn(winners, run)))
    text = page(run, [])
    assert "impossible: above the measured peak by more than 3 %" in text
    options = re.search(r'<select name="baseline">(.*?)</select>', text)
    assert options and re.findall("<option[^>]*>([^<]+)", options[1]) == ["chunked", "naive"]


def test_an_unknown_device_has_measured_roofs_alone_with_who_reached_them(run_of):
    """P10: a bandwidth that was advertised and never reached."""

    def unknown(header):
        header["ceilings"]["device_name"] = "Nobody's CPU"
        assert header["ceilings"]["datasheet"] is None

    run = run_of(sweep(names=("naive",)), change=unknown)
    figure = drawn(roofline, run)
    kinds = {str(line.get_gid()) for axes in figure.axes for line in axes.lines}
    assert {"roof-bound", "roof-slope"} <= kinds and "roof-datasheet" not in kinds
    said = texts(figure)
    assert {"torch.mm 100 GFLOP/s (measured)", "DRAM 38.0 GB/s"} <= set(said)
    assert "Solid grey: ceilings measured on this machine" in " ".join(said)
    text = page(run, [])
    table = text[text.index('<h2 id="ceilings"') :]
    assert "<td>100 GFLOP/s</td><td>torch.mm</td>" in table and "datasheet" not in table
    assert "<td>38.0 GB/s</td><td>copy</td>" in table and "2026-11-29T19:29:50Z" in table


def test_each_dtype_stands_under_its_own_roof(run_of):
    """A roof of float32 over points of bfloat16, or of another dtype where one was not measured."""

    def no_half(header):
        del header["ceilings"]["gemm"]["bfloat16"]

    half = sweep(names=("naive",), lengths=(512, 1024))
    for record in half:
        record["problem"] = record["problem"] | {"dtype": "bfloat16"}
    # The fake machine: 100 GFLOP/s in float32, 4.7 times that in bfloat16.
    assert "torch.mm 470 GFLOP/s (measured)" in texts(drawn(roofline, run_of(half)))
    bare = drawn(roofline, run_of(half, change=no_half))
    assert not any("GFLOP/s (measured)" in words for words in texts(bare))
    assert "No bf16 compute ceiling was measured in this run." in " ".join(texts(bare))


NAMES = ("d_h=64→128", "日本", "[z]", "naïve $x_1$")


@pytest.mark.slow
def test_names_in_any_script_are_told_as_written_and_ids_are_ascii(tmp_path):
    r"""Y03: \u65e5 in place of what the user wrote."""
    lengths = (64, 128)
    records = [
        cell(name, P.with_(T_q=T, T_kv=T), 0.001 * (i + 1))
        for i, name in enumerate(("naive", *NAMES))
        for T in lengths
    ]
    write_run(tmp_path / "runs", records=records)
    assert main(["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    (folder,) = (tmp_path / "out").iterdir()
    for kind in ("report.html", "report.md", "points.csv", "latency.svg"):
        text = (folder / kind).read_bytes().decode("utf-8")
        assert all(name in text.replace("\\", "") for name in NAMES), kind
        assert "\\u" not in text
        ids = re.findall(r'\bid="([^"]+)"', text)
        assert all(one.isascii() for one in ids)
    assert all(file.name.isascii() for file in folder.iterdir())


@pytest.mark.slow
def test_an_implementation_looks_the_same_on_every_page_and_in_every_figure(run_of):
    """Colours by place in a list: another page, another colour."""
    many = ("naive", "sdpa_flash", "sdpa_math", "compiled_naive", "flex", "grouped_decode", "xyz")
    everywhere = [looks(some) for n in range(1, 8) for some in itertools.combinations(many, n)]
    both, alone = looks(("grouped_decode", "triton_flash")), looks(["triton_flash"])
    assert both["triton_flash"] == alone["triton_flash"]
    for name in many[:-1]:
        assert len({found[name] for found in everywhere if name in found}) == 1, name
    run = run_of(sweep(names=many, lengths=(512, 1024, 2048)))
    colours: dict[str, set[str]] = {name: set() for name in many}
    for module in (roofline, latency, speed_up):
        for axes in drawn(module, run).axes:
            for line in axes.lines:
                gid = str(line.get_gid())
                for name in many:
                    if f"whiskers-of-{name};" in gid or gid == f"part-of-{name};":
                        colours[name].add(to_hex(str(line.get_color())))
    legend = re.findall(r'style="--own:(#\w+)">([^<]+)<', page(run, [rendered(latency, run)]))
    named = {name: colour.lower() for colour, name in legend}
    assert colours == {name: {named[name]} for name in many}


@pytest.mark.parametrize("module", [latency, roofline, memory])
def test_a_line_is_broken_where_a_size_has_no_point(run_of, module):
    """A line over a gap tells of sizes that nobody measured."""
    records = sweep(names=("naive", "chunked"), lengths=(128, 256, 512, 1024))
    failed = [r for r in records if r["implementation"] == "naive" and r["problem"]["T_q"] == 512]
    for record in failed:
        record |= {"status": "oom", "timing": None, "reasons": ["needs 9 GB"], "bound": None}
    line = next(
        n for n in drawn(module, run_of(records)).axes[0].lines if n.get_gid() == "part-of-naive;"
        and np.asarray(n.get_xdata()).size == 4
    )  # fmt: skip
    heights = np.asarray(line.get_ydata(), dtype=float)
    assert np.isnan(heights).tolist() == [False, False, True, False]


def test_no_bar_stands_on_a_logarithmic_axis(run_of):
    """The foot of such a bar is wherever the axis begins, and with it the bar's length."""
    names = ("a MHA, prefill core, T 512", "a MHA, prefill layer, T 512")
    run = run_of([*sweep(), *(cell("naive", P, 0.01, suite="models", series=s) for s in names)])
    for module in (speed_up, models):
        for axes in drawn(module, run).axes:
            if "log" in (axes.get_xscale(), axes.get_yscale()):
                assert not [p for p in axes.patches if str(p.get_gid()).startswith("point-")]


@pytest.mark.slow
def test_every_axis_says_what_it_shows(run_of):
    """A number without a unit is no measurement."""
    run = run_of(sweep())
    for module in (roofline, latency, speed_up, winners):
        figure = drawn(module, run)
        for axes in figure.axes:
            for axis, side in ((axes.xaxis, "labelbottom"), (axes.yaxis, "labelleft")):
                has_numbers = axes.axison and axis.get_tick_params().get(side, True)
                assert axis.label.get_text() or not has_numbers, module.__name__
