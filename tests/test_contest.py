"""Who is set against the baseline, on which problem, and how many times as fast it is."""

import pytest

from impls.interface.problem import Problem
from results.contest import fastest_name
from results.findings import fastest
from results.ratios import baseline_cells, speed_up, times_baseline
from results.store import load_run
from tests.fake_cells import cell

SHORT = Problem.parse("T=128,H=8,d_h=64")
LONG = SHORT.with_(T_q=4096, T_kv=4096)


@pytest.fixture
def run_of(run_directory):
    def read(*records, **keywords):
        return load_run(run_directory(records=list(records), **keywords))

    return read


def sentence(finding):
    assert finding is not None
    return finding.sentence


def test_the_fastest_is_told_at_the_largest_common_T_as_one_launch(run_of):
    run = run_of(
        cell("naive", SHORT, 0.001),
        cell("sdpa_flash", SHORT, 0.0001),
        cell("naive", LONG, 0.5),
        cell("sdpa_flash", LONG, 0.4),
        cell("chunked", LONG, 0.45),
        cell("sdpa_flash", LONG.with_(T_q=8192, T_kv=8192), 1.6),
    )
    text = sentence(fastest(run))
    assert text.startswith("sdpa_flash is the fastest of 3 at T = 4096 (H 8, d_h 64, fp32): ")
    assert "1.25 × naive (400 ms against 500 ms, 1 launch)" in text


def test_nothing_beats_a_baseline_that_is_fastest(run_of):
    run = run_of(cell("naive", LONG, 0.4), cell("chunked", LONG, 0.5))
    assert "Nothing beats naive at T = 4096 (H 8" in sentence(fastest(run))
    assert "chunked, runs at 0.80 × naive" in sentence(fastest(run))


def test_the_fastest_is_told_where_the_most_can_be_compared(run_of):
    """It was told at the largest T, where the fastest had no time yet."""
    run = run_of(
        cell("naive", SHORT, 0.001),
        cell("chunked", SHORT, 0.002),
        cell("sdpa_flash", SHORT, 0.0005),
        cell("naive", LONG, 0.4),
        cell("chunked", LONG, 0.5),
    )
    assert sentence(fastest(run)).startswith("sdpa_flash is the fastest of 3 at T = 128 (")
    assert fastest_name(run) == "sdpa_flash"


def test_a_certain_effect_is_told_before_noise_that_more_rivals_share(run_of):
    """0.94 × at T=128, where four met within their noise, was told before 2.09 ×."""
    short = {"naive": 0.00100, "sdpa_flash": 0.00106, "chunked": 0.0011, "flex": 0.0012}
    rows = [cell(name, SHORT, time_s) for name, time_s in short.items()]
    for row in rows:
        row["timing"] |= {
            "q1_s": row["timing"]["median_s"] * 0.9,
            "q3_s": row["timing"]["median_s"] * 1.1,
        }
    assert sentence(fastest(run_of(*rows))).startswith("Noise hides whether sdpa_flash or naive ")
    rows += [cell("naive", LONG, 2.09), cell("sdpa_flash", LONG, 1.0)]
    text = sentence(fastest(run_of(*rows, commit="2222222")))
    assert text.startswith("sdpa_flash is the fastest of 2 at T = 4096 (") and "2.09 ×" in text


def test_a_certain_win_on_a_longer_problem_outweighs_more_rivals_on_a_short_one(run_of):
    rows = [
        *(cell("naive", SHORT, 0.0010), cell("sdpa_flash", SHORT, 0.0009)),
        *(cell("chunked", SHORT, 0.002), cell("flex", SHORT, 0.003)),
        *(cell("naive", LONG, 2.0), cell("sdpa_flash", LONG, 1.0)),
    ]
    assert sentence(fastest(run_of(*rows))).startswith("sdpa_flash is the fastest of 2 at T = 4096")


def test_launches_on_both_sides_of_one_are_no_certain_effect(run_of):
    ratios = {1: 1.2, 2: 1.1, 3: 0.9}
    rows = [
        cell(name, LONG, time_s, launch=launch)
        for launch, ratio in ratios.items()
        for name, time_s in (("naive", ratio), ("chunked", 1.0))
    ]
    run = run_of(*rows)
    found = speed_up([c for c in run.cells if c.implementation == "chunked"], baseline_cells(run))
    assert found is not None and not found.is_certain


