"""`pytest suites` as a user meets it: brought kernels, faults, statuses, files."""

from __future__ import annotations

import re

import pytest
from pytest_benchmark.logger import PytestBenchmarkWarning

from results.store import load_run
from tests.suite_process import Measured, refused, run_suites, strict

GOOD = """
import warnings
import torch

def attention(q, k, v):
    warnings.warn("as libraries do", FutureWarning)
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
"""

# A kernel per status; `test_faults.py` has all faults. Each computes the tiny call that decides
# whether it is available.
FAULTS = {
    "torch_oom": ("torch.OutOfMemoryError('wanted 3 GiB')", "oom"),
    "triton_resources": ("OutOfResources('shared memory')", "unsupported"),
    "plain_error": ("ValueError('no such shape')", "error"),
    "system_exit": ("SystemExit(0)", "error"),
    # What pytest would take for the end of the session, and of the cell, and for all well.
    "pytest_exit": ("pytest.exit.Exception('bye', returncode=0)", "error"),
    "pytest_skip": ("pytest.skip.Exception('nah')", "error"),
}
FAULTY = """
import weakref
import pytest
import torch

held = []

class OutOfResources(Exception):
    pass

def more_threads(q, k, v):
    torch.set_num_threads(torch.get_num_threads() + 1)
    return last(q, k, v)

def last(q, k, v):
    # What a cell that failed had allocated must not lack here (pytorch#10348).
    assert not any(tensor() is not None for tensor in held)
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
""" + "".join(
    f"""
def {name}(q, k, v):
    if q.shape[2] == 16:
        return last(q, k, v)
    large = q @ k.mT
    held.append(weakref.ref(large))
    raise {raised}
"""
    for name, (raised, _) in FAULTS.items()
)

WARNING = "pytest_benchmark.logger.PytestBenchmarkWarning"
FAIL = ("--benchmark-compare-fail=median:1%",)
ONE = "B=1,T=48,H=2,d_h=16"
BRIEF = ("--benchmark-max-time", "0.05")
SMALL = ("--problem", ONE, "--baseline", "none", *BRIEF)
WRONG = (
    GOOD.replace("return", "return 1.01 *")
    + """
calls = [0]

def turning(q, k, v):
    calls[0] += 1
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v * (1.1 if calls[0] > 12 else 1)
"""
)


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One run that many tests read, started with several of pytest-benchmark's options."""
    folder = tmp_path_factory.mktemp("elsewhere")
    sizes = ("--problem", ONE, "--problem", "B=2,T=33,H=4,d_h=8,causal")
    kept = ("--benchmark-json", str(folder / "own.json"), "--benchmark-autosave")
    shown = ("--benchmark-storage", str(folder / "saved"), "--benchmark-group-by=param:problem")
    asked = ("--impl", "kernel.py:attention", *sizes, *BRIEF, *kept, *shown)
    return run_suites(folder, *asked, kernel=GOOD)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A kernel that is wrong from the start, and one that turns wrong while it is timed."""
    names = "kernel.py:attention,kernel.py:turning"
    return run_suites(tmp_path_factory.mktemp("wrong"), "--impl", names, *SMALL, kernel=WRONG)


def test_a_kernel_from_another_folder_is_measured_beside_the_baseline(brought: Measured):
    assert brought.code == 0, brought.output
    by_name = {}
    for cell in brought.cells:
        by_name.setdefault(cell["implementation"], []).append(cell["status"])
    assert len(by_name) == 2 and by_name["naive"] == ["ok"], "alone it is no baseline"
    (own,) = (v for k, v in by_name.items() if k != "naive")
    assert own == ["ok", "unsupported"]
    assert "its signature has no `causal`" in brought.cells[-1]["reasons"]


def test_what_is_written_is_what_results_reads(brought: Measured):
    run = load_run(brought.folder)
    assert run.state == "finished"
    assert run.counts == brought.header["counts"]
    ok = [c for c in run.cells if c.status == "ok"]
    assert all(c.timing and c.timing.n >= 3 and c.bound and c.check for c in ok)
    assert {p.decision for p in run.header.plan} == {"run"}
    assert brought.header["settings"]["inputs"] == "normal, mean 0, deviation 1, seed 0"


def test_the_launch_file_is_strict_and_in_pytest_benchmarks_schema(brought: Measured):
    launch = strict((brought.folder / "launch-1.json").read_text())
    assert {"machine_info", "commit_info", "benchmarks", "version"} <= set(launch)
    assert len(launch["benchmarks"]) == brought.header["counts"]["ok"]
    for entry in launch["benchmarks"]:
        assert entry["params"]["T_q"] in (48, 33)
        assert "UNSERIALIZABLE" not in str(entry)
    own = strict((brought.folder.parents[2] / "own.json").read_text())
    assert len(own["benchmarks"]) == len(launch["benchmarks"]), "--benchmark-json keeps its meaning"


def test_cells_that_raise_get_their_status_and_the_sweep_goes_on(tmp_path):
    """Case R01, helion PR#2130: one cell out of memory ended the sweep."""
    names = [f"kernel.py:{name}" for name in (*FAULTS, "more_threads", "last")]
    found = run_suites(tmp_path, "--impl", ",".join(names), *SMALL, kernel=FAULTY)
    told = {c["implementation"]: c for c in found.cells}
    expected = {name: status for name, (_, status) in FAULTS.items()}
    expected |= {"more_threads": "error", "last": "ok"}
    assert {name: cell["status"] for name, cell in told.items()} == expected
    assert all(c["reasons"] and c["timing"] is None for n, c in told.items() if n != "last")
    assert "CPU threads from 1 to " in told["more_threads"]["reasons"][0]
    assert found.code == 1, "an error fails, out of memory does not"
    assert "5 failed, 1 passed, 2 skipped" in found.output


