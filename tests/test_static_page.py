"""The report of a static run: its own page and figure, and nothing of times or ceilings."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re

import pytest
from matplotlib.patches import Rectangle

from reports.__main__ import main
from reports.figures import figure_modules, latency, roofline, static
from reports.markdown import markdown
from reports.profiles_file import profiles_csv
from reports.static_page import static_page
from results.run import Run
from results.store import load_run
from tests.drawn_run import drawn, rendered, texts
from tests.fake_profiles import profile
from tests.fake_run import write_run
from tests.fake_static_run import default_profiles, write_static_run
from tests.test_page import Reader


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return load_run(write_static_run(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def static_html(run) -> str:
    return static_page(run, [rendered(static, run)])


def run_of(tmp_path, *records) -> Run:
    return load_run(write_static_run(tmp_path / "runs", records))


def test_a_static_run_has_one_figure_and_a_timed_run_has_not(run, tmp_path):
    assert static in figure_modules()
    assert roofline.draw(run) is None and latency.draw(run) is None
    assert static.draw(load_run(write_run(tmp_path))) is None


def test_the_figure_has_a_panel_for_each_architecture_and_a_row_for_each_kernel_and_size(run):
    figure = drawn(static, run)
    labels, *panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["sm_80", "sm_90", "sm_100"]
    assert [t.get_text() for t in labels.texts] == [
        *("triton_flash_decode", "d_h=128", "triton_flash_forward", "d_h=64", "d_h=128"),
    ]


def test_a_bar_goes_from_no_overlap_to_overlap_and_names_what_limits(run):
    bars = {}
    for axes in drawn(static, run).axes[1:]:
        for patch in axes.patches:
            if isinstance(patch, Rectangle) and str(patch.get_gid()).startswith("point-"):
                bars[patch.get_gid()] = (patch.get_x(), patch.get_x() + patch.get_width())
    cells = {f"point-{p.cell}-static": p for p in run.profiles if p.bound}
    assert set(bars) == set(cells)
    for name, (low, high) in bars.items():
        bound = cells[name].bound
        assert bound is not None
        assert (low, high) == pytest.approx((bound.no_overlap_percent, bound.overlap_percent))
    said = texts(drawn(static, run))
    assert said.count("mma") == 3 and said.count("mufu") == 3 and said.count("dram") == 1


def test_words_stand_clear_of_figures_and_of_panels(tmp_path):
    """A bar from edge to edge wrote its word into the registers; a long kernel's name was cut."""
    bounds = ((5, 99), (5, 40), (29, 100), (27, 73))
    records = [
        profile(kernel=name, arch=arch, d_h=d_h, bound__limited_by="shuffle",
                bound__no_overlap_percent=low, bound__overlap_percent=high)
        for name in ("triton_flash_forward", "forward_of_somebody_with_a_very_long_name_indeed")
        for arch in ("sm_80", "sm_90")
        for d_h, (low, high) in enumerate(bounds, start=16)
    ]  # fmt: skip
    figure = drawn(static, load_run(write_static_run(tmp_path, records)))
    figure.canvas.draw()
    labels, *panels = figure.axes
    boxes = [t.get_window_extent() for axes in figure.axes for t in axes.texts if t.get_text()]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (one, other)
    assert all(t.get_window_extent().x1 < panels[0].bbox.x0 for t in labels.texts)


def test_registers_spills_broken_promises_and_refusals_are_marks(run):
    said = texts(drawn(static, run))
    assert said.count("255") == 7
    assert said.count("▼98 !") == 1 and said.count("0") == 6
    assert "error: shared memory: 262144 bytes of 166912" in " ".join(said)
    assert said.count("not in the run") == 1  # decode on sm_100
    notes = " ".join(" ".join(said).split())
    assert "ptxas 12.8.93 (sm_80, sm_90), 13.1.80 (sm_100)" in notes
    assert "mufu: exponentials" in notes and "shuffle:" not in notes
    assert "bandwidth of device memory for triton_flash_decode" in notes
    assert "not predictions" in notes


def test_spills_are_red_only_where_some_are_in_the_hot_loop(tmp_path):
    outside = profile(resources__spill_stores=3)
    inside = profile(
        d_h=64, resources__spill_stores=4, hot_loop__spill_stores=1, expected__may_spill=True
    )
    axes = drawn(static, run_of(tmp_path, outside, inside)).axes[1]
    colours = {text.get_text(): text.get_color() for text in axes.texts}
    assert colours["▼3"] == "black" and colours["▼4"] == static.RED


def test_code_beyond_a_limit_has_figures_and_still_no_bar(tmp_path):
    beyond = profile(status="error", reasons=["a block takes 300000 bytes of shared memory"])
    said = texts(drawn(static, run_of(tmp_path, beyond)))
    assert "error: a block takes 300000 bytes" in " ".join(said) and "mma" not in said


