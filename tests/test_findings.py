"""The sentences a run bears out, on runs whose answer is known."""

import doctest

import pytest

from impls.interface.problem import Problem
from results import units
from results.findings import (
    baseline_falls,
    causal_saving,
    closest_to_bound,
    did_not_run,
    failures,
    fastest,
    findings,
    left_out,
    paging,
)
from results.store import load_run
from tests.fake_cells import cell, check_record

SHORT = Problem.parse("T=128,H=8,d_h=64")
LONG = SHORT.with_(T_q=4096, T_kv=4096)


@pytest.fixture
def run_of(run_directory):
    def read(*records, **keywords):
        return load_run(run_directory(records=list(records) or None, **keywords))

    return read


def sentence(finding):
    assert finding is not None
    return finding.sentence


def test_a_plausible_run_bears_out_three_to_seven_sentences(run_of):
    told = findings(run_of())
    assert 3 <= len(told) <= 7
    assert all(f.sentence.endswith(".") and f.cells for f in told)
    assert len(findings(run_of(created="20261130T000000Z"), most=3)) == 3


@pytest.mark.parametrize(
    "doubt",
    [
        {"flags": ["above_ceiling"]},
        {"flags": ["contended"]},
        {"status": "wrong", "check": check_record(ok=False)},
    ],
)
def test_rows_in_doubt_never_win_and_their_number_is_told(run_of, doubt):
    """A row above the machine's peak was published as a record; one that fell back, as a win."""
    run = run_of(
        cell("naive", LONG, 0.5),
        cell("chunked", LONG, 0.45),
        cell("sdpa_flash", LONG, 0.001, **doubt),
        cell("sdpa_flash", LONG.with_(causal=True), 0.0001, **doubt),
        cell("naive", LONG.with_(causal=True), 0.5),
    )
    assert "chunked is the fastest of 2" in sentence(fastest(run))
    assert "sdpa_flash" not in sentence(closest_to_bound(run))
    assert causal_saving(run) is not None and "sdpa_flash" not in sentence(causal_saving(run))
    word = doubt.get("flags", ["wrong"])[0]
    expected = f"2 timed rows are left out of best-of and speed-ups (2 {word})."
    assert sentence(left_out(run)) == expected


def test_the_closest_to_its_bound_names_what_binds_and_whose_roof(run_of):
    # 4·8·4096²·64 FLOP at 100 GFLOP/s are 0.3436 s.
    run = run_of(cell("naive", LONG, 0.6), cell("sdpa_flash", LONG, 0.3436 / 0.92))
    text = sentence(closest_to_bound(run))
    assert text.startswith("sdpa_flash comes closest to its measured bound: 92 % at T = 4096 (")
    assert text.endswith("; compute binds, torch.mm at 100 GFLOP/s.")


def test_a_bound_nobody_measured_is_not_told(run_of):
    assert closest_to_bound(run_of(cell("naive", LONG, 0.6, bound=None))) is None


def test_a_baseline_that_falls_with_T_is_told_with_its_memory(run_of):
    # Full forward at T=128 is 0.000336 s at the roof, at T=4096 0.3436 s.
    run = run_of(cell("naive", SHORT, 0.000336 / 0.7), cell("naive", LONG, 0.3436 / 0.3))
    text = sentence(baseline_falls(run))
    assert text.startswith("naive falls from 70 % of its bound at T = 128 to 30 % at T = 4096 (")
    assert "from 1.31 MB to 1.08 GB" in text


def test_a_baseline_that_holds_is_not_told(run_of):
    run = run_of(cell("naive", SHORT, 0.000336 / 0.7), cell("naive", LONG, 0.3436 / 0.65))
    assert baseline_falls(run) is None


def test_a_baseline_sweep_of_constant_tokens_is_one_series(run_of):
    """On a GPU B·T is constant, so B changes along the sweep of T."""
    many = SHORT.with_(B=32)
    run = run_of(cell("naive", many, 32 * 0.000336 / 0.7), cell("naive", LONG, 0.3436 / 0.3))
    assert "at T = 128 to 30 % at T = 4096 (B 1, H 8" in sentence(baseline_falls(run))


def test_causal_is_told_up_to_where_it_skips_nothing(run_of):
    rows = []
    for T, share in ((128, 1.0), (512, 0.98), (2048, 0.62), (4096, 0.56)):
        problem = SHORT.with_(T_q=T, T_kv=T)
        rows += [
            cell("sdpa_flash", problem, 1e-6 * T),
            cell("sdpa_flash", problem.with_(causal=True), 1e-6 * T * share),
        ]
    text = sentence(causal_saving(run_of(*rows)))
    assert text.startswith("Causal sdpa_flash skips nothing up to T = 512 and takes 0.56 of full's")
    assert "where 0.50 of the pairs are visible (1 launch)" in text


