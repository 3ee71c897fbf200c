"""Every count against a brute-force answer, and the literal numbers of known mistakes."""

import doctest
import itertools
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impls.interface import cost as cost_module
from impls.interface.cost import (
    compulsory_bytes,
    cost,
    exponentials,
    flop,
    intensity,
    kv_cache_bytes,
    latent_cache_bytes,
    parameters,
    projection_flop,
    visible_pairs,
)
from impls.interface.problem import PASSES, Problem


def visible(problem: Problem) -> list[tuple[int, int]]:
    """The pairs by the interface's own words: j ≤ i + T_kv − T_q and j > that − window."""
    pairs = []
    for i, j in itertools.product(range(problem.T_q), range(problem.T_kv)):
        last = i + problem.T_kv - problem.T_q
        after = -1 if problem.window is None else last - problem.window
        if not problem.causal or after < j <= last:
            pairs.append((i, j))
    return pairs


def small_problems():
    for T_q, T_kv in itertools.product(range(13), range(13)):
        for causal, window in ((False, None), (True, None), (True, 1), (True, 3), (True, 30)):
            yield Problem(
                B=2, T_q=T_q, T_kv=T_kv, H=6, H_kv=2, d_h=5, d_v=3, causal=causal, window=window
            )


def multiply_adds(problem: Problem) -> int:
    """Forward counted one multiply-add at a time: over d_h for a score, over d_v for its P·V."""
    count = 0
    for _ in range(problem.B * problem.H):
        for _pair in visible(problem):
            count += sum(1 for _ in range(problem.d_h)) + sum(1 for _ in range(problem.d_v))
    return count


def test_pairs_are_those_counted_one_by_one():
    for problem in small_problems():
        assert visible_pairs(problem) == len(visible(problem)), problem


def test_forward_flop_is_two_per_multiply_add():
    for problem in small_problems():
        if problem.T_q in (0, 1, 5, 12):
            assert flop(problem) == 2 * multiply_adds(problem), problem


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 50) | st.none())
def test_pairs_of_any_window_are_those_counted_one_by_one(T_q, T_kv, window):
    problem = Problem(B=1, T_q=T_q, T_kv=T_kv, H=1, d_h=1, causal=True, window=window)
    assert visible_pairs(problem) == len(visible(problem))


def test_backward_is_five_products_and_both_passes_seven():
    for problem in small_problems():
        assert flop(problem, "backward") * 2 == flop(problem) * 5
        assert flop(problem, "forward_backward") == flop(problem) + flop(problem, "backward")


def test_exponentials_are_one_a_pair_and_pass():
    for problem in small_problems():
        once = 2 * 6 * len(visible(problem))
        assert [exponentials(problem, p) for p in PASSES] == [once, once, 2 * once]


def test_forward_bytes_are_every_tensor_once_less_the_keys_no_query_sees():
    for problem in small_problems():
        if problem.T_q:
            keys_seen = len({j for _, j in visible(problem)})
            elements = 2 * 6 * problem.T_q * (5 + 3) + 2 * 2 * keys_seen * (5 + 3)
            assert compulsory_bytes(problem) == 4 * elements, problem


@pytest.mark.parametrize("dtype, width", [("float32", 4), ("bfloat16", 2), ("float64", 8)])
def test_backward_bytes_of_equal_heads_are_eight_tensors_and_two_floats_a_row(dtype, width):
    B, H, T, d_h = 3, 5, 63, 40
    problem = Problem(B=B, T_q=T, T_kv=T, H=H, d_h=d_h, dtype=dtype, causal=True)
    backward = 8 * B * H * T * d_h * width + 8 * B * H * T
    assert compulsory_bytes(problem, "backward") == backward
    forward = 4 * B * H * T * d_h * width
    assert compulsory_bytes(problem, "forward_backward") == forward + 4 * B * H * T + backward


def test_backward_bytes_count_grouped_heads_and_unequal_widths_once():
    problem = Problem(B=2, T_q=7, T_kv=11, H=6, H_kv=3, d_h=5, d_v=4, dtype="float16")
    q, k, v, out = 2 * 6 * 7 * 5, 2 * 3 * 11 * 5, 2 * 3 * 11 * 4, 2 * 6 * 7 * 4
    assert compulsory_bytes(problem, "backward") == 2 * (2 * (q + k + v + out)) + 8 * 2 * 6 * 7


def test_causal_flop_is_exact_pairs_not_half():
    """Case P01, modular#5557: causal work counted as full doubles the throughput."""
    full = Problem.parse("B=2,T=1024,H=16,d_h=64")
    causal = full.with_(causal=True)
    assert flop(full) == 8_589_934_592
    assert visible_pairs(causal) == 524_800
    assert flop(causal) == 4_299_161_600
    assert flop(causal, convention="fa") == 8_589_934_592 // 2
    tiny = Problem.parse("T=4,H=1,d_h=64")
    assert (flop(tiny), flop(tiny.with_(causal=True))) == (4096, 2560)