def test_a_wrong_kernel_keeps_its_time_is_marked_and_fails(wrong: Measured):
    cell = next(c for c in wrong.cells if c["implementation"] == "kernel_attention")
    assert wrong.code == 1 and cell["status"] == "wrong"
    assert cell["timing"]["median_s"] > 0 and not cell["check"]["ok"]
    assert "launch-1.json" not in [p.name for p in wrong.folder.iterdir()]
    assert re.search(r"^FAILED \S*bench_given.py::bench_given\[kernel_", wrong.output, re.MULTILINE)


def test_a_kernel_that_turns_wrong_while_timed_is_caught_after(wrong: Measured):
    cell = next(c for c in wrong.cells if c["implementation"] == "turning")
    assert cell["status"] == "wrong" and cell["check"]["after_timing"]


@pytest.mark.slow
def test_checked_not_timed_when_pytest_benchmark_is_disabled(tmp_path):
    found = run_suites(
        tmp_path, "--impl", "kernel.py:attention", "--benchmark-disable", *SMALL, kernel=GOOD
    )
    (cell,) = found.cells
    assert cell["status"] == "skipped" and cell["check"]["ok"] and cell["timing"] is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--impl", "naiv"), 'did you mean "naive"'),
        (("--benchmark-timer", "time.time"), "--benchmark-timer is refused"),
        (("--resume", "nothing"), 'no run called "nothing"'),
        (("--benchmark-group-by=param:zzz",), "one of implementation, problem, pass"),
        (("--benchmark-histogram",), "pip install pygal"),
        ((*FAIL, "--benchmark-compare", "--benchmark-disable"), "0 cells would be compared"),
        ((*FAIL, "--benchmark-compare", "--benchmark-skip"), "0 cells would be compared"),
        (FAIL, "--benchmark-compare-fail compares with what --benchmark-compare names"),
        ((*FAIL, "--benchmark-compare=0099"), "nothing that was saved is called so"),
    ],
)
def test_an_option_without_meaning_is_refused_before_collecting(tmp_path, capsys, arguments, told):
    """Case A16 among them: nothing is compared and all is green (pytest-benchmark#65)."""
    saved = (f"--benchmark-storage={tmp_path / 'saved'}", "-W", f"ignore::{WARNING}")
    assert refused(tmp_path, *saved, *arguments) == pytest.ExitCode.USAGE_ERROR
    out, err = capsys.readouterr()
    assert told in err and "Traceback" not in out + err and "collected" not in out
    assert [path.name for path in tmp_path.iterdir() if path.name != "saved"] == []


