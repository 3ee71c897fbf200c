"""The one table: units, what enters ratios, and what each of its outlets has room for."""

from __future__ import annotations

import csv
import io
import re

import pytest

from impls.interface.problem import Problem
from reports.columns import columns
from reports.markdown import markdown
from reports.points_file import points_csv
from reports.rows import html_rows, left_out, reasons, status_counts
from reports.table import terminal
from results.run import Run
from results.schema import STATUSES
from results.store import load_run
from tests.fake_cells import bound_record, timing_record
from tests.fake_run import cell, check_record, write_run

P = Problem.parse("T=512,H=8,d_h=64")


@pytest.fixture
def run_of(tmp_path):
    """`run_of(records)` → the run as it is read from disk; without records, the default one."""

    def make(records: list[dict] | None = None, **keywords) -> Run:
        return load_run(write_run(tmp_path / "runs", records=records, **keywords))

    return make


def column(run: Run, key: str) -> list[str]:
    return [columns(run)[key].show(c) for c in run.cells]


def test_a_column_has_one_unit_over_the_whole_report(run_of):
    # A13: 0.0123 µs, 1.5 ms and 2.1 s side by side
    times = (0.0123e-6, 1.5e-3, 2.1)
    run = run_of([cell(f"impl{i}", P, time_s) for i, time_s in enumerate(times)])
    assert columns(run)["time"].header == "time ms"
    assert column(run, "time") == ["0.0000123", "1.50", "2100"]
    assert columns(run)["interval"].header == "interval ms"
    assert column(run, "half_width") == ["0.4", "0.4", "0.4"]
    assert column(run, "interval")[2] == "2092 … 2108"
    assert all(c not in "".join(column(run, "time")) for c in "eµs")
    # 2·8·512²·128 = 536 870 912 FLOP in 1.5 ms
    assert columns(run)["flop_per_s"].header == "GFLOP/s"
    assert column(run, "flop_per_s")[1] == "358"
    with_unit = [line for line in terminal(run).splitlines() if line.split()[:1] == ["size"]]
    assert all(line.split()[2] == "ms" for line in with_unit) and with_unit
    assert "| time ms |" in markdown(run)
    read = list(csv.DictReader(io.StringIO(points_csv(run))))
    assert [float(row["time_s"]) for row in read] == list(times), "seconds raw"


def test_a_row_shows_how_its_samples_lie(run_of):
    def timing(*samples: float) -> dict:
        return timing_record(0.01) | {"samples_s": list(samples), "n": len(samples)}

    two = timing(*[0.010] * 8, *[0.0215] * 8, 0.022)
    run = run_of([cell("two", P, 0.01, timing=two), cell("one", P, 0.01, timing=timing(0.01))])
    assert column(run, "samples") == ["█▁▁▁▁▁▁▁▁▁▁█", "–"]


def test_bytes_are_decimal_in_one_unit(run_of):
    memory = {"peak_bytes": 2**30, "peak_reserved_bytes": None, "how": "profiler"}
    run = run_of([cell("naive", P, 0.01, memory=memory)])
    assert columns(run)["peak_bytes"].header == "peak GB"
    assert column(run, "peak_bytes") == ["1.07"]


def test_only_unflagged_ok_rows_have_a_ratio(run_of):
    run = run_of(
        [
            cell("naive", P, 0.10),
            cell("fast", P, 0.04),
            cell("flagged", P, 0.04, flags=["contended"]),
            cell("wrong", P, 0.04, status="wrong", check=check_record(ok=False)),
            cell("alone", P.with_(causal=True), 0.04),
        ]
    )
    assert column(run, "times_baseline") == ["1.00", "2.50", "–", "–", "–"]
    assert columns(run)["times_baseline"].header == "× naive (1 launch)"


