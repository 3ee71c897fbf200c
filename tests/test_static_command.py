"""`python -m results gate --static` and `accept --static` as they are typed."""

from __future__ import annotations

import json

import pytest

from impls.interface.problem import Problem
from results.__main__ import main
from tests.fake_cells import cell
from tests.fake_profiles import loop, profile
from tests.fake_run import write_run
from tests.static_bench import ALL, Bench, replaced

FASTER = profile(arch="sm_80", d_h=64, resources__registers=200)
SPILLING = profile(
    arch="sm_90", d_h=128, resources__registers=256, resources__spill_stores=48
)  # worse in two figures
REFUSED = profile(
    arch="sm_90", d_h=128, status="error", resources=None, hot_loop=None, bound=None,
    reasons=["shared memory: 262144 bytes of 232448"],
)  # fmt: skip


@pytest.fixture
def bench(tmp_path, capsys):
    return Bench(tmp_path, capsys)


def test_the_clean_tree_passes(bench):
    bench.accept(ALL)
    bench.run(ALL)
    assert bench.call("gate") == 0
    assert bench.said().splitlines()[-1] == "PASSED: 4 unchanged"


def test_a_regression_fails_with_its_reason_in_the_last_line(bench):
    bench.accept(ALL)
    bench.run(replaced(SPILLING, FASTER))
    assert bench.call("gate") == 1
    first, *lines, last = bench.said().splitlines()
    assert "against 4 accepted profiles" in first
    name = "triton_flash_forward sm_90 d_h=128"
    assert lines == [
        f"regressed    {name}: registers 255 → 256, spill stores 0 → 48",
        "improved     triton_flash_forward sm_80 d_h=64: registers 255 → 200",
    ]
    assert last == (
        "FAILED: 1 regressed, 1 improved, 2 unchanged: "
        f"{name}: registers 255 → 256, spill stores 0 → 48"
    )


@pytest.mark.parametrize(
    ("regression", "said"),
    [
        (SPILLING, "registers 255 → 256"),
        (profile(arch="sm_90", block__num_warps=4, bound__overlap_percent=60.0), "block num_w"),
        (profile(arch="sm_90", hot_loop=loop(select=64)), "the loop without masks has 64 selects"),
    ],
)
def test_accepting_turns_red_green_and_so_does_the_clean_tree(bench, regression, said):
    bench.accept(ALL)
    bench.run(replaced(regression))
    assert bench.call("gate") == 1
    assert said in bench.said().splitlines()[-1]
    bench.run(ALL)
    assert bench.call("gate") == 0
    bench.run(replaced(regression))
    assert bench.call("accept") == 0
    out = bench.said()
    assert f"regressed    triton_flash_forward sm_90 d_h=128: {said}" in out
    assert "accepted 4 profiles: 1 regressed, 3 unchanged" in out
    assert bench.call("gate") == 0
    bench.run(ALL)
    bench.call("gate")
    assert "3 unchanged" in bench.said().splitlines()[-1], "what was accepted is the baseline"


def test_an_improvement_passes_and_asks_to_be_accepted(bench):
    bench.accept(ALL)
    bench.run(replaced(FASTER))
    assert bench.call("gate") == 0
    *_, line, last = bench.said().splitlines()
    assert line.endswith("sm_80 d_h=64: registers 255 → 200")
    assert last == (
        "PASSED: 1 improved, 3 unchanged; python -m results accept --static keeps the improvement"
    )


def test_a_broken_promise_is_accepted_aloud(bench):
    bench.run(replaced(profile(arch="sm_90", hot_loop=loop(select=64))))
    assert bench.call("accept") == 0
    assert (
        "accepted although triton_flash_forward sm_90 d_h=128 breaks a promise: "
        "the loop without masks has 64 selects" in bench.said()
    )


def test_a_run_with_failed_profiles_is_never_accepted(bench):
    bench.accept(ALL)
    before = next(bench.baselines.iterdir()).read_bytes()
    bench.run(replaced(REFUSED))
    assert bench.call("accept") == 1
    last = bench.said().splitlines()[-1]
    assert last.startswith("NOT ACCEPTED") and "shared memory: 262144 bytes of 232448" in last
    assert next(bench.baselines.iterdir()).read_bytes() == before
    assert bench.call("gate") == 1


@pytest.mark.parametrize("end", [{"interrupted": True}, {"finished_utc": None}])
def test_half_a_run_is_not_accepted(bench, end):
    bench.run(ALL, change=lambda header: header.update(end))
    assert bench.call("accept") == 1
    assert "NOT ACCEPTED" in bench.said() and not bench.baselines.exists()


def test_accepting_the_same_again_leaves_the_file_alone(bench):
    bench.accept(ALL)
    file = next(bench.baselines.iterdir())
    before = file.read_bytes()
    bench.run(ALL)
    assert bench.call("accept") == 0
    assert bench.said().splitlines()[-1] == "nothing to accept: the baseline says the same"
    assert file.read_bytes() == before


def test_without_a_baseline_nothing_is_comparable(bench):
    bench.run(ALL)
    assert bench.call("gate") == 4
    last = bench.said().splitlines()[-1]
    assert last.startswith("NOT COMPARABLE: nothing of it was accepted in")
    assert last.endswith("python -m results accept --static")


