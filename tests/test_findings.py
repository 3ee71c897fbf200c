"""The sentences a run bears out, on runs whose answer is known."""

import doctest

import pytest

from impls.interface.problem import Problem
from reports.markdown import markdown
from reports.page import page
from results import units
from results.causal import causal_saving
from results.findings import baseline_falls, closest_to_bound, fastest, findings, paging
from results.store import load_run
from results.trouble import left_out
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


def test_contended_ceilings_are_told_wherever_a_bound_is(run_of):
    def contended(header):
        header["ceilings"] |= {"contended": True, "foreign_load": 0.31}

    run = run_of(change=contended)
    doubt = (
        "% of bound may read high: other programs took 31% of the machine while the ceilings "
        "were measured"
    )
    assert sentence(closest_to_bound(run)).endswith(f" ({doubt}).")
    for text in (markdown(run), page(run, [])):
        assert 0 < text.index("Mind:") < text.index(doubt) < text.index("comes closest")
    assert "may read high" not in page(run_of(created="20261130T000000Z"), [])


def test_who_is_wrong_somewhere_is_praised_nowhere(run_of):
    """A kernel wrong for T_q ≠ T_kv was told as the fastest, at problems it had right."""
    run = run_of(
        cell("naive", LONG, 0.5),
        cell("chunked", LONG, 0.45),
        cell("mine", LONG, 0.36),
        cell("mine", SHORT.with_(T_q=5), 0.01, status="wrong", check=check_record(ok=False)),
    )
    assert "chunked is the fastest of 2" in sentence(fastest(run))
    assert "mine" not in sentence(closest_to_bound(run))
    assert sentence(left_out(run)) == (
        "2 timed rows are left out of best-of and speed-ups (1 right, but mine is wrong "
        "elsewhere, 1 wrong)."
    )


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
        cell("sdpa_flash", LONG, 0.36, **doubt),
        cell("sdpa_flash", LONG.with_(causal=True), 0.18, **doubt),
        cell("naive", LONG.with_(causal=True), 0.5),
        cell("naive", SHORT, 0.01),
        cell("naive", SHORT.with_(causal=True), 0.01),
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


@pytest.mark.parametrize(
    ("faults", "is_told"), [(None, True), (0.0, False), (0.4, False), (1, True)]
)
def test_time_in_the_system_without_a_page_fault_is_not_laid_to_the_allocator(
    run_of, faults, is_told
):
    host = {"system_share": 0.4, "minor_faults_per_call": faults}
    found = paging(run_of(cell("naive", LONG, 0.5, host=host)))
    assert (found is not None) == is_told


def test_an_empty_run_bears_nothing_out(run_of, run_directory):
    assert findings(load_run(run_directory(records=[]))) == ()


def test_units_hold_their_examples():
    assert doctest.testmod(units).failed == 0
    assert doctest.testmod(units).attempted >= 4
