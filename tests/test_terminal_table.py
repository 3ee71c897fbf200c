"""The table in a terminal: what is wrong or in doubt is legible at every width."""

from __future__ import annotations

import pytest

from impls.interface.problem import Problem
from reports.columns import ratio_notes
from reports.table import terminal
from results.printing import print_run
from results.run import Run
from results.store import load_run
from tests.fake_run import cell, check_record, write_run

P = Problem.parse("T=512,H=8,d_h=64")
DECODE = P.with_(T_q=1, T_kv=512, causal=True)


@pytest.fixture
def run_of(tmp_path):
    """`run_of(records)` → the run as it is read from disk."""

    def make(records: list[dict], **keywords) -> Run:
        return load_run(write_run(tmp_path / "runs", records=records, **keywords))

    return make


def wrong(name: str, problem: Problem, time_s: float) -> dict:
    check = check_record(ok=False)
    return cell(name, problem, time_s, status="wrong", reasons=["out: off"], check=check)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_table_fits_its_width(run_of, width):
    long = cell("an_implementation_with_a_very_long_name", P, 0.02, flags=["low_n", "contended"])
    away = cell("x" * 100, P, status="unavailable", reasons=["y" * 200])
    run = run_of([cell("naive", P, 0.01), long, away])
    assert max(map(len, terminal(run, width).splitlines())) <= width


def test_the_terminal_groups_by_problem_and_collapses_reasons(run_of):
    away = [
        cell(name, P.with_(T_q=T, T_kv=T), status="unavailable", reasons=["needs CUDA"])
        for name in ("a", "b")
        for T in (128, 512)
    ]
    timed = [
        cell(name, P.with_(T_q=T, T_kv=T, causal=causal), time_s)
        for causal in (True, False)
        for T in (128, 2048, 512)
        for name, time_s in (("naive", 0.02), ("sdpa_flash", 0.01))
    ]
    lines = terminal(run_of(away + timed)).splitlines()
    assert "4 unavailable: a, b (needs CUDA)" in lines
    assert (
        " ".join(line.strip() for line in lines[:2])
        == "sequence_length: T, full · B=1 H=8 d_h=64 fp32 · forward, hot, CPU time"
        " · bound by compute"
    )
    first = [line.split()[:2] for line in lines[3:9]]
    assert first[0] == ["T=128", "sdpa_flash"] and first[1][0] == "naive"
    assert [row[0] for row in first[::2]] == ["T=128", "T=512", "T=2k"]


@pytest.mark.parametrize("width", [60, 64, 70, 80, 100, 200])
def test_a_wrong_row_says_so_at_every_width_and_has_no_rate(run_of, width):
    """The column of flags had no width left where no other row had a flag."""
    rows = [cell("naive", DECODE, 0.02), wrong("my_own_attention_kernel", DECODE, 0.0001)]
    lines = terminal(run_of(rows), width).splitlines()
    head = next(i for i, line in enumerate(lines) if line.split()[:1] == ["size"])
    # However fast it was it does not lead.
    ok, bad = (line.split() for line in lines[head + 1 : head + 3])
    assert "naive" in ok and "WRONG" in bad
    # Beside its time and ±: dashes for FLOP/s, × and % of bound, as far as they have room.
    kept = sum(word in lines[head] for word in ("GFLOP/s", "× naive", "% bound"))
    assert kept >= 1
    told = bad[bad.index("0.100") :]
    assert told[: 2 + kept] == ["0.100", "0.4", *["–"] * kept]


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("flag", ["contended", "host_bound", "above_ceiling", "throttled"])
def test_flags_are_never_cut(run_of, width, flag):
    flags = [flag, "low_n"]
    rows = [
        cell("compiled_naive", P.with_(H=24, H_kv=24, d_h=d), 0.1, flags=flags) for d in (8, 192)
    ]
    lines = terminal(run_of(rows), width).splitlines()
    short = {"host_bound": "host", "above_ceiling": "above"}
    word = short.get(flag) or flag
    assert sum(word in line for line in lines) >= 2 and sum("low_n" in line for line in lines) >= 2
    assert not any(line.endswith("…") for line in lines)


def test_what_binds_every_row_stands_in_the_heading_alone(run_of):
    lines = terminal(run_of([cell("naive", P, 0.02)]), 120).splitlines()
    assert lines[0].endswith("· bound by compute") and "bound by" not in lines[1]
    tiny = P.with_(T_q=2, T_kv=2)
    lines = terminal(run_of([cell("naive", P, 0.02), cell("naive", tiny, 1e-4)], commit="2"), 120)
    assert "bound by" in lines.splitlines()[1]


def test_a_length_is_T_only_where_both_are_the_same(run_of):
    rows = [cell("naive", p, 0.02, series="given") for p in (P.with_(causal=True), DECODE)]
    lines = terminal(run_of(rows)).splitlines()
    sizes = [line.split("  naive ")[0].strip() for line in lines[2:] if "  naive " in line]
    assert sizes == ["T_q=1 T_kv=512", "T=512"]
    alone = terminal(run_of([cell("naive", DECODE, 0.02)], commit="2222222")).splitlines()
    assert "T_q=1 T_kv=512" in alone[0] and " T=512" not in alone[0]


def test_why_a_row_in_no_doubt_has_no_ratio_is_said_under_the_table(run_of):
    longer, longest = (P.with_(T_q=T, T_kv=T) for T in (1024, 2048))
    run = run_of(
        [
            cell("naive", P, 0.02, flags=["contended"]),
            cell("naive", longest, status="oom", reasons=["too large"]),
            *(cell("flex", problem, 1.0) for problem in (P, longer, longest)),
        ]
    )
    told = "× –: naive is contended at T=512; not measured at T=1k; oom at T=2k."
    assert told in terminal(run)
    assert "not measured (1 row)" in ratio_notes(run)[0]
    fine = run_of([cell("naive", P, 0.02), cell("flex", P, 0.02)], commit="2222222")
    assert "× –" not in terminal(fine) and ratio_notes(fine) == []


def test_without_a_baseline_nothing_is_said_of_one(run_of):
    def of(baseline, names, commit):
        records = [cell(name, P, 0.02) for name in names]

        def change(header):
            header["settings"]["baseline"] = baseline

        return terminal(run_of(records, change=change, commit=commit))

    assert "naive" not in of(None, ["flex"], "1111111")
    assert "× naive" in of(None, ["flex", "naive"], "2222222")
    assert "× –: naive is not measured" in of("naive", ["flex"], "3333333")


def test_a_run_that_is_a_quarter_contended_ends_with_what_to_do(run_of):
    rows = [cell("naive", P.with_(B=1 + i), 0.02, flags=["contended"]) for i in range(3)]
    rows += [cell("naive", P.with_(B=9), 0.02)]
    assert terminal(run_of(rows), 100).splitlines()[-1] == (
        "3 of 4 rows are contended: stop other programs, or measure again."
    )


def test_the_interval_is_the_same_in_both_tables_and_explained_once(run_of, capsys):
    """One had the farther end of the interval after its ±, the other half the width."""
    from rich.console import Console

    record = cell("naive", P, 0.02)
    record["timing"] |= {"ci_low_s": 0.0198, "ci_high_s": 0.0212}
    run = run_of([record])
    print_run(run, Console(width=80))
    for text in (terminal(run), capsys.readouterr().out):
        assert any("3.5" in line.split() for line in text.splitlines() if "naive" in line)
        assert " ".join(text.split()).count("half the width of the 95 % interval") == 1
