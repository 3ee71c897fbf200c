"""The lengths of a batch as they are written: read back, spread, and refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impls.interface.problem import Problem
from impls.interface.sequence_lengths import range_text, read_lengths, write_lengths, zipf


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lengths=3+4,B=3,H=1,d_h=4", "B=2; leave it out"),
        ("lengths=3+4,T=7,H=1,d_h=4", "T_q=4; leave it out"),
        ("lengths=3+4,lengths_kv=3,H=1,d_h=4", "2 lengths and 1 lengths_kv"),
        ("T=4,lengths_kv=4,H=1,d_h=4", "lengths_kv without lengths"),
        ("lengths=,H=1,d_h=4", "'' is no length"),
        ("lengths=3+-4,H=1,d_h=4", "'-4' is no length"),
        ("lengths=zipf:5:4,H=1,d_h=4", "4 tokens for 5 sequences"),
        ("lengths=zipf:1000000000:1000000000000,H=1,d_h=4", "1000000000 sequences, at most"),
        ("lengths=7+1000000x5,H=1,d_h=4", "1000001 sequences, at most 1000000"),
        ("lengths=3,H=1,d_h=4,operator=linear", "linear has no variable-length"),
        ("lengths=3,lengths_kv=5,H=1,d_h=4,packed", "lengths_kv = lengths"),
    ],
)
def test_lengths_that_fit_nothing_are_refused_with_what_would_do(text, told):
    with pytest.raises(ValueError, match=told):
        Problem.parse(text)


def test_lengths_are_whole_numbers():
    with pytest.raises(ValueError, match="whole numbers"):
        Problem.of_lengths((3, -1), H=1, d_h=4)
    with pytest.raises(ValueError, match="whole numbers"):
        Problem.of_lengths((True, 2), H=1, d_h=4)


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=30))
def test_written_lengths_are_read_back(lengths):
    assert read_lengths(write_lengths(lengths)) == tuple(lengths)


@given(st.integers(1, 40), st.integers(0, 500), st.floats(0, 4))
def test_zipf_lengths_fall_sum_up_and_leave_none_empty(count, more, exponent):
    lengths = zipf(count, count + more, exponent)
    assert sum(lengths) == count + more and len(lengths) == count
    assert min(lengths) >= 1 and list(lengths) == sorted(lengths, reverse=True)


def test_zipf_follows_its_law():
    lengths = zipf(16, 1_000_000)
    assert lengths[0] / lengths[9] == pytest.approx(10, rel=1e-4)
    assert lengths[0] == pytest.approx(1e6 / sum(1 / r for r in range(1, 17)), rel=1e-4)
    assert read_lengths("zipf:16:1000000") == lengths
    assert set(zipf(8, 64, 0.0)) == {8}
    assert (range_text((3, 9, 4)), range_text((5, 5))) == ("3…9", "5")