@pytest.mark.parametrize("H_kv", [1, 8, 32])
def test_decode_flop_does_not_depend_on_kv_heads(H_kv):
    """Case P03, sglang PR#8932: counted by H_kv in place of d_h."""
    assert flop(Problem.parse(f"T_q=1,T_kv=8192,H=32,H_kv={H_kv},d_h=128,causal")) == 134_217_728


@pytest.mark.parametrize(
    "H_kv, total, per_byte",
    [(32, 134_234_112, 0.99988), (8, 33_570_816, 3.99805), (1, 4_210_688, None)],
)
def test_decode_bytes_have_kv_heads_not_query_heads(H_kv, total, per_byte):
    """Case P06, LLM-Viewer#12: keys counted once for each query head."""
    problem = Problem.parse(f"T_q=1,T_kv=8192,H=32,H_kv={H_kv},d_h=128,float16")
    assert compulsory_bytes(problem) == total
    if per_byte is not None:
        assert intensity(problem) == pytest.approx(per_byte, abs=5e-6)


def test_backward_of_a_window_writes_every_gradient_but_reads_what_it_sees():
    full = Problem.parse("T_q=1,T_kv=100,H=1,d_h=8,causal")
    unread_bytes = 4 * 90 * (8 + 8)
    windowed = compulsory_bytes(full.with_(window=10), "backward")
    assert windowed == compulsory_bytes(full, "backward") - unread_bytes


def test_a_decode_step_with_a_window_reads_the_window_only():
    full = Problem.parse("T_q=1,T_kv=8192,H=8,d_h=64,causal")
    short = Problem.parse("T_q=1,T_kv=1024,H=8,d_h=64,causal")
    assert compulsory_bytes(full.with_(window=1024)) == compulsory_bytes(short)


def test_fa_convention_of_a_rectangle_averages_first_and_last_query():
    """FlashAttention-3's benchmark: 96 − 32 keys before the first query, 96 at the last."""
    problem = Problem.parse("T_q=32,T_kv=96,H=1,d_h=8,causal")
    assert flop(problem, convention="fa") == 4 * 8 * 32 * (64 + 96) // 2
    windowed = problem.with_(window=5)
    assert flop(windowed, convention="fa") == flop(windowed)


def test_empty_problems_cost_nothing_and_have_no_intensity():
    for text in ("B=0,T=4,H=1,d_h=8", "T_q=0,T_kv=0,H=1,d_h=8,causal"):
        empty = cost(Problem.parse(text))
        assert (empty.flop, empty.exp, empty.compulsory_bytes) == (0, 0, 0)
        assert empty.intensity is None


def test_cost_gathers_what_the_functions_say():
    problem = Problem.parse("T=63,H=4,H_kv=2,d_h=40,d_v=24,causal")
    both = cost(problem, "backward", "fa")
    assert both.pairs == visible_pairs(problem)
    assert both.flop == flop(problem, "backward", "fa")
    assert both.flop_convention == "fa"
    assert both.exp == exponentials(problem, "backward")
    assert both.compulsory_bytes == compulsory_bytes(problem, "backward")
    assert both.intensity == both.flop / both.compulsory_bytes


def test_unknown_words_are_refused_with_the_known_ones():
    problem = Problem.parse("T=4,H=1,d_h=8")
    with pytest.raises(ValueError, match="pass='sideways' is not known: one of forward, backward"):
        flop(problem, "sideways")
    with pytest.raises(ValueError, match="one of exact, fa"):
        cost(problem, "forward", "half")
    with pytest.raises(ValueError, match="pass='fwd'"):
        compulsory_bytes(problem, "fwd")
    with pytest.raises(ValueError, match="pass='fwd'"):
        exponentials(problem, "fwd")


def test_layer_parameters_are_those_of_its_four_matrices():
    d_model, H, H_kv, d_h = 3072, 16, 4, 256  # H·d_h is not d_model
    matrices = [
        (d_model, H * d_h),
        (d_model, H_kv * d_h),
        (d_model, H_kv * d_h),
        (H * d_h, d_model),
    ]
    weights = sum(rows * columns for rows, columns in matrices)
    assert parameters(d_model=d_model, H=H, H_kv=H_kv, d_h=d_h) == weights
    flop_ = projection_flop(B=3, T=7, d_model=d_model, H=H, H_kv=H_kv, d_h=d_h)
    assert flop_ == 2 * 3 * 7 * weights


def test_cache_bytes_scale_with_everything_but_query_heads():
    assert (
        kv_cache_bytes(L=3, T=7, H_kv=2, d_h=5, dtype="bfloat16", B=4) == 3 * 7 * 2 * 5 * 4 * 2 * 2
    )
    assert latent_cache_bytes(L=3, T=7, d_c=5, d_R=2, dtype="float32", B=4) == 3 * 7 * 7 * 4 * 4


def test_docstring_examples_hold():
    assert doctest.testmod(cost_module) == doctest.TestResults(0, 11)


def test_counting_does_not_need_torch():
    source = "import sys, json, impls.interface.cost; print(json.dumps('torch' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) is False