def test_among_equal_contests_the_plain_suite_and_full_come_before_size(run_of):
    wide, causal = LONG.with_(H=64), LONG.with_(causal=True, T_q=8192, T_kv=8192)
    rows = [
        cell(name, problem, time_s, suite=suite)
        for problem, suite in ((wide, "heads"), (causal, "sequence_length"), (LONG, "heads"))
        for name, time_s in (("naive", 6.0), ("chunked", 3.0))
    ]
    assert " T = 8192, causal (H 8" in sentence(fastest(run_of(*rows)))
    rows += [cell("naive", SHORT, 0.001), cell("chunked", SHORT, 0.0005)]
    assert " T = 128, full (H 8" in sentence(fastest(run_of(*rows, commit="2222222")))
    rows += [cell("naive", SHORT.with_(T_q=63), 0.1), cell("chunked", SHORT.with_(T_q=63), 0.2)]
    assert " T = 128, full (H 8" in sentence(fastest(run_of(*rows, commit="3333333")))


@pytest.mark.parametrize("why", [{"status": "skipped"}, {"flags": ["contended"]}])
def test_nothing_beats_is_not_said_of_those_without_a_time_there(run_of, why):
    """Nothing beat naive at T=2048, where the fastest had not been measured."""
    time_s = None if "status" in why else 0.1
    run = run_of(
        cell("naive", LONG, 0.4),
        cell("chunked", LONG, 0.5),
        cell("sdpa_flash", LONG, time_s, **why),
    )
    text = sentence(fastest(run))
    assert text.startswith(
        "naive is the fastest of 2 at T = 4096 (H 8, d_h 64, fp32); chunked runs"
    )
    assert text.endswith("; not compared there: sdpa_flash.")


def test_those_who_cannot_do_the_work_do_not_weaken_nothing_beats(run_of):
    run = run_of(
        cell("naive", LONG, 0.4),
        cell("chunked", LONG, 0.5),
        cell("sdpa_cudnn", LONG, status="unavailable"),
        cell("flex", LONG, status="unsupported"),
        cell("flex", SHORT, 0.001),
    )
    assert sentence(fastest(run)).startswith("Nothing beats naive at T = 4096")


def test_several_launches_give_a_range_of_their_ratios(run_of):
    times = {1: (0.5, 0.4), 2: (0.6, 0.4), 3: (0.55, 0.5)}
    rows = [
        cell(name, LONG, time_s, launch=launch)
        for launch, pair in times.items()
        for name, time_s in zip(("naive", "sdpa_flash"), pair, strict=True)
    ]
    assert "1.25 × naive" in sentence(fastest(run_of(*rows)))
    assert "1.10 to 1.50 over 3 launches" in sentence(fastest(run_of(*rows, commit="2222222")))


def test_a_baseline_in_doubt_gives_no_speed_up(run_of):
    run = run_of(cell("naive", LONG, 0.5, flags=["contended"]), cell("chunked", LONG, 0.45))
    assert fastest(run) is None
    assert baseline_cells(run) == {}


@pytest.mark.parametrize(
    "other",
    [
        {"cache": "cold"},
        {"clock": "wall"},
        {"pass": "backward"},
        {"launch": 2},
    ],
)
def test_cells_of_another_kind_are_not_set_against_each_other(run_of, other):
    run = run_of(cell("naive", LONG, 0.5), cell("chunked", LONG, 0.25, **other))
    baselines = baseline_cells(run)
    assert times_baseline(run.cells[1], baselines) is None
    assert speed_up([run.cells[1]], baselines) is None
    assert fastest(run) is None


def test_another_layout_is_another_problem(run_of):
    """Case L05, pytorch PR#128888: kernels differ in speed by how their inputs lie."""
    run = run_of(cell("naive", LONG, 0.5), cell("chunked", LONG.with_(layout="bthd"), 0.25))
    assert times_baseline(run.cells[1], baseline_cells(run)) is None


def test_a_speed_up_is_baseline_time_over_time(run_of):
    run = run_of(cell("naive", LONG, 1.0), cell("chunked", LONG, 0.5))
    assert times_baseline(run.cells[1], baseline_cells(run)) == 2.0
    assert times_baseline(run.cells[0], baseline_cells(run, "chunked")) == 0.5
