"""`python -m reports explain`: one cell in full, and the commands that measure it again."""

from __future__ import annotations

import json
import shlex

import pytest

from impls.interface.problem import Problem
from reports.__main__ import main
from reports.bars import histogram, sparkline
from reports.explain import again, explained
from reports.explain_command import find_cell
from results.store import load_run
from suites.session import options
from tests.fake_cells import timing_record
from tests.fake_run import cell, check_record, write_run

P = Problem.parse("T=512,H=8,d_h=64")
GQA = P.with_(H_kv=2, T_q=1, dtype="bfloat16", causal=True, window=100, layout="bthd")


def run_of(tmp_path, *records, **changes):
    return load_run(write_run(tmp_path / "runs", records=list(records), **changes))


def told(run, name="naive") -> dict[str, str]:
    """Subject → all its words, of the first cell of that name."""
    subjects: dict[str, str] = {}
    last = ""
    for subject, words in explained(run, next(c for c in run.cells if c.implementation == name)):
        last = subject or last
        subjects[last] = f"{subjects.get(last, '')} {words}".strip()
    return subjects


def test_the_bound_is_told_with_both_of_its_sides(tmp_path):
    """2·8·512²·128 FLOP at 100 GFLOP/s; four tensors of 512·8·64 float32 at 100 GB/s."""
    said = told(run_of(tmp_path, cell("naive", P, 0.008)))
    flop, moved = 2 * 8 * 512**2 * 128, 4 * 512 * 8 * 64 * 4
    assert "5.37 ms: compute binds" in said["bound"]
    assert f"{1e3 * flop / 100e9:.2f} ms = 537 MFLOP ÷ 100 GFLOP/s (torch.mm)" in said["bound"]
    assert f"{1e6 * moved / 100e9:.1f} µs = 4.19 MB ÷ 100 GB/s (LLC, copy)" in said["bound"]
    assert "67.1 % of the bound is reached, 2.63 ms above it" in said["bound"]
    assert "N = 262144 visible pairs" in said["counts"] and "4.19 MB at least" in said["counts"]


