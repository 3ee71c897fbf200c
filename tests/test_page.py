"""The page as a reader's browser gets it: one small file, complete without scripts or network."""

from __future__ import annotations

import base64
import re
import shutil
import zlib

import pytest

from impls.interface.problem import Problem
from reports.explain_command import find_cell
from reports.figures import figure_modules, render, speed_up
from reports.followers import against, ratio_figures
from reports.next_steps import python
from reports.page import page
from results.run import Run
from results.schema import FLAGS, STATUSES
from results.store import load_run
from tests.drawn_run import rendered
from tests.fake_run import cell, write_run
from tests.read_page import Reader, page_of


@pytest.fixture(scope="module")
def default_run(tmp_path_factory) -> Run:
    return load_run(write_run(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def default_page(default_run) -> str:
    return page_of(default_run)


def test_the_page_needs_nothing_from_outside(default_page):
    read = Reader(default_page)
    assert read.open == []
    fetched = re.findall(r'(?:src|href|action)="(?!#)([^"]*)"|url\((?!#)([^)]*)\)', default_page)
    figures = ("roofline", "latency", "speed_up", "winners", "error_speed", "distribution")
    beside = {"points.csv", "memory.png", "memory.svg"} | {
        f"{f}.{k}" for f in figures for k in ("png", "svg")
    }
    assert {a or b for a, b in fetched} == beside
    assert set(re.findall(r"https?://[^\"' <)]+", default_page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_findings_come_first_then_figures_then_the_table(default_page):
    heads = [text for tag, text in Reader(default_page).texts if tag == "h2"]
    assert heads[:2] == ["Findings", "Figures"] and heads[3] == "Table: 30 of 33 cells"
    assert heads[2] == "How to read this" and heads[-1] == "Repeat it"


def test_table_and_figures_stand_without_scripts(default_run, default_page):
    still = re.sub(r"<script>.*?</script>", "", default_page, flags=re.DOTALL)
    read = Reader(still)
    rows = re.findall(r'<tr id="r\d+"', still)
    without = sum(default_run.counts[s] for s in ("unavailable", "unsupported", "skipped"))
    assert len(rows) == len(default_run.cells) - without and read.count("svg") == 7
    assert "hidden" in dict(read.tags[[t for t, _ in read.tags].index("form")][1])


def test_every_status_is_on_the_page_with_its_count(default_run, default_page):
    for status in STATUSES:
        count = default_run.counts.get(status, 0)
        assert re.search(rf"<b>{count}</b> {status}<", default_page), status
    for stopped in default_run.cells:
        assert all(reason in default_page for reason in stopped.reasons)


def test_every_flag_is_explained(default_page):
    assert [t for tag, t in Reader(default_page).texts if tag == "code" and t in FLAGS] == [*FLAGS]


def test_ids_are_unique_and_every_reference_arrives(default_page):
    read = Reader(default_page)
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    wanted = {v[1:] for n in ("href", "xlink:href") for v in read.attributes(n) if v[0] == "#"}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", default_page))
    wanted |= set(read.attributes("aria-labelledby"))
    assert wanted <= set(ids)


def test_every_control_has_a_label_and_every_mark_its_row(default_page):
    read = Reader(default_page)
    form = re.search(r"<form.*?</form>", default_page, re.DOTALL)
    assert form is not None
    labelled = re.findall(r"<label[^>]*>.*?</label>", form.group(), re.DOTALL)
    assert form.group().count("<select") + form.group().count("<input") == len(labelled)
    assert all(re.sub(r"<(select|input).*", "", one).split(">")[1].strip() or "descending" in one
               for one in labelled)  # fmt: skip
    ids = set(read.attributes("id"))
    rows = read.attributes("data-row")
    assert len(rows) > 60 and {f"r{row}" for row in rows} <= ids
    legend = re.findall(r'<button type="button" value="(\d+)" aria-pressed', default_page)
    assert set(read.attributes("data-of")) == set(legend)
    assert "default-src 'none'" in default_page


def test_filters_have_every_value_that_rows_have(default_run, default_page):
    def values(name: str) -> list[str]:
        select = re.search(rf'<select name="{name}".*?</select>', default_page, re.DOTALL)
        assert select is not None
        return re.findall(r"<option[^>]*>([^<]+)</option>", select.group())[1:]

    assert values("T") == ["16", "128", "512", "2048", "4096", "16384"]
    assert values("mask") == ["causal", "full"] and values("d_h") == ["64"]
    assert values("status") == ["crashed", "error", "ok", "oom", "timeout", "wrong"]
    implementations = {c.implementation for c in default_run.cells}
    assert {"naive", "chunked", "sdpa_efficient"} <= set(values("implementation")) < implementations


def test_what_the_page_says_to_type_for_a_row_finds_it(default_run, default_page):
    assert f"explain {default_run.name} &#39;IMPLEMENTATION PROBLEM&#39;" in default_page
    rows = re.findall(r'<tr id="r\d+"[^>]*><td>([^<]*)<td>([^<]*)', default_page)
    assert len(rows) > 20
    for implementation, problem in rows:
        found = find_cell(default_run, f"{implementation} {problem}")
        assert (found.implementation, found.problem.id) == (implementation, problem)


def test_findings_lead_to_the_figure_that_shows_them(default_page):
    """That of its cells, and of several the one that draws what the sentence tells of."""
    told = re.findall(r"<li>([^<]*) <a class=\"soft\" href=\"#figure-(\w+)\"", default_page)
    (closest,) = (figure for sentence, figure in told if "closest to its" in sentence)
    (causal,) = (figure for sentence, figure in told if sentence.startswith("Causal"))
    (fastest,) = (figure for sentence, figure in told if "is the fastest of" in sentence)
    assert (closest, causal, fastest) == ("roofline", "latency", "speed_up")
    assert 3 <= default_page.count("data-rows=") <= 7


def test_figures_have_words_for_those_who_do_not_see_them(default_page):
    read = Reader(default_page)
    drawings = [attributes for tag, attributes in read.tags if tag == "svg"]
    assert all(d["role"] == "img" and len(d["aria-label"] or "") > 20 for d in drawings)
    assert "sdpa_flash, T=512 H=8 d_h=64: 6.15 ms" in " ".join(t for _, t in read.texts)


def test_what_another_baseline_changes_travels_with_the_page(default_run):
    """Findings and the figure of ratios as `--baseline` gives them, with the marks of this page."""
    drawn = [rendered(speed_up, default_run)]
    text = page(default_run, drawn, ratio_figures(default_run))
    found = re.findall(r'data-follows="([^"]+)">(\w+)<', text)
    packed = {name: letters for letters, name in found}
    assert set(packed) == {"chunked", "sdpa_flash"}
    for name, letters in packed.items():
        html = zlib.decompress(base64.b64decode(letters), wbits=-zlib.MAX_WBITS).decode()
        own = page(against(default_run, name), [rendered(speed_up, against(default_run, name))])
        told, figure = html.split('</div><div data-part="speed_up">')
        assert f"Speed-up over {name}" in figure and "Speed-up over naive" not in figure
        alone = own.split('<div class="told">')[1].split("</div>")[0]
        assert told.removeprefix('<div data-part="findings">').split() == alone.split()
        assert set(re.findall(r'data-row="(\d+)"', figure)) <= set(re.findall(r'id="r(\d+)"', text))
        assert Reader(html).open == []


def test_what_a_run_declares_is_escaped(tmp_path):
    nasty = "<script>alert(1)</script>"

    def declare(header):
        header["command"] = f"pytest {nasty}"
        header["environment"]["cpu"] = nasty
        header["ceilings"]["device_name"] = nasty
        header["settings"]["note"] = nasty
        header["ceilings"]["gemm"]["float32"]["provider"] = nasty

    problem = Problem.parse("T=512,H=8,d_h=64")
    records = [cell(nasty, problem, 0.01), cell("b", problem, status="error", reasons=[nasty])]
    text = page_of(load_run(write_run(tmp_path / "runs", records=records, change=declare)))
    assert nasty not in text and text.count("<script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert Reader(text).open == []


def test_environment_settings_ceilings_and_command_are_all_there(default_run, default_page):
    header = default_run.header
    for words in (*map(str, header.environment.values()), header.command, header.machine_key):
        assert str(words) in default_page
    for words in ("torch.mm", "100 GFLOP/s", "38.0 GB/s", "2026-11-29T19:29:50Z", "budget"):
        assert words in default_page
    assert f"git checkout {header.commit}" in default_page
    assert f"{python()} -m pytest suites --budget quick" in default_page


def test_a_wrong_result_is_told_apart_from_cells_without_a_time(default_page):
    box = re.search(r'<div class="wrong".*?</div>', default_page, re.DOTALL)
    why = re.search(r'<details id="why".*?</details>', default_page, re.DOTALL)
    assert box and "sdpa_efficient (out is 0.4 from float64" in box.group()
    assert why and "sdpa_efficient" not in why.group() and "sdpa_cudnn" in why.group()
    row = re.search(r'<tr id="r\d+" class="bad"[^>]*><td>sdpa_efficient.*', default_page)
    assert row is not None
    cells = [text.strip() for text in row.group().split("<td>")[1:]]
    # time and ±, then neither FLOP/s nor × nor % of bound
    assert cells[3:8] == ["0.4", "–", "–", "–", "WRONG, above_ceiling"]


def test_further_columns_wait_behind_a_box_that_works_without_scripts(default_page):
    still = re.sub(r"<script>.*?</script>", "", default_page, flags=re.DOTALL)
    assert "#more:not(:checked) ~ .scroll :is(td, th):nth-child(n+10) { display: none; }" in still
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', still)
    assert heads[:9][3:] == [
        *("±%", "GFLOP/s", "× naive (1 launch)", "% of bound", "flags", "max error"),
    ]
    for promised in ("first call ms", "prepare ms", "stopped", "faults a call", "foreign load %"):
        assert promised in heads[9:]


def test_figures_link_to_their_full_size(default_page):
    assert default_page.count('.png">Full size (PNG)</a>') == 7


@pytest.mark.parametrize(
    ("masks", "dtypes", "most"),
    [
        ((False,), ("float32",), 400_000),
        pytest.param((False, True), ("float32", "bfloat16"), 1_000_000, marks=pytest.mark.slow),
    ],
)
def test_the_page_stays_below_a_megabyte_at_500_cells(tmp_path, masks, dtypes, most):
    """Twelve implementations over T: 132 cells, and 528, more than a `default` run has."""
    records = [
        cell(
            f"implementation_{i}" if i else "naive",
            Problem(B=1, T_q=T, T_kv=T, H=8, d_h=64, causal=causal, dtype=dtype),
            1e-8 * T * T * (3 + i),
            ran=["aten::_scaled_dot_product_flash_attention_for_cpu"],
        )
        for i in range(12)
        for T in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
        for causal in masks
        for dtype in dtypes
    ]
    run = load_run(write_run(tmp_path / "runs", records=records))
    assert len(run.cells) == 132 * len(masks) * len(dtypes)
    drawn = [f for m in figure_modules() if (f := render(m, run, with_png=False)) is not None]
    is_whole = most == 1_000_000
    text = page(run, drawn, ratio_figures(run) if is_whole else None)
    assert text.count(" data-follows=") == 11 * is_whole
    assert most / 3 < len(text.encode()) < most
    shutil.rmtree(tmp_path / "runs")


def test_ceilings_that_were_measured_beside_others_say_so(default_page, tmp_path):
    def contend(header):
        header["ceilings"]["contended"] = True

    told = "the machine was contended"
    text = page_of(load_run(write_run(tmp_path / "runs", change=contend)))
    assert told in text and told not in default_page
