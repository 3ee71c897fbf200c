"""What is said of head counts, head sizes and pruned heads: one implementation, sizes it has."""

from __future__ import annotations

import pytest

from impls.interface.around import Around
from impls.interface.layer_shape import LayerShape
from impls.interface.problem import Problem
from results.answers import head_count, head_size_independent, pruned_heads
from results.ladder import ladders, longest
from results.published import D_MODEL, HEAD_COUNTS
from results.store import load_run
from tests.fake_cells import cell

CORE = {"suite": "head_count", "series": "H at d_model 512, core"}
LAYER = {"suite": "head_count", "series": "H at d_model 512, layer"}


@pytest.fixture
def run_of(run_directory):
    def read(*records):
        return load_run(run_directory(records=[r for some in records for r in some]))

    return read


def split(name, times, line=CORE, **changes):
    """Cells of d_model 512 in so many heads, each with its time in hundredths of a second."""
    found = []
    for H, time in times.items():
        problem = Problem(B=1, T_q=512, T_kv=512, H=H, d_h=512 // H)
        if line is LAYER:
            shape = LayerShape(d_model=512, H=H, is_causal=False)
            problem = problem.with_(around=Around("layer", shape))
        found.append(cell(name, problem, None if time is None else time / 100, **line, **changes))
    return found


def layer(kept, T_q=64, T_kv=64, H=32):
    shape = LayerShape(d_model=128 * H, H=kept, d_h=128)
    around = Around("layer", shape)
    return Problem(B=1, T_q=T_q, T_kv=T_kv, H=kept, d_h=128, causal=True, around=around)


def pruned(name, times, phase="prefill", **changes):
    lengths = (1, 1024) if phase == "decode" else (64, 64)
    line = {"suite": "pruned_heads", "series": f"kept of 32 heads, {phase}"}
    return [
        cell(name, layer(kept, *lengths), time / 10, **line, **changes)
        for kept, time in times.items()
    ]


def sized(name, times, T=128, **changes):
    line = {"suite": "head_size_independent", "series": f"d_h at H 32, core, T {T}"}
    found = []
    for d_h, time in times.items():
        problem = Problem(B=1, T_q=T, T_kv=T, H=32, d_h=d_h, causal=True)
        status = {} if time else {"status": "unsupported", "reasons": [f"d_h={d_h} is above 256"]}
        found.append(cell(name, problem, time / 100 if time else None, **line, **status, **changes))
    return found


def test_published_quality_is_that_of_table_3():
    """Vaswani et al. 2017, Table 3: row (A), and base for H = 8."""
    assert [(q.H, q.perplexity, q.bleu) for q in HEAD_COUNTS] == [
        (1, 5.29, 24.9),
        (4, 5.00, 25.5),
        (8, 4.92, 25.8),
        (16, 4.91, 25.8),
        (32, 5.01, 25.4),
    ]
    assert all(D_MODEL % q.H == 0 for q in HEAD_COUNTS)


def test_core_and_layer_are_told_beside_what_the_heads_were_worth(run_of):
    run = run_of(
        split("flash", {1: 4.0, 8: 5.0, 16: 6.0, 32: 10.0}),
        split("flash", {1: 15.0, 8: 15.0, 32: 18.0}, LAYER),
        split("slow", {1: 9.0, 8: 9.0, 16: 9.0, 32: 9.0}),
    )
    found = head_count.answer(run)
    assert found is not None and found.sentence == (
        "At d_model 512 (T = 512, fp32) the core with flash takes 50.0 ms with 8 heads, 0.80 × "
        "that with 1 and 2.00 × that with 32 (1 launch); the layer with flash takes 150 ms with "
        "8 heads, 1.00 × that with 1 and 1.20 × that with 32 (1 launch); the paper's models had "
        "perplexities 5.29, 4.92 and 5.01 with H = 1, 8 and 32 (lower is better)."
    )
    assert len(found.cells) == 6


def test_nobody_leads_by_the_heads_it_cannot_do(run_of):
    """The faster one has no d_h of 512: it is not told of, though it is ahead where it runs."""
    quick = split("quick", {8: 1.0, 16: 1.0, 32: 1.0})
    found = head_count.answer(run_of(quick, split("able", {1: 4.0, 8: 4.0, 16: 4.0, 32: 4.0})))
    assert found is not None and "able" in found.sentence and "quick" not in found.sentence


@pytest.mark.parametrize(
    "records",
    [
        split("naive", {1: 4.0, 32: 4.0}),
        split("naive", {8: 4.0}),
        split("naive", {8: 4.0, 32: None}),
        split("naive", {1: 4.0, 8: 4.0}, flags=["contended"]),
        split("naive", {1: 4.0, 8: 4.0}, {"suite": "heads", "series": "H, core"}),
    ],
    ids=["no 8", "8 alone", "skipped", "doubtful", "another sweep"],
)
def test_no_answer_without_the_papers_heads_and_others_to_set_beside(run_of, records):
    assert head_count.answer(run_of(records)) is None


def test_a_ratio_is_made_within_each_launch(run_of):
    """The second launch was twice as slow throughout: pooled times would make it 1.5."""
    one, two = split("naive", {1: 2.0, 8: 2.0}), split("naive", {1: 4.0, 8: 4.0})
    lost = split("naive", {1: 40.0}, launch=3)
    run = run_of(one, [r | {"launch": 2} for r in two], lost)
    (line,) = ladders(run, "head_count", lambda p: p.H)
    assert line.times(1, 8) == 1.0 and line.certainty(8) == "median of 2 launches"


def test_what_another_clock_or_dtype_measured_is_no_rung(run_of):
    half = [r | {"problem": r["problem"] | {"dtype": "bfloat16"}} for r in split("n", {1: 1.0})]
    wall = split("n", {32: 1.0}, clock="wall")
    found = ladders(run_of(split("n", {8: 4.0}), half, wall), "head_count", lambda p: p.H)
    assert sorted(line.sizes for line in found) == [[1], [8], [32]]
    assert longest(found, 8) is None


def test_a_wider_head_is_told_beside_the_work_it_is(run_of):
    run = run_of(
        sized("flash", {16: 0.3, 128: 1.0, 256: 2.0, 512: 0.0}),
        sized("naive", {16: 0.5, 128: 2.0, 256: 4.0, 512: 9.0}),
        sized("never", {16: 0.0, 512: 0.0}),
    )
    found = head_size_independent.answer(run)
    assert found is not None and found.sentence == (
        "The core with naive takes 4.50 × as long at d_h 512, for 4 × the FLOP, and 0.25 × as "
        "long at d_h 16, for 0.125 × the FLOP of d_h 128 (T = 128, H 32, fp32, 1 launch; 512 is "
        "refused by flash)."
    )


def test_no_head_size_to_set_others_beside_is_no_answer(run_of):
    alone, ends = sized("naive", {128: 1.0}), sized("flash", {16: 1.0, 512: 2.0})
    assert head_size_independent.answer(run_of(alone, ends)) is None


def test_what_pruning_leaves_of_a_layers_time(run_of):
    run = run_of(
        pruned("flash", {32: 100.0, 24: 80.0, 16: 55.0, 8: 31.0}),
        pruned("naive", {32: 9.0, 16: 6.0, 4: 3.0}, "decode"),
    )
    found = pruned_heads.answer(run)
    assert found is not None and found.sentence == (
        "Of a layer's time (32 heads, d_h 128, fp32) pruning leaves 0.55 with 50 % and 0.31 with "
        "25 % of its heads in prefill (flash, 1 launch); 0.67 with 50 % of its heads in decode "
        "(naive, 1 launch)."
    )


def test_pruning_is_told_of_the_fewest_heads_where_neither_half_nor_a_quarter_ran(run_of):
    found = pruned_heads.answer(run_of(pruned("naive", {32: 8.0, 24: 7.0, 4: 2.0})))
    assert found is not None and "leaves 0.25 with 12.5 % of its heads" in found.sentence


@pytest.mark.parametrize(
    "records",
    [pruned("naive", {16: 1.0, 8: 1.0}), pruned("naive", {32: 2.0}), sized("naive", {128: 1.0})],
    ids=["no whole layer", "nothing pruned", "another sweep"],
)
def test_no_answer_without_a_whole_layer_and_a_pruned_one(run_of, records):
    assert pruned_heads.answer(run_of(records)) is None
