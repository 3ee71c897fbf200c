"""`python -m reports site`: an index of every run, pages that are made once, and at scale."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from tests.fake_run import cell, write_run
from tests.test_page import Reader

ROOT = Path(__file__).parent.parent
P = Problem.parse("T=512,H=8,d_h=64")
TWO = [cell("naive", P, 0.010), cell("flex", P, 0.008)]


def site(tmp_path, *options: str) -> int:
    store, out = str(tmp_path / "runs"), str(tmp_path / "site")
    return main(["site", "--store", store, "--out", out, *options])


def pages(tmp_path) -> list[Path]:
    return sorted((tmp_path / "site").glob("runs/*/*/report.html"))


def test_every_run_has_a_page_and_a_line_in_the_index(tmp_path):
    for day, key in (("20261128", "cpu-a"), ("20261129", "cpu-b")):
        write_run(tmp_path / "runs", records=TWO, created=f"{day}T000000Z", machine_key=key)
    assert site(tmp_path) == 0
    index = (tmp_path / "site/index.html").read_text()
    read = Reader(index)
    assert read.open == [] and "2 runs on 2 machines" in index
    links = [link for link in read.attributes("href") if not link.startswith("#")]
    assert all((tmp_path / "site" / link).is_file() for link in links) and len(links) == 4
    # The newest machine leads, with what its page found first.
    assert index.index("cpu-b") < index.index("cpu-a")
    assert "flex is the fastest of 2" in index and index.count("<script") == 0


@pytest.mark.slow
def test_runs_of_one_name_on_two_machines_have_a_page_each(tmp_path):
    for key, factor in (("cpu-a", 1.0), ("cpu-b", 2.0)):
        rows = [cell("naive", P, 0.01 * factor), cell("flex", P, 0.008 * factor)]
        write_run(tmp_path / "runs", records=rows, machine_key=key)
    assert site(tmp_path) == 0
    assert len({page.read_text() for page in pages(tmp_path)}) == 2


@pytest.mark.slow
def test_a_page_is_made_anew_only_when_its_run_has_changed(tmp_path, capsys):
    folder = write_run(tmp_path / "runs", records=TWO)
    assert site(tmp_path, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["written"]) == 1
    (page,) = pages(tmp_path)
    first = page.read_bytes()
    page.write_bytes(b"kept")
    assert site(tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["written"] == [] and page.read_bytes() == b"kept"
    journal = folder / "cells.jsonl"
    journal.write_text(journal.read_text() + json.dumps(cell("late", P, 0.02)) + "\n")
    assert site(tmp_path) == 0
    assert b"late" in page.read_bytes() and page.read_bytes() != first


@pytest.mark.slow
def test_the_same_store_gives_the_same_bytes(tmp_path):
    write_run(tmp_path / "runs", records=TWO)
    found = []
    for out in ("one", "two"):
        assert main(["site", "--store", str(tmp_path / "runs"), "--out", str(tmp_path / out)]) == 0
        files = sorted(p for p in (tmp_path / out).rglob("*") if p.is_file())
        found.append({str(p.relative_to(tmp_path / out)): p.read_bytes() for p in files})
    assert found[0] == found[1] and len(found[0]) > 8


@pytest.mark.slow
def test_an_unreadable_run_is_named_and_the_others_are_written(tmp_path):
    write_run(tmp_path / "runs", records=TWO)
    bad = write_run(tmp_path / "runs", records=TWO, created="20261128T000000Z")
    (bad / "run.json").write_text("{")
    assert site(tmp_path) == 5
    assert len(pages(tmp_path)) == 1
    assert bad.name in (tmp_path / "site/index.html").read_text()


def test_an_empty_store_is_a_usage_error(tmp_path, capsys):
    assert site(tmp_path) == 2
    assert "make bench" in capsys.readouterr().err


def test_the_index_alone_says_which_pages_there_are(tmp_path):
    write_run(tmp_path / "runs", records=TWO)
    assert site(tmp_path, "--index-only") == 0
    text = (tmp_path / "site/index.html").read_text()
    assert "no page yet" in text and pages(tmp_path) == []


def big_store(store: Path, runs: int, cells: int) -> None:
    lengths = [64 * (i + 1) for i in range(cells // 8)]
    rows = [
        cell(
            f"impl_{i}" if i else "naive",
            P.with_(T_q=T, T_kv=T, causal=causal),
            1e-8 * T * T * (i + 9),
        )
        for i in range(4)
        for T in lengths
        for causal in (False, True)
    ]
    for n in range(runs):
        write_run(store, records=rows, created=f"2026{1 + n // 28:02}{1 + n % 28:02}T000000Z")


# A process counts as its own the peak of the one it was forked from: this one is small.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def timed(*arguments: str) -> tuple[float, int]:
    """Seconds and peak bytes of a command, in a process of its own."""
    begin = time.monotonic()
    command = [sys.executable, "-c", PEAK, sys.executable, "-m", "reports", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return time.monotonic() - begin, 1024 * int(done.stdout)


@pytest.mark.slow
def test_a_hundred_thousand_cells_have_their_index_and_a_comparison_soon(tmp_path, capsys):
    """50 runs of 2000 cells: in 20 s and 1 GB, and ten times the runs in ten times the time."""
    told = []
    for runs in (5, 50):
        store = tmp_path / f"runs{runs}"
        big_store(store, runs, 2000)
        out = ["--store", str(store), "--out", str(tmp_path / f"out{runs}")]
        index_s, index_bytes = timed("site", "--index-only", *out)
        compare_s, compare_bytes = timed("compare", "20260101", "20260102", *out)
        told.append(
            f"{2000 * runs} cells in {runs} runs: index {index_s:.1f} s, one comparison "
            f"{compare_s:.1f} s, peak {max(index_bytes, compare_bytes) / 1e6:.0f} MB"
        )
        assert index_s + compare_s < 20 and max(index_bytes, compare_bytes) < 1e9
    with capsys.disabled():
        print("\n" + "\n".join(told))