def test_samples_are_drawn_by_place_and_in_order(tmp_path):
    timing = timing_record(0.01) | {"samples_s": [0.01, 0.01, 0.01, 0.02], "n": 4}
    said = told(run_of(tmp_path, cell("naive", P, 0.01, timing=timing)))["samples"]
    place, order = said.split("▏")[1], said.split("▏")[2]
    assert place.startswith("█▁▁") and place.split("▕")[0].endswith("▁▁▄")
    assert order.startswith("▁▁▁█▕")
    assert sparkline([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"


def test_the_profilers_time_stands_beside_the_clocks(tmp_path):
    seen = cell("naive", P, 14e-6, device_state={"kernels_s": 12.3e-6})
    run = run_of(tmp_path, seen, cell("chunked", P, 14e-6))
    assert "its kernels took 12.3 µs of one call, by a profile" in told(run)["clock"]
    assert "profile" not in told(run, "chunked")["clock"]


def test_a_single_sample_is_seen_beside_a_thousand():
    assert histogram([1.0] * 1000 + [1.25, 2.0], 4) == "█▂▁▂"
    assert histogram([2.0] * 9, 4) == histogram([], 4) == ""


def test_one_sample_or_equal_ones_are_no_picture(tmp_path):
    same = timing_record(0.01) | {"samples_s": [0.01] * 5}
    assert told(run_of(tmp_path, cell("naive", P, 0.01, timing=same)))["samples"] == "all 10.0 ms"
    one = timing_record(0.01) | {"samples_s": [0.01], "n": 1}
    run = run_of(tmp_path, cell("naive", P, 0.01, timing=one), commit="2222222")
    assert told(run)["samples"] == "not kept" and "median of 1 sample," in told(run)["time"]


def test_a_wrong_and_an_unmeasured_cell_are_told_too(tmp_path):
    wrong = cell(
        "bad", P, 0.001, status="wrong", check=check_record(ok=False), reasons=["off by 3"]
    )
    absent = cell("flex", P, status="oom", reasons=["needs 17 GB"])
    run = run_of(tmp_path, wrong, absent)
    bad, gone = told(run, "bad"), told(run, "flex")
    assert "WRONG" in bad["error"] and "off by 3" in bad["cell"] and "headroom" not in bad["bound"]
    assert bad["beside it"] == "nothing: this row is not comparable"
    assert gone["time"] == "none" and "needs 17 GB" in gone["cell"]


def test_rivals_are_the_comparable_rows_of_the_same_problem(tmp_path):
    run = run_of(
        tmp_path,
        *(cell("naive", P, 0.010), cell("flex", P, 0.007), cell("late", P, 0.020)),
        cell("lucky", P, 0.001, flags=["unsteady"]),
        cell("other", P.with_(causal=True), 0.002),
    )
    assert told(run)["beside it"] == "flex: 7.00 ms, 0.70 × the time late: 20.0 ms, 2.00 × the time"


class Parser:
    """Stands in for pytest's parser: which options it was given, and their choices."""

    def __init__(self) -> None:
        self.choices: dict[str, tuple[str, ...] | None] = {}

    def getgroup(self, *_):
        return self

    def addoption(self, flag, **how):
        self.choices[flag] = how.get("choices")


@pytest.mark.parametrize("problem", [P, GQA, P.with_(operator="linear")], ids=str)
def test_the_command_to_have_it_again_is_understood_by_the_suites(tmp_path, problem):
    run = run_of(tmp_path, cell("naive", problem, 0.01, **{"pass": "backward", "cache": "cold"}))
    checkout, command = again(run, run.cells[0])
    words = shlex.split(command)
    assert checkout == "git checkout 1234567" and words[1:4] == ["-m", "pytest", "suites"]
    given = dict(zip(words[4::2], words[5::2], strict=True))
    parser = Parser()
    options.add(parser)
    assert set(given) <= set(parser.choices)
    assert all(not (c := parser.choices[flag]) or value in c for flag, value in given.items())
    assert Problem.parse(given["--problem"]) == problem
    assert (given["--passes"], given["--cache"], given["--impl"]) == ("backward", "cold", "naive")


def test_a_brought_kernel_is_measured_again_from_its_folder(tmp_path):
    def bring(header):
        header["settings"]["brought"] = ["my kernel.py:attention"]
        header["environment"]["folder"] = "/some where"

    run = run_of(tmp_path, cell("attention", P, 0.01), change=bring)
    lines = again(run, run.cells[0])
    assert lines[1] == "cd '/some where'"
    assert "--impl 'my kernel.py:attention'" in lines[2] and "/suites --impl" in lines[2]


def test_a_cell_is_found_by_words_or_by_its_identity(tmp_path):
    run = run_of(
        tmp_path,
        *(cell("naive", P, 0.01), cell("naive", P.with_(causal=True), 0.01)),
        cell("naive", P, 0.02, launch=2),
    )
    assert find_cell(run, "naive full").problem == P
    assert find_cell(run, "naive,T=512 causal").problem.causal
    assert find_cell(run, run.cells[1].cell[:8]) is run.cells[1]
    assert find_cell(run, "full", launch=2) is run.cells[2]


def test_the_command_tells_and_returns(tmp_path, capsys):
    wrong = cell("bad", P, 0.001, status="wrong", check=check_record(ok=False))
    write_run(tmp_path / "runs", records=[cell("naive", P, 0.01), wrong])
    store = ["--store", str(tmp_path / "runs")]
    assert main(["explain", "latest", "naive", "T=512", *store]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("cell      naive, T = 512")
    assert main(["explain", "latest", "naive", "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out)["bound"][0] == "5.37 ms: compute binds"
    assert main(["explain", "latest", "bad", *store]) == 1
    assert main(["explain", "latest", "T=512", *store]) == 2
    said = capsys.readouterr().err
    assert "2 cells have" in said and "bad B=1,T=512" in said
    assert main(["explain", "latest", "nobody", *store]) == 2
    assert main(["explain", "20991231", "naive", *store]) == 2
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    assert capsys.readouterr().out.count("  python -m reports explain") == 2
