"""`python -m reports compare`: runs side by side, and no more said of them than launches prove."""

from __future__ import annotations

import csv
import io
import json
import math
import re

import numpy as np
import pytest

from impls.interface.problem import Problem
from reports import comparison_figure
from reports.__main__ import main
from reports.comparison import compared, sentences
from reports.comparison_command import comparison_csv
from reports.comparison_page import comparison_page
from reports.figures import render
from results.store import load_run
from tests.fake_launches import NAMES, noisy, write_side
from tests.fake_run import cell, write_run
from tests.test_page import Reader


def sides(tmp_path, *times, **changes):
    """Runs of launches × cells, the first of them the base."""
    return [
        load_run(write_side(tmp_path / "runs", one, day=i, commit=f"{i}" * 7, **changes))
        for i, one in enumerate(times, start=1)
    ]


def slower(times, column: int, by: float):
    factors = np.ones(times.shape[1])
    factors[column] = by
    return times * factors


def test_the_mean_is_over_cells_that_both_timed(tmp_path):
    """One launch a side: 1.1, 1.0 and 0.9 times as long, geometric mean (0.99)^(1/3)."""
    base = np.array([[1e-3, 2e-3, 3e-3]])
    found = compared(sides(tmp_path, base, base * [[1.1, 1.0, 0.9]]))
    told = [sentence for sentence, _ in sentences(found)]
    assert f"B takes {0.99 ** (1 / 3):.3f} × the time of A" in told[0]
    assert "Over 3 cells" in told[0] and "0.90 to 1.10, 1 launch)" in told[0]
    assert told[1].startswith("One launch a side proves no difference: most is +10.0 % at naive")
    assert not any("beyond doubt" in sentence for sentence in told)


def test_what_launches_prove_is_told_with_its_interval(tmp_path):
    base, head = noisy(25, seed=1), slower(noisy(25, seed=2), 1, 1.3)
    found = compared(sides(tmp_path, base, head))
    told = {sentence: names for sentence, names in sentences(found)}
    (proven,) = (sentence for sentence in told if "beyond doubt" in sentence)
    assert proven.startswith("1 cell of B slower beyond doubt, most chunked B=1,T=63")
    assert re.search(r"\+(29|30|31)\.\d % \(\+\d\d\.\d … \+\d\d\.\d %\)", proven)
    assert [name.split(" ")[0] for name in told[proven]] == ["chunked"]
    svg = render(comparison_figure, found).svg  # type: ignore[arg-type,union-attr]  # it draws these
    assert svg.count("-whiskers-of-chunked;") == 1 and "whiskers-of-naive" not in svg


def test_flagged_rows_have_no_ratio_and_are_counted(tmp_path):
    def doubt(lines):
        return [
            x | {"flags": ["contended"]} if x["implementation"] == "naive" else x for x in lines
        ]

    base = noisy(1)
    (a,) = sides(tmp_path / "a", base)
    (b,) = sides(tmp_path / "b", base * 0.9, alter=doubt)
    found = compared([a, b])
    told = " ".join(sentence for sentence, _ in sentences(found))
    assert "Over 2 cells" in told and "1 cell of B in no mean: 1 incomparable" in told
    assert "naive" not in told


def test_three_runs_have_a_column_each(tmp_path):
    base = noisy(1)
    found = compared(sides(tmp_path, base, base * 1.5, base * 0.5))
    text = comparison_page(found, [])
    heads = re.findall(r'data-key="([^"]+)"', text)
    assert [h for h in heads if len(h) == 1] == ["A", "B", "C"]
    assert {"B-change", "C-change"} <= set(heads)
    rows = re.findall(r'<tr id="r\d+".*', text)
    assert len(rows) == 3 and all("+50.0 %" in row and "−50.0 %" in row for row in rows)
    assert "C takes 0.500 × the time of A" in " ".join(s for s, _ in sentences(found))


def test_the_page_stands_alone_and_arrives_everywhere(tmp_path):
    found = compared(sides(tmp_path, noisy(25, seed=1), slower(noisy(25, seed=2), 0, 1.2)))
    drawn = render(comparison_figure, found)  # type: ignore[arg-type]  # the module draws these
    assert drawn is not None
    text = comparison_page(found, [drawn])
    read = Reader(text)
    ids = read.attributes("id")
    assert read.open == [] and len(ids) == len(set(ids))
    assert {f"r{row}" for row in read.attributes("data-row")} <= set(ids)
    wanted = {v[1:] for v in read.attributes("href") if v[0] == "#"}
    assert wanted <= set(ids) and not re.search(r"https?://(?!www\.w3\.org)", text)
    options = re.search(r'<select name="verdict".*?</select>', text, re.DOTALL)
    assert options and "regressed" in options.group() and "default-src 'none'" in text
    assert render(comparison_figure, found) == drawn  # type: ignore[arg-type]  # as above


def test_runs_of_two_machines_are_refused_with_the_field(tmp_path, capsys):
    def other(header):
        header["environment"]["torch"] = "9.9"

    a = write_side(tmp_path / "a", noisy(1))
    b = write_side(tmp_path / "b", noisy(1), day=2, change=other, machine_key="cpu-other")
    out = ["--out", str(tmp_path / "out")]
    assert main(["compare", str(a), str(b), *out]) == 4
    said = capsys.readouterr().out
    assert 'the runs cannot be compared: torch "2.13.0+cpu" → "9.9"' in said
    assert main(["compare", str(a), str(b), *out, "--allow-mismatch", "torch"]) in (0, 4)
    text = (tmp_path / "out/comparison.html").read_text()
    assert "torch" in text