def test_causal_is_told_of_the_fastest_and_not_of_whom_it_saves_most(run_of):
    rows = []
    for name, full_s, share in (("naive", 0.5, 1.0), ("chunked", 0.45, 0.5), ("flash", 0.3, 0.6)):
        rows += [cell(name, LONG, full_s), cell(name, LONG.with_(causal=True), full_s * share)]
    longer = LONG.with_(T_q=8192, T_kv=8192)
    for name in ("chunked", "flash"):
        rows += [cell(name, longer, 2.0), cell(name, longer.with_(causal=True), 1.1)]
    few = LONG.with_(H=2, H_kv=2, T_q=16384, T_kv=16384)
    rows += [
        cell("flash", few, 0.5, suite="heads", series="H"),
        cell("flash", few.with_(causal=True), 0.1, suite="heads", series="H"),
    ]
    text = sentence(causal_saving(run_of(*rows)))
    assert text.startswith("Causal flash takes 0.55 of full's time at T = 8192 (H 8, d_h 64, fp32)")


def test_causal_that_saves_nothing_is_told_so(run_of):
    run = run_of(cell("naive", LONG, 0.5), cell("naive", LONG.with_(causal=True), 0.51))
    text = sentence(causal_saving(run))
    assert "Causal saves naive nothing: it takes 1.02 of full's time" in text


@pytest.mark.parametrize("doubtful", [0, 1])
def test_causal_is_not_told_from_a_row_in_doubt(run_of, doubtful):
    rows = [cell("naive", LONG, 0.5), cell("naive", LONG.with_(causal=True), 0.3)]
    rows[doubtful]["flags"] = ["contended"]
    assert causal_saving(run_of(*rows)) is None


def test_causal_from_the_start_has_no_length_where_it_skips_nothing(run_of):
    run = run_of(cell("naive", LONG, 0.5), cell("naive", LONG.with_(causal=True), 0.3))
    assert sentence(causal_saving(run)).startswith("Causal naive takes 0.60 of full's time at")


def test_time_in_the_operating_system_is_told_above_a_fifth(run_of):
    def host(share):
        return {"system_share": share, "minor_faults_per_call": 98307.0}

    run = run_of(
        cell("naive", LONG, 0.5, host=host(0.55)), cell("chunked", LONG, 0.4, host=host(0.2))
    )
    text = sentence(paging(run))
    assert text.startswith(
        "naive spends 55 % of its CPU time in the operating system at T = 4096 ("
    )
    assert "98.3 thousand page faults a call" in text
    assert "cells spend" not in text
    quiet = run_of(cell("naive", LONG, 0.5, host=host(0.2)), created="20261130T000000Z")
    assert paging(quiet) is None


def test_what_cannot_run_here_is_told_once_with_its_reason(run_of):
    why = ["needs a CUDA device"]
    run = run_of(
        cell("naive", LONG, 0.5),
        cell("sdpa_cudnn", LONG, status="unavailable", reasons=why),
        cell("sdpa_cudnn", SHORT, status="unavailable", reasons=why),
        cell("xformers_flash", LONG, status="unavailable", reasons=why),
        cell("naive", SHORT, status="unsupported", reasons=["T=128 is odd"]),
    )
    assert sentence(did_not_run(run)) == (
        "2 of 3 implementations cannot run here: sdpa_cudnn, xformers_flash (needs a CUDA device)."
    )


def test_a_reason_is_told_up_to_what_it_explains(run_of):
    why = ["runs on CUDA; on a CPU it is proven in an interpreter"]
    run = run_of(cell("naive", LONG, 0.5), cell("mine", LONG, status="unavailable", reasons=why))
    assert (
        sentence(did_not_run(run)) == "1 of 2 implementations cannot run here: mine (runs on CUDA)."
    )


def test_failures_begin_with_what_was_wrong(run_of):
    run = run_of(
        cell("naive", LONG, status="oom", reasons=["needs 17 GB"]),
        cell(
            "chunked",
            LONG,
            0.5,
            status="wrong",
            reasons=["out is off"],
            check=check_record(ok=False),
        ),
    )
    text = sentence(failures(run))
    assert text.startswith("2 cells gave no usable time (1 oom, 1 wrong): chunked B=1,T=4096")
    assert text.endswith("forward: out is off.")


def test_an_empty_run_bears_nothing_out(run_of, run_directory):
    assert findings(load_run(run_directory(records=[]))) == ()


def test_units_hold_their_examples():
    assert doctest.testmod(units).failed == 0
    assert doctest.testmod(units).attempted >= 4
