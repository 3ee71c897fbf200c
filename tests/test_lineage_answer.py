"""Other operators in the report: their cost is told and drawn, and they are ranked with nobody."""

from __future__ import annotations

import itertools

import pytest

from impls.interface.problem import Problem
from reports.columns import ratio_notes
from reports.figures import latency, lineage, roofline
from reports.table import terminal
from results.answers.lineage import answer
from results.contest import fastest_name, telling_contest
from results.findings import closest_to_bound, fastest, findings
from results.store import load_run
from tests.drawn_run import drawn, texts
from tests.fake_cells import bound_record, cell

BASE = Problem.parse("T=128,H=4,d_h=64")
# Seconds of softmax attention by T; naive takes 1.5 times as long.
CORE_S = {128: 3e-4, 256: 12e-4, 512: 48e-4, 1024: 192e-4}
# An operator's time over the core's: linear is dearer at 128 and cheaper from 512 (full) on.
TIMES = {
    "additive": {128: 40.0, 256: 50.0, 512: 60.0, 1024: 70.0},
    "multiplicative": {128: 1.4, 256: 1.4, 512: 1.4, 1024: 1.5},
    "linear": {128: 3.0, 256: 1.5, 512: 0.5, 1024: 0.25},
}


@pytest.fixture
def run_of(run_directory):
    days = itertools.count(1)

    def read(records):
        return load_run(run_directory(records=records, created=f"202611{next(days):02}T000000Z"))

    return read


def other(name, problem, time_s, **changes):
    operator = name.split("_")[0]
    mask = "causal" if problem.causal else "full"
    # The fake machine's bounds are softmax attention's.
    told = {"suite": "lineage", "series": f"T, {operator}, {mask}", "bound": None} | changes
    return cell(name, problem.with_(operator=operator), time_s, **told)


def softmax(name, problem, time_s, **changes):
    mask = "causal" if problem.causal else "full"
    return cell(
        name, problem, time_s, **{"suite": "lineage", "series": f"T, softmax, {mask}"} | changes
    )


def sweep(causal_times=1.0, drop=()):
    """Records of both masks; causal operators take `causal_times` as long as full ones."""
    records = []
    for T, is_causal in itertools.product(CORE_S, (False, True)):
        problem = BASE.with_(T_q=T, T_kv=T, causal=is_causal)
        core_s = CORE_S[T]
        records += [softmax("sdpa_flash", problem, core_s), softmax("naive", problem, 1.5 * core_s)]
        factor = causal_times if is_causal else 1.0
        for name, times in TIMES.items():
            time_s = core_s * times[T] * factor
            if name == "linear":
                records.append(other("linear_chunked", problem, time_s))
                records.append(other("linear_recurrent", problem, 2 * time_s))
            elif (name, T) not in drop:
                records.append(other(name, problem, time_s))
    return records


def test_the_answer_tells_the_crossing_and_the_costs_with_numbers(run_of):
    found = answer(run_of(sweep(causal_times=2.5)))
    assert found is not None
    assert found.sentence == (
        "Costs of other operators, no ranking: linear overtakes sdpa_flash from T = 512 (full) "
        "and T = 1024 (causal), with 0.62 × its time at T = 1024, causal; additive costs 70 × the "
        "softmax core at T = 1024, full (H 4, d_h 64, fp32), 1.34 s against 19.2 ms of sdpa_flash; "
        "multiplicative costs 1.5 × the softmax core at T = 1024, full (H 4, "
        "d_h 64, fp32), 28.8 ms against 19.2 ms of sdpa_flash (1 launch)."
    )


def test_a_cost_is_told_at_the_longest_length_that_both_have(run_of):
    dropped = {("additive", 1024), ("additive", 512)}
    found = answer(run_of(sweep(drop=dropped)))
    assert found is not None and "additive costs 50 × the softmax core at T = 256" in found.sentence


def test_what_falls_back_behind_has_not_overtaken(run_of):
    """Faster at 256 alone is one lucky cell, not a crossing."""
    records = sweep()
    for record in records:
        is_linear = record["implementation"].startswith("linear")
        if is_linear and record["problem"]["T_q"] > 256:
            record["timing"]["median_s"] = 1.0
        if is_linear and record["problem"]["T_q"] == 256:
            record["timing"]["median_s"] = 1e-6
    found = answer(run_of(records))
    assert found is not None and "overtakes" not in found.sentence
    assert "linear costs" in found.sentence


def test_flagged_and_wrong_rows_prove_no_crossing(run_of):
    records = sweep()
    for record in records:
        if record["implementation"].startswith("linear"):
            record["flags"] = ["contended"]
    found = answer(run_of(records))
    assert found is not None and "linear" not in found.sentence


def test_without_a_core_or_without_another_operator_nothing_is_told(run_of):
    records = sweep()
    alone = [r for r in records if r["problem"].get("operator")]
    assert answer(run_of(alone)) is None
    assert answer(run_of([r for r in records if r not in alone])) is None


def test_no_best_and_no_ratio_ever_mixes_operators(run_of):
    """Linear is the fastest of all here, and nearest to its bound: it wins nothing."""
    records = sweep()
    for record in records:
        if record["implementation"] == "linear_chunked":
            record["timing"]["median_s"] = 1e-5
            record["bound"] = bound_record(BASE, "forward") | {"time_s": 0.99e-5}
    run = run_of(records)
    assert fastest_name(run) == "sdpa_flash"
    assert set(telling_contest(run)) == {"sdpa_flash"}
    for told in (fastest(run), closest_to_bound(run)):
        assert told is not None and "linear" not in told.sentence
    assert "another operator than linear" in ratio_notes(run)[0]
    assert any("no ranking" in told.sentence for told in findings(run))


def test_the_table_gives_every_operator_a_part_of_its_own_and_says_so(run_of):
    """Also where the user's own problems stand in one series."""
    records = [r | {"suite": "given", "series": "given"} for r in sweep()]
    for text in (terminal(run_of(sweep()), 100), terminal(run_of(records), 100)):
        parts = [part for part in text.split("\n\n") if "additive " in part and "ms" in part]
        assert parts and all(
            "operator=additive (not softmax)" in " ".join(p.split()) for p in parts
        )
        assert not any("sdpa_flash" in part for part in parts)


def test_the_figure_marks_every_other_operator(run_of):
    run = run_of(sweep(causal_times=2.5))
    figure = drawn(lineage, run)
    said = texts(figure)
    names = {word.split("  ")[0] for word in said if "  " in word and word.split("  ")[0]}
    others = {"additive †", "multiplicative †", "linear_chunked †", "linear_recurrent †"}
    assert names >= {"sdpa_flash", "naive"} | others
    assert "additive" not in names and "linear_chunked" not in names
    foot = " ".join("\n".join(said).split())
    assert "† dashed: another operator than softmax attention" in foot
    assert (
        "linear † takes less\nfrom T = 512" in said and "linear † takes less\nfrom T = 1024" in said
    )
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["full", "causal"]


def test_no_other_figure_draws_another_operator(run_of):
    run = run_of(sweep())
    for module in (latency, roofline):
        said = "\n".join(texts(drawn(module, run)))
        assert "sdpa_flash" in said and "linear" not in said and "additive" not in said
    softmax_alone = [r for r in sweep() if not r["problem"].get("operator")]
    assert lineage.draw(run_of(softmax_alone)) is None