def test_the_command_writes_tells_and_returns(tmp_path, capsys):
    base = noisy(1)
    sides(tmp_path, base, base * 1.1)
    store = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main(["compare", "20261201", "20261202", *store, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    names = {f"comparison.{kind}" for kind in ("html", "md", "csv")}
    names |= {f"comparison_figure.{kind}" for kind in ("svg", "png")}
    assert {f.name for f in (tmp_path / "out").iterdir()} == names
    assert record["comparisons"]["B"]["compared"] == 3 and record["findings"]
    assert record["comparisons"]["B"]["head"]["commit"] == "2222222"
    assert main(["compare", "20261201", *store]) == 2
    assert main(["compare", "20261201", "20261201", *store]) == 2
    assert "given twice" in capsys.readouterr().err
    assert main(["compare", "20261201", "20991231", *store]) == 2
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    assert capsys.readouterr().out.count("  python -m reports compare") == 2


def test_nothing_timed_in_both_returns_5(tmp_path):
    p = Problem.parse("T=8,H=1,d_h=8")
    a = write_run(tmp_path / "a", records=[cell("naive", p, 0.01)])
    b = write_run(tmp_path / "b", records=[cell("flex", p, 0.01)])
    assert main(["compare", str(a), str(b), "--out", str(tmp_path / "out")]) == 5
    assert "no cell was timed in both" in (tmp_path / "out/comparison.html").read_text()


@pytest.mark.parametrize("broken_side", ["base", "head"])
def test_what_broke_is_told_with_its_reason_whichever_side_it_was(tmp_path, broken_side):
    p = Problem.parse("T=8,H=1,d_h=8")
    good = [cell("naive", p, 0.01), cell("flex", p, 0.01)]
    died = cell("flex", p, status="crashed", reasons=["SIGSEGV in attention()"])
    pair = [good, [good[0], died]]
    runs = pair if broken_side == "head" else pair[::-1]
    a, b = (
        load_run(write_run(tmp_path / "runs", records=records, created=f"2026120{i}T000000Z"))
        for i, records in enumerate(runs, start=1)
    )
    told = [sentence for sentence, _ in sentences(compared([a, b]))]
    assert told[1] == (
        "One launch a side proves no difference: most is +0.0 % at naive B=1,T=8,H=1,d_h=8,float32 "
        "forward hot cpu_time."
    )
    assert told[2].startswith("1 cell of B in no mean: 1 ")
    letter = "B" if broken_side == "head" else "A"
    assert told[3].startswith(f"1 cell of {letter} broke, first flex B=1,T=8")
    assert told[3].endswith("crashed: SIGSEGV in attention().") or "crashed, SIGSEGV" in told[3]


def test_what_the_base_skipped_is_not_measured_and_did_not_break(tmp_path):
    p = Problem.parse("T=8,H=1,d_h=8")
    good = [cell(name, p, 0.01) for name in ("naive", "flex", "chunked")]
    skipped = cell("flex", p, status="skipped", reasons=["beyond the budget"])
    died = cell("chunked", p, status="crashed", reasons=["SIGSEGV"])
    a, b = (
        load_run(write_run(tmp_path / "runs", records=records, created=f"2026120{i}T000000Z"))
        for i, records in enumerate(([good[0], skipped, died], good), start=1)
    )
    told = [sentence for sentence, _ in sentences(compared([a, b]))]
    (left,) = (one for one in told if "not measured" in one)
    assert left.startswith("1 cell of A was not measured, first flex ")
    assert left.endswith("skipped, beyond the budget.")
    assert [one.split(" ")[:7] for one in told if "broke" in one] == [
        ["1", "cell", "of", "A", "broke,", "first", "chunked"]
    ]


def test_a_run_that_goes_on_or_has_nothing_says_so(tmp_path):
    def unfinished(header):
        header["finished_utc"] = None

    p = Problem.parse("T=8,H=1,d_h=8")
    runs = [
        load_run(write_run(tmp_path, records=records, created=f"2026120{i}T000000Z", change=change))
        for i, records, change in (
            (1, [cell("naive", p, 0.01)], None),
            (2, [cell("naive", p, 0.01)], unfinished),
            (3, [], None),
        )
    ]
    told = [sentence for sentence, _ in sentences(compared(runs))]
    assert "B is unfinished: what it has so far is compared." in told
    assert "C against A: no cell was timed in both." in told
    assert "1 cell of C in no mean: 1 missing." in told
    assert not any(sentence.startswith("A is") for sentence in told)


def test_csv_has_every_verdict_with_raw_seconds(tmp_path):
    base = noisy(1)
    found = compared(sides(tmp_path, base, base * 2))
    rows = list(csv.DictReader(io.StringIO(comparison_csv(found))))
    assert len(rows) == len(NAMES)
    for row in rows:
        assert math.isclose(float(row["head_s"]) / float(row["base_s"]), 2, rel_tol=1e-9)