def test_a_sweep_has_a_row_for_each_block(tmp_path):
    records = [profile(block__num_warps=n, is_default=n == 8) for n in (2, 4, 8)]
    labels = drawn(static, run_of(tmp_path, *records)).axes[0]
    assert [t.get_text() for t in labels.texts][1:] == [
        *(f"d_h=128 128×128 w{n} s2" for n in (2, 4, 8)),
    ]


def test_of_too_many_rows_the_usual_ones_are_drawn_and_the_rest_counted(tmp_path):
    sizes = [profile(d_h=d, dtype=t) for d in range(8, 232, 8) for t in ("fp16", "bf16")]
    figure = drawn(static, run_of(tmp_path, *sizes))
    rows = [t.get_text() for t in figure.axes[0].texts][1:]
    assert len(rows) == static.MOST_ROWS and {"bf16 d_h=64", "bf16 d_h=128"} <= set(rows)
    assert "8 more rows in the table: 48 are drawn." in " ".join(texts(figure))


def test_a_brought_kernel_without_a_bound_has_its_row(tmp_path):
    mine = profile(
        kernel="add", origin="mine.py", dtype=None, d_h=None, is_default=False, bound=None,
        constants={}, block={"BLOCK": 1024}, hot_loop=None, expected__has_mma=None,
        other_loops=[],
    )  # fmt: skip
    run = run_of(tmp_path, mine)
    said = texts(drawn(static, run))
    assert "no bound" in said and "1024" in said
    assert "add" in static_page(run, [])


def test_the_page_has_every_profile_and_no_word_of_ceilings(run, static_html):
    read = Reader(static_html)
    assert read.open == []
    heads = [text for tag, text in read.texts if tag == "h2"]
    assert heads == [
        *("Findings", "Figures", "How to read this", "Table: 8 profiles"),
        *("Environment", "Repeat it"),
    ]
    assert len(re.findall(r'<tr id="r\d+"', static_html)) == 8
    assert static_html.count('class="bad"') == 2
    for word in ("roofline", "Ceilings", "% of bound", "points.csv"):
        assert word not in re.sub(r"<s(cript|tyle)>.*?</s\1>", "", static_html, flags=re.DOTALL)
    assert "python -m suites static" in " ".join(t for _, t in read.texts)


def test_ids_are_unique_and_every_reference_arrives(static_html):
    read = Reader(static_html)
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    wanted = {v[1:] for n in ("href", "xlink:href") for v in read.attributes(n) if v[0] == "#"}
    assert wanted | set(read.attributes("aria-labelledby")) <= set(ids)


def test_bars_have_words_on_hovering(static_html):
    titles = re.findall(r"<title>([^<]*)</title>", static_html)
    assert (
        "triton_flash_forward d_h=64 sm_100, 128×128 w8 s2: 33.0 to 49.0 % limited by mufu; "
        "255 registers, spills 0" in titles
    )


def test_what_a_kernel_is_called_is_escaped(tmp_path):
    nasty = "<script>alert(1)</script>"
    refused = profile(status="error", reasons=[nasty], resources=None)
    text = static_page(run_of(tmp_path, profile(kernel=nasty), refused), [])
    assert nasty not in text and text.count("<script") == 1


def test_the_csv_has_every_figure_of_every_profile(run):
    rows = list(csv.DictReader(io.StringIO(profiles_csv(run))))
    assert len(rows) == 8
    spilling = next(row for row in rows if row["spill_stores"] == "48")
    assert spilling["loop_spill_stores"] == "12" and spilling["loop_mma"] == "16"
    assert (spilling["bound_of"], spilling["cycles_mma"]) == ("dram", "2048.0")
    refused = next(row for row in rows if row["status"] == "error")
    assert refused["registers"] == "" and "262144 bytes of 166912" in refused["notes"]


def test_markdown_has_the_table_of_profiles(run):
    text = markdown(run, [("Static profile", "static.png")])
    assert "8 profiles: 7 ok, 0 wrong" in text and "![Static profile](static.png)" in text
    rows = [line for line in text.splitlines() if line.startswith("| triton")]
    assert len(rows) == 8
    assert "- triton\\_flash\\_decode sm\\_80: error: shared memory" in text


def test_the_command_writes_the_static_files_and_says_how_to_go_on(tmp_path, capsys):
    write_static_run(tmp_path / "runs")
    places = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(["--json", *places]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    names = sorted(file.rpartition("/")[2] for file in record["files"])
    assert names == ["profiles.csv", "report.html", "report.md", "static.png", "static.svg"]
    assert record["counts"]["ok"] == 7 and record["counts"]["error"] == 1
    assert "results gate --static" in record["next"][0]


def test_a_static_run_in_which_nothing_compiled_still_has_its_page(tmp_path):
    refused = [r for r in default_profiles() if r["status"] == "error"]
    run = run_of(tmp_path, *refused)
    assert "262144 bytes of 166912" in " ".join(texts(drawn(static, run)))
    assert "262144 bytes of 166912" in static_page(run, [])
