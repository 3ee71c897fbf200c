"""The page of runs that are not as most are."""

from __future__ import annotations

import re

from impls.interface.problem import Problem
from reports.latex import latex_table
from reports.markdown import markdown
from reports.page import page
from results.store import load_run
from tests.fake_run import cell, write_run
from tests.read_page import Reader, page_of


def test_marks_of_two_series_that_share_a_cell_lead_to_their_own_rows(tmp_path):
    """Models with the same core: a reader who pointed at one was told of the other."""
    problem = Problem.parse("T=512,H=16,d_h=64,bfloat16")
    names = [f"{name} MHA, prefill core, T 512" for name in ("transformer-big", "bert-large")]
    records = [
        cell("naive", problem, time_s, suite="models", series=name)
        for name, time_s in zip(names, (0.02, 0.03), strict=True)
    ]
    text = page_of(load_run(write_run(tmp_path / "runs", records=records)))
    told = set(re.findall(r'data-row="(\d+)"[^>]*><title>[^<]* ([\d.]+ ms)', text))
    assert told == {("1", "30.0 ms"), ("2", "20.0 ms")}


def test_a_run_without_an_ok_cell_still_has_its_page(tmp_path):
    problem = Problem.parse("T=512,H=8,d_h=64")
    records = [cell("flex", problem, status="unavailable", reasons=["no compiler found"])]
    text = page_of(load_run(write_run(tmp_path / "runs", records=records)))
    assert "no compiler found" in text and "No cell has a time to draw." in text
    assert Reader(text).open == []


def test_flags_are_explained_under_the_table_that_has_them(tmp_path):
    """Once each with its rows, and none that no row has."""
    sizes = [Problem.parse(f"T={T},H=8,d_h=64") for T in (64, 128, 256)]
    flags = (["low_n"], ["low_n", "host_bound"], [])
    records = [cell("naive", p, 0.1, flags=own) for p, own in zip(sizes, flags, strict=True)]
    text = page(load_run(write_run(tmp_path, records=records)), [])
    below = text[text.index("</tbody>", text.index('id="cells"')) :]
    below = below[: below.index("</section>")]
    assert "low_n (2 rows): fewer than ten samples before the budget ended" in below
    assert "host_bound (1 row): launching took longer than the work" in below
    assert "near_floor" not in below


def test_a_run_that_wants_no_ratios_has_no_place_for_them(tmp_path):
    """`--baseline none`: "× naive" stood over a column of dashes where naive was never measured."""

    def without(header):
        header["settings"]["baseline"] = None

    problem = Problem.parse("T=512,H=8,d_h=64")
    records = [cell(name, problem, 0.01) for name in ("chunked", "flex")]
    run = load_run(write_run(tmp_path, records=records, change=without))
    for text in (page_of(run), markdown(run), latex_table(run, run.cells)):
        assert "flex" in text and "× naive" not in text and r"$\times$" not in text
    assert 'name="baseline"' not in page_of(run)
    named = load_run(write_run(tmp_path / "named", records=records))
    assert "× naive" in markdown(named) and "× naive" in page_of(named)