def test_another_triton_is_not_comparable_with_its_differences_told(bench):
    bench.accept(ALL)
    bench.run([r | {"triton": "3.8.0"} for r in replaced(FASTER)])
    assert bench.call("gate") == 4
    lines = bench.said().splitlines()
    assert "another compiler, triton 3.7.1 → 3.8.0, registers 255 → 200" in "\n".join(lines)
    assert lines[-1].startswith("NOT COMPARABLE: 4 incomparable: ")
    # beside, not instead of, what was accepted for 3.7.1
    assert bench.call("accept") == 0 and bench.call("gate") == 0
    bench.run(ALL)
    assert bench.call("gate") == 0


def test_another_ptxas_is_kept_beside_in_the_same_file(bench):
    bench.accept(ALL)
    others = [profile(arch=r["arch"], d_h=r["d_h"], ptxas="13.1.80") for r in ALL]
    bench.run(others)
    assert bench.call("gate") == 4
    assert bench.call("accept") == 0 and bench.call("gate") == 0
    assert len(next(bench.baselines.iterdir()).read_text().splitlines()) == 1 + 2 * len(ALL) + 1
    bench.run(ALL)
    assert bench.call("gate") == 0


def test_what_a_run_no_longer_has_leaves_the_baseline(bench):
    bench.accept(ALL)
    bench.run(ALL[1:])
    assert bench.call("accept") == 0
    assert "1 missing, 3 unchanged" in bench.said().splitlines()[-1]
    assert bench.call("gate") == 0


def test_new_and_missing_profiles_are_not_passed_over(bench):
    bench.accept(ALL[:3])
    bench.run(ALL[1:])
    assert bench.call("gate") == 4
    assert "1 missing, 1 new, 2 unchanged" in bench.said().splitlines()[-1]


def test_a_run_without_shipped_kernels_compares_nothing(bench):
    bench.accept(ALL)
    bench.run([profile(origin="mine.py"), profile(is_default=False)])
    assert bench.call("gate") == 5
    assert bench.said().splitlines()[-1].startswith("BROKEN: nothing was compared")
    assert bench.call("accept") == 5


def test_a_timed_run_is_no_static_run(bench):
    """The newest run is often a timed one: the gate must not judge it as an empty static run."""
    bench.accept(ALL)
    static = bench.run(ALL)
    timed = write_run(
        bench.folder / "runs", records=[cell("naive", Problem.parse("T=4,H=1,d_h=8"), 0.1)]
    )
    assert bench.call("gate") == 0 and static in bench.said()
    assert bench.call("gate", timed.name) == 5
    assert bench.call("accept", timed.name) == 5


def test_two_runs_are_set_against_one_another_figure_by_figure(bench):
    base = bench.run(ALL)
    run = bench.run(replaced(SPILLING, FASTER))
    assert bench.call("gate", base, run) == 1
    out = bench.said()
    assert f"against run {base}" in out
    words = [line.split() for line in out.splitlines()]
    assert ["registers", "255", "256", "worse"] in words
    assert ["registers", "255", "200"] in words
    assert ["spill", "stores", "0", "48", "worse"] in words
    assert bench.call("gate", base, base) == 0
    assert bench.call("gate", run, base) == 1, "registers 200 → 255"
    assert bench.call("gate", base, run, base) == 2


def test_a_sweep_is_compared_with_a_sweep_block_by_block(bench):
    sweep = [profile(block__num_warps=n, is_default=False) for n in (2, 4)]
    base, run = bench.run(sweep), bench.run([*sweep, profile(block__num_warps=8)])
    assert bench.call("gate", base, run) == 4
    last = bench.said().splitlines()[-1]
    assert last.startswith("NOT COMPARABLE: 1 new, 2 unchanged: ") and "num_warps=8" in last


def test_json_has_every_verdict_and_every_difference(bench):
    bench.accept(ALL)
    bench.run(replaced(SPILLING))
    assert bench.call("gate", "--json") == 1
    said = json.loads(bench.said())
    assert (said["exit_code"], said["counts"]) == (1, {"regressed": 1, "unchanged": 3})
    worst = said["judgements"][0]
    assert (worst["verdict"], worst["arch"], worst["d_h"]) == ("regressed", "sm_90", 128)
    assert worst["differences"][0] == {
        "figure": "registers", "before": 255, "after": 256, "is_worse": True,
    }  # fmt: skip
    assert said["conclusion"].startswith("FAILED: 1 regressed")
    assert bench.call("accept", "--json") == 0
    said = json.loads(bench.said())
    assert [name.endswith("static-triton-3.7.1.json") for name in said["files"]] == [True]


def test_a_baseline_that_cannot_be_read_is_broken(bench, capsys):
    bench.accept(ALL)
    bench.run(ALL)
    next(bench.baselines.iterdir()).write_text("{")
    assert bench.call("gate") == 5
    assert "not JSON" in capsys.readouterr().err


def test_an_unknown_run_is_a_usage_error(bench, capsys):
    assert bench.call("gate") == 2
    assert "no static runs" in capsys.readouterr().err
    bench.run(ALL)
    assert bench.call("accept", "20200101") == 2


@pytest.mark.parametrize("command", ["gate", "accept"])
def test_help_has_two_examples_and_the_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out.split("examples:")[1].count("python -m results") == 2
    assert "exit codes: 0" in out
