"""The sweep of variable lengths: its batches, its cells, its sentence, its figure and its names."""

from __future__ import annotations

import hashlib
import itertools

import pytest

from impls.interface.attention import reasons_against
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from reports.columns import shared_parts
from reports.explain import explained
from reports.figures import variable_length as figure
from reports.table import terminal
from results.answers.variable_length import answer
from results.findings import baseline_falls
from results.phrases import lengths_of
from results.store import load_run
from suites import bench_variable_length as bench
from suites.session.sweep import Cell
from tests.drawn_run import drawn, rendered, texts, tick_texts
from tests.fake_cells import cell

EQUAL = Problem.of_lengths(4 * (512,), H=4, d_h=64)
SPREAD = Problem.of_lengths((1448, 400, 150, 50), H=4, d_h=64)


@pytest.fixture
def run_of(run_directory):
    hours = itertools.count()

    def make(*records):
        created = f"20261129T{next(hours):02}0000Z"
        return load_run(run_directory(records=list(records), created=created))

    return make


def measured(name, problem, time_s, **changes):
    mask = "causal" if problem.causal else "full"
    return cell(name, problem, time_s, suite="variable_length", series=f"filled, {mask}", **changes)


def test_every_batch_has_the_same_tokens_in_the_same_number_of_sequences():
    for device in ("cpu", "cuda"):
        problems = [p for line in bench.series(device, "float32") for p in line.problems]
        assert len({(p.B, p.joined.T_q, p.H, p.d_h) for p in problems}) == 1
        filled = [round(100 * p.filled) for p in bench.series(device, "float32")[0].problems]
        # All equal first, then Zipf's: the two that tell most.
        assert filled[0] == 100 and filled[1] < 30 and len(set(filled)) == 5


def test_on_a_cpu_it_names_only_who_can_do_its_batches():
    known = implementations()
    for line in bench.series("cpu", "float32"):
        able = [
            name
            for name in line.implementations or ()
            if not any(reasons_against(known[name], p, "cpu") for p in line.problems)
        ]
        assert {"naive", "naive_padded", "sdpa_flash", "sdpa_padded", "flex"} <= set(able)


def test_a_cell_is_known_by_the_order_of_its_lengths():
    naive = implementations()["naive"]

    def key(problem: Problem) -> str:
        return Cell(naive, problem, "forward", "hot", "cpu_time", "given", "given").key

    turned = Problem.of_lengths(tuple(reversed(SPREAD.lengths or ())), H=4, d_h=64)
    dense = EQUAL.with_(lengths=None)
    assert len({key(p) for p in (EQUAL, SPREAD, turned, dense)}) == 4
    # As it was before there were lengths: stored runs and baselines keep their cells.
    text = (
        '["naive",{"B":1,"H":2,"H_kv":2,"T_kv":64,"T_q":64,"causal":false,"d_h":16,"d_v":16,'
        '"dtype":"float32","layout":"bhtd","window":null},"forward","hot","cpu_time",1]'
    )
    expected = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert key(Problem.parse("T=64,H=2,d_h=16")) == expected


def test_padding_is_told_beside_packing_at_both_ends(run_of):
    run = run_of(
        measured("sdpa_flash", EQUAL, 0.020),
        measured("naive", EQUAL, 0.024),
        measured("sdpa_padded", EQUAL, 0.022),
        measured("sdpa_flash", SPREAD, 0.040),
        measured("sdpa_padded", SPREAD, 0.100),
        measured("naive_padded", SPREAD, 0.180),
        measured("sdpa_padded", SPREAD.with_(causal=True), 9.0),
    )
    found = answer(run)
    # 2048 tokens of 4·1448 are 35 %; the FLOP are those of the sequences, by hand.
    flop = 4 * 4 * 64 * (1448**2 + 400**2 + 150**2 + 50**2)
    share = 100 * flop / 100e9 / 0.100
    assert found is not None and found.sentence == (
        "Of the same 2048 tokens in 4 sequences (full, H 4, d_h 64, fp32) padding to the longest "
        "takes 1.10 × the time of packing where all are equally long (sdpa_padded 22.0 ms, "
        "sdpa_flash 20.0 ms); 2.50 × the time of packing where 35 % of it is then filled "
        f"(sdpa_padded 100 ms, sdpa_flash 40.0 ms), {share:.0f} % of its bound (1 launch)."
    )
    assert len(found.cells) == 4


def test_without_both_kinds_at_one_size_nothing_is_said(run_of):
    assert (
        answer(run_of(measured("naive", EQUAL, 0.01), measured("sdpa_flash", EQUAL, 0.1))) is None
    )
    apart = run_of(measured("naive", EQUAL, 0.01), measured("naive_padded", SPREAD, 0.1))
    assert answer(apart) is None


def test_a_baseline_does_not_fall_with_a_T_that_is_only_its_longest_sequence(run_of):
    dense = [EQUAL.with_(lengths=None, T_q=T, T_kv=T) for T in (512, 1448)]
    rows = [measured("naive", p, t) for p, t in zip(dense, (0.03, 9.0), strict=True)]
    assert baseline_falls(run_of(*rows)) is not None
    rows = [measured("naive", EQUAL, 0.03), measured("naive", SPREAD, 9.0)]
    assert baseline_falls(run_of(*rows)) is None


def test_a_table_of_it_fits_80_columns_and_tells_its_lengths(run_of):
    many = Problem.of_lengths(tuple(range(1, 65)), 64 * (4096,), H=4, d_h=64)
    run = run_of(
        measured("sdpa_padded", EQUAL, 0.011),
        measured("sdpa_padded", SPREAD, 0.050),
        cell("naive", many, 0.1, suite="given", series="given"),
    )
    shown = terminal(run)
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "T=512" in shown and "T=50…1448" in shown and "T_q=1…64" in shown
    assert lengths_of(many) == {"T_q": "1…64", "T_kv": "4096"}
    assert "B=4 H=4 d_h=64" in shared_parts([c for c in run.cells if c.problem != many])


def test_a_cell_of_it_is_explained_with_the_tensors_it_has(run_of):
    run = run_of(measured("naive", SPREAD, 0.050))
    said = "\n".join(words for _, words in explained(run, run.cells[0]))
    assert "q (1, 4, 2048, 64)" in said and "lengths=1448+400+150+50" in said
    pairs = 1448**2 + 400**2 + 150**2 + 50**2
    assert f"= 2·H·N·(d_h + d_v), N = {pairs} visible pairs of a head in all sequences" in said


def test_the_figure_stands_on_the_share_that_is_filled(run_of):
    run = run_of(
        measured("sdpa_padded", EQUAL, 0.011),
        measured("sdpa_padded", SPREAD, 0.050),
        measured("sdpa_flash", SPREAD, 0.020),
    )
    made = drawn(figure, run)
    assert "share of the padded batch that is filled" in [a.get_xlabel() for a in made.axes]
    assert {"35.4 %", "100 %"} <= {text for a in made.axes for text in tick_texts(a.xaxis)}
    assert any("2048 tokens" in text for text in texts(made))
    assert figure.draw(run_of(cell("naive", Problem.parse("T=64,H=2,d_h=16"), 0.1))) is None
    assert rendered(figure, run)
