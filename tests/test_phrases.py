"""Problems in the words of a sentence: what a suite shares is left out, what differs is not."""

import pytest

from impls.interface.problem import Problem
from results.phrases import where
from results.store import load_run
from tests.fake_cells import cell

PLAIN = Problem.parse("T=1024,H=8,d_h=64")


@pytest.fixture
def told(run_directory):
    def tell(*records, **keywords):
        run = load_run(run_directory(records=list(records)))
        return where(run.cells[0], run, **keywords)

    return tell


def test_what_is_usual_and_shared_is_left_out(told):
    assert told(cell("naive", PLAIN, 0.5)) == "T = 1024 (H 8, d_h 64, fp32)"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"causal": True}, "T = 1024, full (H 8, d_h 64, fp32)"),
        ({"B": 3}, "T = 1024 (B 1, H 8, d_h 64, fp32)"),
        ({"layout": "bthd"}, "T = 1024 (H 8, d_h 64, fp32, bhtd)"),
        ({"T_q": 1}, "T = 1024 (H 8, d_h 64, fp32)"),
    ],
)
def test_what_the_suite_varies_is_told(told, other, expected):
    record = cell("naive", PLAIN, 0.5)
    assert told(record, cell("chunked", PLAIN.with_(**other), 0.5)) == expected


@pytest.mark.parametrize(
    "elsewhere", [{"suite": "heads"}, {"time_s": None}, {"status": "unavailable", "time_s": None}]
)
def test_other_suites_and_rows_without_a_time_vary_nothing(told, elsewhere):
    causal = cell("chunked", PLAIN.with_(causal=True), **({"time_s": 0.5} | elsewhere))
    assert told(cell("naive", PLAIN, 0.5), causal) == "T = 1024 (H 8, d_h 64, fp32)"


def test_pass_and_cache_are_told_where_they_vary_or_are_unusual(told):
    both = {"pass": "forward_backward", "cache": "cold"}
    unusual = cell("naive", PLAIN, 0.5, **both)
    assert told(unusual) == "T = 1024, forward + backward, cold (H 8, d_h 64, fp32)"


def test_the_usual_pass_is_told_beside_another(told):
    other = cell("naive", PLAIN, 0.5, **{"pass": "backward"})
    assert told(cell("naive", PLAIN, 0.5), other) == "T = 1024, forward (H 8, d_h 64, fp32)"


def test_what_is_unusual_is_told_though_shared(told):
    odd = Problem.parse("B=2,T_q=1,T_kv=63,H=8,H_kv=1,d_h=40,d_v=24,bfloat16,causal,window=7,bthd")
    expected = "T_q = 1, T_kv = 63, causal (B 2, H 8, H_kv 1, d_h 40, d_v 24, bf16, window 7, bthd)"
    assert told(cell("naive", odd, 0.5)) == expected


def test_masking_is_left_to_a_sentence_that_tells_it_itself(told):
    causal = cell("naive", PLAIN.with_(causal=True), 0.5)
    assert told(causal, cell("naive", PLAIN, 0.5), tells_masking=False) == (
        "T = 1024 (H 8, d_h 64, fp32)"
    )
