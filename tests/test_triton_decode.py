import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.problem import Problem
from impls.interface.registry import implementations
from impls.triton_flash import triton_decode
from impls.triton_flash.blocks_decode import (
    INTERPRETED,
    MAX_T_Q,
    DecodeBlocks,
    decode_blocks_for,
    splits_for,
)
from impls.triton_flash.launch_decode import first_key
from tests.interpreted_process import run_interpreted

H200 = 132  # multiprocessors, each given two programs at once: 264
BLOCKS = DecodeBlocks(16, 64, 4, 3, least_keys=128)


def splits_on_an_h200(T_kv, n_heads, first=0):
    return splits_for(first, T_kv, n_heads, 4, BLOCKS, H200)


def test_triton_decode_is_right_in_the_interpreter():
    files = ("interpreted_triton_decode.py", "interpreted_triton_decode_merge.py")
    assert run_interpreted("not slow", *files) >= 135


@pytest.mark.slow
def test_triton_decode_is_right_in_the_interpreter_over_the_full_grid():
    assert run_interpreted("slow", "interpreted_triton_decode.py") >= 180


@pytest.mark.parametrize(
    ("T_kv", "n_heads", "n_splits"),
    [
        (8192, 8, 32),  # 33 would fill the 264 places, but 128 blocks of keys divide by 32
        (131072, 8, 33),  # 264 programs
        (2048, 8, 16),  # 128 keys each, the fewest: half of the device
        (8192, 132, 2),
        (8192, 256, 1),  # as good as full
        (100, 8, 1),
        (1, 1, 1),
        (0, 4, 1),
    ],
)
def test_splits_fill_the_device_where_the_keys_allow(T_kv, n_heads, n_splits):
    assert splits_on_an_h200(T_kv, n_heads).number == n_splits


def test_a_round_of_few_programs_is_spread():
    """265 programs on 264 places would take twice as long as 264: the last would run alone."""
    splits = splits_on_an_h200(65536, 265)
    rounds = -(-265 * splits.number // 264)
    assert rounds * splits.keys_each < 1.3 * 65536


@given(
    first=st.integers(0, 5000),
    n_keys=st.integers(1, 200_000),
    n_heads=st.integers(1, 2000),
    n_rows=st.integers(1, 200),
    n_processors=st.sampled_from((None, 1, 84, 108, 132, 148)),
    capability=st.sampled_from((None, 80, 90, 100)),
)
def test_every_key_is_in_one_split_and_no_split_is_empty(
    first, n_keys, n_heads, n_rows, n_processors, capability
):
    blocks = decode_blocks_for(capability, 128, 2, n_rows)
    splits = splits_for(first, first + n_keys, n_heads, n_rows, blocks, n_processors)
    assert first - blocks.BLOCK_KV < splits.first_key <= first
    assert splits.first_key % blocks.BLOCK_KV == 0
    assert splits.keys_each % blocks.BLOCK_KV == 0
    seen = first + n_keys - splits.first_key
    assert (splits.number - 1) * splits.keys_each < seen <= splits.number * splits.keys_each
    assert splits.number == 1 or splits.keys_each >= blocks.least_keys


def test_a_given_number_of_splits_is_kept():
    assert splits_for(0, 100, 1, 1, INTERPRETED, None, n_splits=9).number == 9
    assert splits_for(0, 100, 1, 1, INTERPRETED, None, n_splits=9).keys_each == 32


def test_the_interpreter_meets_several_splits_and_tiles():
    """Cases of a few hundred keys must exercise what long caches do on a device."""
    for T_kv in (65, 300):
        assert splits_for(0, T_kv, 2, 4, INTERPRETED, None).number == 3  # 6 of 7 programs
    assert INTERPRETED.BLOCK_ROWS == 16  # three queries of eight heads are two tiles


def test_keys_no_window_shows_are_left_out():
    assert first_key(T_q=1, T_kv=1000, window=100) == 900
    assert first_key(T_q=4, T_kv=1000, window=100) == 897  # the first query's oldest key
    assert first_key(T_q=4, T_kv=50, window=100) == 0
    assert first_key(T_q=4, T_kv=1000, window=None) == 0
    assert splits_on_an_h200(1000, 1, first=897).first_key == 896


def test_every_device_has_blocks():
    for capability in (80, 86, 89, 90, 100, 103, 110, 120, 121):
        for d in (1, 64, 65, 128, 129, 256):
            for element_bytes in (2, 4):
                few, many = (decode_blocks_for(capability, d, element_bytes, n) for n in (16, 17))
                assert few.BLOCK_ROWS == 16
                assert many.BLOCK_ROWS > 16 or element_bytes == 4
                assert few.least_keys >= few.BLOCK_KV
                assert many.least_keys >= 16 * min(17, many.BLOCK_ROWS)


def test_longer_queries_are_refused_with_the_limit():
    for T_q in (1, 16, MAX_T_Q):
        assert reasons_against(triton_decode, Problem(1, T_q, 999, 8, 64), "cuda") == []
    reasons = reasons_against(triton_decode, Problem(1, 129, 999, 8, 64), "cuda")
    assert reasons == ["T_q=129 is above 128"]


def test_a_grid_beyond_x_is_refused():
    large = Problem(B=2**20, H=2**6, T_q=2**5, T_kv=1, d_h=64)
    assert "more than one grid can hold" in " ".join(reasons_against(triton_decode, large, "cuda"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"mask": torch.ones(4, 4, dtype=torch.bool)}, "mask is not supported"),
        ({"softcap": 30.0}, "softcap is not supported"),
        ({}, "python -m impls check triton_decode"),
    ],
    ids=["mask", "softcap", "cpu"],
)
def test_what_it_cannot_do_is_refused_by_name(arguments, reason):
    q = torch.randn(1, 1, 4, 16)
    with pytest.raises(Unsupported, match=reason):
        triton_decode.forward(q, q, q, **arguments)


def test_the_registry_finds_it_beside_the_other_kernels_of_the_folder():
    found = implementations()
    assert found["triton_decode"].source == found["triton_flash"].source == "impls/triton_flash"
    assert found["triton_decode"].proven_in == "interpreter"
    assert found["triton_decode"].runs == ("triton_decode_split", "triton_decode_reduce")