def test_a_row_above_the_peak_is_flagged_and_out_of_every_ratio(run_of):
    # P08: 1.3 and 30 times the machine's 100 GFLOP/s
    bound_s = 2 * 8 * 512 * 512 * 128 / 100e9
    records = [cell("naive", P, bound_s * 2)]
    for name, times in (("quick", 1.3), ("magic", 30)):
        records.append(cell(name, P, bound_s / times, flags=["above_ceiling"]))
    run = run_of(records)
    assert column(run, "flags") == ["–", "above_ceiling", "above_ceiling"]
    assert column(run, "percent_of_bound") == ["50.0", "130.0", "3000.0"]
    assert column(run, "times_baseline") == ["1.00", "–", "–"]
    assert left_out(run) == "2 rows left out of every ratio and best-of: 2 flagged."


def test_a_fallback_is_labelled_and_counted_out(run_of):
    # F05: a row whose kernel was not the one its name promises
    why = "asked for a flash kernel, ran aten::bmm"
    run = run_of([cell("naive", P, 0.01), cell("sdpa_flash", P, status="error", reasons=[why])])
    assert column(run, "times_baseline") == ["1.00", "–"]
    assert reasons(run.cells) == [f"1 error: sdpa_flash ({why})"]
    for text in (terminal(run), markdown(run).replace("\\", "")):
        assert why in " ".join(text.split())
        assert "1 row left out of every ratio and best-of: 1 error." in text


def test_reasons_that_differ_in_numbers_are_told_once_of_each_implementation(run_of):
    sizes = [P.with_(T_q=T, T_kv=T) for T in (128, 256, 384)]
    refused = [
        cell(name, p, status="unsupported", reasons=[f"T_q={p.T_q}: only decode steps"])
        for name in ("steps", "others")
        for p in sizes
    ]
    beyond = [
        cell(name, p, status="skipped", reasons=["beyond the quick budget: --budget default"])
        for name in ("naive", "flex")
        for p in sizes
    ]
    assert reasons(run_of([*refused, *beyond]).cells) == [
        "6 unsupported: steps, others (T_q=128: only decode steps; and 2 more like it)",
        "6 skipped: naive, flex (beyond the quick budget: --budget default)",
    ]


def test_every_status_is_counted_zeros_too(run_of):
    counted = dict(status_counts(run_of()))
    assert list(counted) == list(STATUSES)
    assert counted["ok"] == 25 and counted["oom"] == counted["crashed"] == 1
    assert "1 wrong, 1 unsupported, 1 unavailable, 1 oom, 1 error" in markdown(run_of_again(run_of))


def run_of_again(run_of) -> Run:
    return run_of(created="20261130T000000Z")


def test_an_error_that_is_not_finite_is_said(run_of):
    check = check_record(ok=False)
    check["outputs"]["out"]["max_error"] = None
    run = run_of([cell("naive", P, 0.01), cell("nan", P, 0.01, status="wrong", check=check)])
    assert column(run, "error") == ["2.0e-07", "not finite"]


def test_markdown_stays_below_the_limit_and_says_what_it_left_out(run_of):
    records = [
        cell(f"impl{i % 9}", P.with_(B=1 + i), 0.01, ran=["aten::" + "n" * 80]) for i in range(500)
    ]
    records += [
        cell(f"away{i}", P, status="error", reasons=[f"{i}: " + "why " * 50]) for i in range(300)
    ]
    run = run_of(records)
    text = markdown(run, [("Roofline", "roofline.png")])
    assert len(text) <= 60_000
    shown = sum(line.startswith("| impl") for line in text.splitlines()) - 1  # the header
    missing = 800 - shown - sum(line.startswith("| away") for line in text.splitlines())
    assert shown > 50 and f"{missing} rows left out here for length" in text
    assert "![Roofline](roofline.png)" in text


