"""What is said of wrong results, failures, absences and doubts, and where."""

import pytest

from impls.interface.problem import Problem
from results.findings import findings
from results.store import load_run
from results.trouble import advice, did_not_run, exhausted, failures, has_wrong
from tests.fake_cells import cell, check_record

SHORT = Problem.parse("T=128,H=8,d_h=64")
LONG = SHORT.with_(T_q=4096, T_kv=4096)
DECODE = SHORT.with_(T_q=1, T_kv=512, causal=True)


@pytest.fixture
def run_of(run_directory):
    def read(*records, **keywords):
        return load_run(run_directory(records=list(records), **keywords))

    return read


def wrong(name, problem, time_s, reason="out: off by 2.9"):
    check = check_record(ok=False)
    return cell(name, problem, time_s, status="wrong", reasons=[reason], check=check)


def test_the_first_finding_names_the_wrong_kernel_its_problem_and_the_checks_reason(run_of):
    """A wrong kernel was told third, after who was fastest."""
    run = run_of(
        cell("naive", LONG, 0.5),
        cell("chunked", LONG, 0.45),
        cell("flex", LONG, status="crashed", reasons=["it died"]),
        wrong("mine", DECODE, 0.0001),
        wrong("mine", LONG, 0.4),
    )
    assert findings(run)[0].sentence == (
        "mine gives a wrong result at T_q = 1, T_kv = 512, causal (H 8, d_h 64, fp32): "
        "out: off by 2.9; 2 more cells: 1 wrong, 1 crashed."
    )
    assert all("mine" not in finding.sentence for finding in findings(run)[1:])
    assert has_wrong(run)


@pytest.mark.parametrize(("status", "word"), [("crashed", "crashed"), ("error", "failed")])
def test_what_crashed_or_failed_is_told_first(run_of, status, word):
    run = run_of(
        cell("naive", LONG, 0.5),
        cell("chunked", LONG, 0.45),
        cell("flex", LONG, status=status, reasons=["no compiler"]),
    )
    assert findings(run)[0].sentence.startswith(f"flex {word} at T = 4096 (H 8")
    assert not has_wrong(run)


def test_running_out_of_memory_is_told_after_the_times(run_of):
    run = run_of(
        cell("naive", SHORT, 0.5),
        cell("chunked", SHORT, 0.45),
        cell("naive", LONG, status="oom", reasons=["needs 17 GB"]),
    )
    assert failures(run) is None
    told = exhausted(run)
    assert told is not None and told in findings(run)[1:]
    assert told.sentence == (
        "naive ran out of memory at T = 4096 (H 8, d_h 64, fp32): needs 17 GB."
    )


def test_what_cannot_run_here_is_told_once_with_its_reason(run_of):
    why = ["needs a CUDA device"]
    run = run_of(
        cell("naive", LONG, 0.5),
        cell("sdpa_cudnn", LONG, status="unavailable", reasons=why),
        cell("sdpa_cudnn", SHORT, status="unavailable", reasons=why),
        cell("xformers_flash", LONG, status="unavailable", reasons=why),
        cell("naive", SHORT, status="unsupported", reasons=["T=128 is odd"]),
    )
    told = did_not_run(run)
    assert told is not None and told.sentence == (
        "2 of 3 implementations cannot run here: sdpa_cudnn, xformers_flash (needs a CUDA device)."
    )


def test_a_kernel_that_was_found_wrong_before_its_cells_is_told_and_not_praised(run_of):
    def doubting(header):
        header["doubts"] = {"mine": "wrong for causal T_q ≠ T_kv (out: off by 2.9): run a check"}

    run = run_of(cell("naive", LONG, 0.5), cell("mine", LONG, 0.1), change=doubting)
    told = [finding.sentence for finding in findings(run)]
    assert told[0] == "mine is wrong for causal T_q ≠ T_kv (out: off by 2.9): run a check."
    assert "mine is the fastest" not in " ".join(told)


def test_who_had_no_problem_of_its_own_is_not_told_to_be_unable_to_run_here(run_of):
    """A kernel of decode steps was told not to run here, of a run without a decode step."""
    steps = cell("steps", LONG, status="unsupported", reasons=["T_q=4096: only decode steps"])
    absent = [
        cell(f"absent{n}", LONG, status="unavailable", reasons=[f"needs thing {n}"])
        for n in range(4)
    ]
    told = did_not_run(run_of(cell("naive", LONG, 0.5), steps, *absent))
    assert told is not None and "steps" not in told.sentence
    assert told.sentence.startswith("4 of 6 implementations cannot run here: absent0 (needs")
    assert told.sentence.endswith("; and 1 more reason.")
    told = did_not_run(run_of(cell("naive", LONG, 0.5), steps, commit="2222222"))
    assert told is not None and told.sentence == (
        "1 of 2 implementations do none of these problems: steps (T_q=4096: only decode steps)."
    )


def test_a_reason_is_told_up_to_what_it_explains(run_of):
    why = ["runs on CUDA; on a CPU it is proven in an interpreter"]
    run = run_of(cell("naive", LONG, 0.5), cell("mine", LONG, status="unavailable", reasons=why))
    told = did_not_run(run)
    assert told is not None
    assert told.sentence == "1 of 2 implementations cannot run here: mine (runs on CUDA)."


def test_a_run_with_a_quarter_of_its_rows_in_doubt_says_what_to_do(run_of):
    calm = [cell("naive", SHORT.with_(B=1 + i), 0.5) for i in range(3)]
    busy = [cell("flex", SHORT.with_(B=1 + i), 0.5, flags=["contended"]) for i in range(2)]
    assert advice(run_of(*calm, busy[0])) == []
    assert advice(run_of(*calm, *busy, commit="2222222")) == [
        "2 of 5 rows are contended: stop other programs, or measure again."
    ]
