"""`python -m reports export`: LaTeX, a badge, Parquet and PDF, the same bytes for the same run."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess

import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from reports.badge import badge
from reports.export_command import chosen, points_parquet
from reports.latex import latex, latex_table
from reports.points_file import points_csv
from results.store import load_run
from tests.fake_run import cell, check_record, write_run

P = Problem.parse("T=512,H=8,d_h=64")
CAUSAL = P.with_(causal=True)


@pytest.fixture
def run(tmp_path):
    records = [
        *(cell("naive", P, 0.010), cell("my_kernel", P, 0.008), cell("naive", CAUSAL, 0.010)),
        cell("odd&%", P, 0.020, flags=["unsteady"]),
    ]
    return load_run(write_run(tmp_path / "runs", records=records))


def export(tmp_path, *arguments: str) -> int:
    return main(["export", *arguments, "--store", str(tmp_path / "runs")])


def rows_of(table: str) -> list[list[str]]:
    body = table.split("\\midrule\n")[1].split("\\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    return [[text.strip() for text in line[:-2].split(" & ")] for line in lines]


def test_the_table_has_the_chosen_rows_and_as_many_columns_as_it_says(run):
    table = latex_table(run, chosen(run, "full"))
    rows = rows_of(table)
    assert [row[0] for row in rows] == [r"my\_kernel", "naive", r"odd\&\%"]
    spec = re.search(r"\\begin\{tabular\}\{([lr]+)\}", table)
    assert spec and {len(row) for row in rows} == {len(spec.group(1))}
    assert rows[0][5] == "1.25" and rows[2][5] == ""  # flagged: no ratio
    assert "unsteady" in rows[2][-1] and table.count("{") == table.count("}")


def test_passes_and_launches_of_one_problem_are_told_apart(tmp_path):
    records = [
        *(cell("naive", P, 0.010), cell("naive", P, 0.011, launch=2)),
        cell("naive", P, 0.020, **{"pass": "backward"}),
    ]
    run = load_run(write_run(tmp_path / "runs", records=records))
    rows = rows_of(latex_table(run, run.cells))
    assert [row[2:4] for row in rows] == [["backward", "1"], ["forward", "1"], ["forward", "2"]]
    assert "pass" not in latex_table(run, run.cells[:1])


def test_a_new_problem_is_set_apart_and_the_caption_tells_where_and_how(run):
    table = latex_table(run, chosen(run, "naive"))
    assert table.count(r"\addlinespace") == 1
    caption = next(line for line in table.splitlines() if line.startswith(r"\caption"))
    for words in ("Fake CPU 9000", "commit 1234567", "one launch", "hot cache", r"95 \%"):
        assert words in caption
    assert "flags" not in table


def test_what_latex_takes_for_itself_is_escaped():
    assert latex(r"a_b & 5% {x} \y #1 $ ^ ~ × ± – < >") == (
        r"a\_b \& 5\% \{x\} \textbackslash{}y \#1 \$ \textasciicircum{} \textasciitilde{} "
        r"$\times$ $\pm$ -- \textless{} \textgreater{}"
    )


def test_what_pdflatex_cannot_set_is_said(run, tmp_path):
    assert latex("d_h=64→128 a|b ≤ …") == (r"d\_h=64$\rightarrow$128 a\textbar{}b $\le$ \ldots{}")
    assert latex_table(run, chosen(run, "")).isascii()
    named = load_run(write_run(tmp_path / "named", records=[cell("日本", P, 0.01)]))
    assert latex_table(named, chosen(named, "")).splitlines()[0].endswith("lualatex or xelatex.")


def test_more_rows_than_a_page_holds_go_on_over_pages_with_their_heads(tmp_path):
    def table(n: int) -> str:
        records = [cell(f"kernel_{i}", P, 0.01 + i / 1e4) for i in range(n)]
        run = load_run(write_run(tmp_path / str(n), records=records))
        return latex_table(run, chosen(run, ""))

    short, long = table(40), table(41)
    assert "longtable" not in short and r"\begin{table}" in short
    assert r"\usepackage{booktabs,longtable}" in long and r"\begin{table}" not in long
    heads, rows = long.split(r"\endlastfoot")
    before = [heads.index(rf"\{word}") for word in ("endfirsthead", "endhead", "endfoot")]
    assert before == sorted(before) and heads.count("implementation &") == 2
    assert heads.count(r"\caption") == 1
    lines = [line for line in rows.splitlines() if line.endswith(r"\\")]
    spec = re.search(r"\\begin\{longtable\}\{([lr]+)\}", heads)
    assert spec and {line.count(" & ") + 1 for line in lines} == {len(spec[1])}
    assert [line.split(" & ")[0] for line in lines] == [rf"kernel\_{i}" for i in range(41)]
    assert long.count("{") == long.count("}")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_sets_the_table(run, tmp_path):
    many = [cell(f"kernel_{i}", P, 0.01) for i in range(100)]
    long = load_run(write_run(tmp_path / "long", records=many))
    text = r"\documentclass{article}\usepackage{booktabs,longtable}\begin{document}" + "\n"
    text += latex_table(run, chosen(run, "")) + latex_table(long, chosen(long, ""))
    text += r"\end{document}"
    (tmp_path / "t.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_badge_is_one_line_and_leaves_doubtful_rows_out(run, tmp_path):
    text = badge(run)
    record = json.loads(text)
    assert text.count("\n") == 1 and record["schemaVersion"] == 1
    flop = 2 * 8 * 512**2 * 128
    assert (
        record["message"] == f"my_kernel {100 * flop / 100e9 / 0.008:.0f} % of bound, 3 cells right"
    )
    bad = cell("bad", P, 0.001, status="wrong", check=check_record(ok=False))
    other = load_run(write_run(tmp_path / "b", records=[cell("naive", P, 0.01), bad]))
    assert json.loads(badge(other))["message"] == "1 wrong"
    none = load_run(write_run(tmp_path / "c", records=[cell("naive", P)]))
    assert json.loads(badge(none))["message"] == "nothing timed"


def test_parquet_has_the_points_of_the_csv_with_types(run):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    table = parquet.read_table(io.BytesIO(points_parquet(run)))
    lines = list(csv.DictReader(io.StringIO(points_csv(run))))
    assert table.column_names == list(lines[0]) and table.num_rows == len(lines) == 4
    assert table["time_s"].to_pylist() == [float(line["time_s"]) for line in lines]
    assert table["causal"].to_pylist() == [line["causal"] == "True" for line in lines]
    types = {field.name: str(field.type) for field in table.schema}
    # Nothing has a window here; its column joins with one of a run that has.
    assert (types["window"], types["T_q"], types["peak_bytes"]) == ("int64", "int64", "double")
    assert table["window"].to_pylist() == [None] * 4


def test_parquet_is_not_written_to_a_terminal(run, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pyarrow", reason="pyarrow is optional")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert export(tmp_path, "parquet", "latest") == 2
    said = capsys.readouterr()
    assert said.out == "" and "--out points.parquet" in said.err
    file = tmp_path / "points.parquet"
    assert export(tmp_path, "parquet", "latest", "--out", str(file)) == 0
    assert file.read_bytes()[:4] == b"PAR1"
    assert export(tmp_path, "csv", "latest") == 0, "text is for a terminal"


@pytest.mark.slow
def test_every_format_gives_the_same_bytes_twice(run, tmp_path, capsysbinary):
    pytest.importorskip("pyarrow", reason="pyarrow is optional")
    for format in ("latex", "badge", "csv", "parquet"):
        found = []
        for _ in range(2):
            assert export(tmp_path, format, "latest") == 0
            found.append(capsysbinary.readouterr().out)
        assert found[0] == found[1] and len(found[0]) > 50, format
    for folder in ("one", "two"):
        assert export(tmp_path, "pdf", "latest", "--out", str(tmp_path / folder)) == 0
    pdfs = sorted((tmp_path / "one").iterdir())
    assert {"roofline.pdf", "latency.pdf"} <= {file.name for file in pdfs}
    for file in pdfs:
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
        assert file.read_bytes().startswith(b"%PDF-")
        # Letters as TrueType: some journals refuse Type 3.
        assert b"/Type3" not in file.read_bytes()


def test_the_command_refuses_what_has_no_meaning(run, tmp_path, capsys):
    assert export(tmp_path, "latex", "latest", "--cells", "nobody") == 5
    assert export(tmp_path, "badge", "latest", "--cells", "naive") == 2
    assert export(tmp_path, "pdf", "latest") == 2
    assert export(tmp_path, "csv", "20991231") == 2
    assert "say where with --out" in capsys.readouterr().err
    assert export(tmp_path, "latex", "latest", "--out", str(tmp_path / "a/t.tex")) == 0
    assert (tmp_path / "a/t.tex").read_text().startswith("% Made by")
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    assert capsys.readouterr().out.count("  python -m reports export") == 2


def test_without_pyarrow_the_others_still_work(run, tmp_path, monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert export(tmp_path, "parquet", "latest") == 2
    assert "pip install" in capsys.readouterr().err
    assert export(tmp_path, "csv", "latest") == 0