def test_markdown_has_the_worst_rows_first_and_folds_what_is_long(run_of):
    """Failures, the flagged, then the others by how little of their bound they reach."""
    bound_s = bound_record(P, "forward")["time_s"]
    run = run_of(
        [
            *(cell("good", P, bound_s / 0.9), cell("poor", P, bound_s / 0.1)),
            cell("odd", P, bound_s / 0.5, flags=["low_n"]),
            cell("dead", P, status="crashed", reasons=["the process died"]),
            cell("bad", P, bound_s, status="wrong", check=check_record(ok=False)),
            cell("away", P, status="unavailable", reasons=["needs CUDA"]),
        ]
    )
    text = markdown(run)
    names = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if "| B=1" in line]
    assert names == ["bad", "dead", "odd", "poor", "good"]
    seen = re.sub("<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "1 crashed: dead (the process died)" in seen and "bad gives a wrong" in seen
    why = "- 1 unavailable: away (needs CUDA)"
    assert "| good |" not in seen and why not in seen and why in text


def test_markdown_of_a_small_run_leaves_nothing_out_and_escapes(run_of):
    run = run_of([cell("a|b<i>", P, 0.01)])
    assert "| a\\|b\\<i\\> |" in markdown(run)
    assert "left out here" not in markdown(run)


def test_rows_that_tell_most_come_first(run_of):
    run = run_of()
    order = [c.status for c, _ in html_rows(run)[1]]
    assert order.index("crashed") > max(i for i, s in enumerate(order) if s in ("ok", "wrong"))
    assert order[-4:] == ["crashed", "error", "oom", "timeout"]


def test_what_could_not_be_measured_is_a_line_a_reason_and_no_row_of_dashes(run_of):
    run = run_of()
    absent = [c for c in run.cells if c.status in ("unavailable", "unsupported", "skipped")]
    assert len(html_rows(run)[1]) == len(run.cells) - len(absent) == 30
    text = markdown(run).replace("\\", "")
    assert "| sdpa_cudnn |" not in text
    assert "- 1 unavailable: sdpa_cudnn (needs a CUDA device)" in text
    assert "| naive | B=1,T=16384" in text, "out of memory is a result of its own"


def test_points_are_numbers_that_read_back(run_of):
    text = points_csv(run_of([cell("naïve", P, 0.0125)]))
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["implementation"] == "naïve" and int(row["T_q"]) == 512
    assert float(row["flop_per_s"]) == pytest.approx(2 * 8 * 512 * 512 * 128 / 0.0125)
    # 4 tensors of 8·512·64 float32
    assert float(row["intensity"]) == pytest.approx(512 / 4)
    assert row["window"] == "" and row["causal"] == "False"


def test_points_tell_what_readers_are_promised_beside_the_time(run_of):
    (row,) = csv.DictReader(io.StringIO(points_csv(run_of([cell("naive", P, 0.01)]))))
    # As the fake cell has them: three times the median, none, ±0.4 %, twelve faults, 1 %.
    assert float(row["first_call_s"]) == pytest.approx(0.03)
    assert (row["prepare_s"], row["n"], row["stop"]) == ("0.0", "11", "precise")
    assert (row["max_error"], row["naive_max_error"]) == ("2e-07", "3e-07")
    assert (row["minor_faults_per_call"], row["foreign_load"]) == ("12.0", "0.01")
    assert float(row["half_width_percent"]) == pytest.approx(0.4)


def test_the_table_has_what_readers_are_promised_after_what_they_look_for_first(run_of):
    run = run_of([cell("naive", P, 0.01)])
    found = columns(run)
    first = [key for key, c in found.items() if c.is_first]
    assert first == [*found][: len(first)]
    assert first == [
        *("implementation", "problem", "time", "half_width", "flop_per_s", "times_baseline"),
        *("percent_of_bound", "flags", "error"),
    ]
    shown = {key: column(run, key) for key in found}
    assert shown["first_call"] == ["30.0"] and shown["prepare"] == ["0"]
    assert shown["n"] == ["11"] and shown["stop"] == ["precise"]
    assert shown["naive_error"] == ["3.0e-07"]
    assert shown["faults"] == ["12"] and shown["foreign_load"] == ["1"]