def test_a_first_comparison_has_no_baseline_and_is_no_mistake(tmp_path, capsys):
    """Case A01 by pytest-benchmark's options: it ended in an internal error before any cell."""
    limit = ("--benchmark-compare", *FAIL, f"--benchmark-storage={tmp_path / 'saved'}")
    cells = ("--impl", "naive", "--problem", "T=8,H=1,d_h=8", "--collect-only", "-q")
    with pytest.warns(PytestBenchmarkWarning, match="Can't compare"):
        assert refused(tmp_path, *limit, *cells) == pytest.ExitCode.OK
    out, err = capsys.readouterr()
    assert "no baseline: nothing was saved yet" in out and "Traceback" not in out + err


def test_a_store_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, capsys):
    (tmp_path / "store").write_text("a file stands where the folder should")
    assert refused(tmp_path, "--problem", "T=8,H=1,d_h=8") == pytest.ExitCode.USAGE_ERROR
    said = "".join(capsys.readouterr())
    assert f"cannot write {tmp_path / 'store'}" in said
    assert "1 thread" not in said, "the machine was looked at first"


def test_pytest_benchmarks_private_names_are_still_there(tmp_path):
    """The two private names the recording fixture uses, and what they do: a contract."""
    from pytest_benchmark.fixture import BenchmarkFixture

    fixture_fields = vars(BenchmarkFixture)
    assert "_make_stats" in fixture_fields and "_cleanup" in fixture_fields


def test_nothing_measured_of_what_was_asked_ends_5(tmp_path):
    causal = ("--problem", "T=48,H=2,d_h=16,causal", *BRIEF)
    found = run_suites(tmp_path, "--impl", "kernel.py:attention", *causal, kernel=GOOD)
    assert found.code == 5, found.output
    assert found.statuses() == {"kernel_attention 48": "unsupported"}


def test_cells_are_grouped_by_their_own_names(brought: Measured):
    assert f"benchmark 'problem={ONE},float32'" in brought.output


@pytest.mark.slow
def test_a_first_run_has_no_baseline_and_passes_and_another_s_is_none(tmp_path, brought: Measured):
    """Case A02: of a comparison that has no pair nothing is green."""
    limit = ("--benchmark-compare", *FAIL)
    asked = ("--impl", "kernel.py:attention", "--baseline", "none", *BRIEF, *limit)
    nowhere = ("--benchmark-storage", str(tmp_path / "saved"), "--problem", "T=9,H=1,d_h=8")
    found = run_suites(tmp_path, *asked, *nowhere, kernel=GOOD)
    assert found.code == 0 and "no baseline: nothing was saved yet" in found.output
    assert "Traceback" not in found.output
    elsewhere = ("--benchmark-storage", str(brought.folder.parents[2] / "saved"))
    found = run_suites(tmp_path, *asked, *elsewhere, "--problem", "T=9,H=1,d_h=8", kernel=GOOD)
    assert found.code == 5 and "0 cells were compared" in found.output, found.output


@pytest.mark.slow
def test_a_comparison_that_fails_still_ends_with_our_table(tmp_path, brought: Measured):
    slower = GOOD.replace("    return", "    for _ in range(30): q @ k.mT\n    return")
    before = ("--benchmark-storage", str(brought.folder.parents[2] / "saved"))
    limit = ("--benchmark-compare", "--benchmark-compare-fail=median:1%")
    asked = ("--impl", "kernel.py:attention", *SMALL, *before, *limit)
    found = run_suites(tmp_path, *asked, kernel=slower)
    assert found.code == 1 and "Performance has regressed" in found.output
    assert "T=48" in found.output.split("attnbench =")[-1]
