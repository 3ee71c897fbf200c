"""Numbers people get wrong about attention, and the ones this suite prints instead."""

import math

import pytest

from impls.interface.cost import (
    compulsory_bytes,
    exponentials,
    flop,
    kv_cache_bytes,
    latent_cache_bytes,
    parameters,
    projection_flop,
    visible_pairs,
)
from impls.interface.problem import Problem

GIB = 2**30


def core_flop(T: int, H: int, d_h: int, *, causal: bool = False) -> int:
    return flop(Problem.parse(f"T={T},H={H},d_h={d_h}", causal=causal))


def test_parameters_of_a_head_and_of_a_layer():
    layer = parameters(d_model=512, H=8, d_h=64)
    assert layer == 4 * 512**2 == 1_048_576
    # Q, K and V of one head; the rest is W_O.
    assert 3 * layer // 4 // 8 == 3 * 512 * 64 == 98_304
    assert parameters(d_model=8192, H=64, d_h=128) == 268_435_456


def test_projections_are_eight_flop_a_token_and_weight_pair_not_four():
    """4·T·d_model² is often written as FLOP; those are multiply-adds."""
    T, d_model = 1000, 512
    assert projection_flop(B=1, T=T, d_model=d_model, H=8, d_h=64) == 8 * T * d_model**2
    grouped = projection_flop(B=1, T=T, d_model=d_model, H=8, H_kv=2, d_h=64)
    assert grouped == 4 * T * d_model * 64 * (8 + 2)


def test_the_core_is_four_T_squared_d_model_not_two():
    """2·T²·d_model counts QKᵀ alone in FLOP, or both products in multiply-adds."""
    assert core_flop(1024, 8, 64) == 4 * 1024**2 * 512


@pytest.mark.parametrize(
    "d_model, H, H_kv, d_h", [(512, 8, 8, 64), (3072, 16, 16, 256), (4096, 32, 8, 128)]
)
def test_core_equals_projections_at_a_length_of_d_model_times_one_plus_the_grouping(
    d_model, H, H_kv, d_h
):
    T = d_model * (H + H_kv) // H
    projections = projection_flop(B=1, T=T, d_model=d_model, H=H, H_kv=H_kv, d_h=d_h)
    assert core_flop(T, H, d_h) == projections
    # Causal: twice as long, to one part in T.
    at_twice = projection_flop(B=1, T=2 * T, d_model=d_model, H=H, H_kv=H_kv, d_h=d_h)
    assert core_flop(2 * T, H, d_h, causal=True) == pytest.approx(at_twice, rel=1 / T)


def test_splitting_into_heads_is_free_in_flop_but_not_in_exponentials():
    one, many = Problem.parse("T=256,H=1,d_h=512"), Problem.parse("T=256,H=64,d_h=8")
    assert flop(one) == flop(many)
    assert compulsory_bytes(one) == compulsory_bytes(many)
    assert parameters(d_model=512, H=1, d_h=512) == parameters(d_model=512, H=64, d_h=8)
    assert exponentials(many) == 64 * exponentials(one)


def test_335_gb_of_cache_is_128_thousand_tokens_not_131072():
    shape = {"L": 80, "H_kv": 64, "d_h": 128, "dtype": "float16"}
    assert kv_cache_bytes(T=128_000, **shape) == 335_544_320_000
    assert kv_cache_bytes(T=131_072, **shape) == 320 * GIB == 343_597_383_680


def test_the_cache_counts_layers_bytes_and_batch():
    """2·H·d_h·T is the count of values of one layer."""
    one = kv_cache_bytes(L=1, T=4096, H_kv=8, d_h=128, dtype="float16")
    assert one == 2 * (2 * 8 * 128 * 4096)
    assert kv_cache_bytes(L=80, T=4096, H_kv=8, d_h=128, dtype="float16", B=3) == 240 * one


def test_llama_2_70b_at_4096_holds_1_25_gib_with_its_eight_kv_heads():
    shape = {"L": 80, "T": 4096, "d_h": 128, "dtype": "float16"}
    assert kv_cache_bytes(H_kv=8, **shape) == 1.25 * GIB
    assert kv_cache_bytes(H_kv=8, **shape) / 1e9 == pytest.approx(1.342, abs=5e-4)
    assert kv_cache_bytes(H_kv=64, **shape) / 1e9 == pytest.approx(10.74, abs=5e-3)


def test_a_7b_model_at_4096_holds_2_gib_and_a_quarter_with_eight_kv_heads():
    shape = {"L": 32, "T": 4096, "d_h": 128, "dtype": "float16"}
    assert kv_cache_bytes(H_kv=32, **shape) == 2 * GIB
    assert kv_cache_bytes(H_kv=8, **shape) == GIB // 2


@pytest.mark.parametrize("T", [1, 4096, 131_072])
def test_a_latent_cache_is_57_times_smaller_at_deepseek_v2_heads_whatever_the_context(T):
    heads = kv_cache_bytes(L=60, T=T, H_kv=128, d_h=128, dtype="bfloat16")
    latent = latent_cache_bytes(L=60, T=T, d_c=512, d_R=64, dtype="bfloat16")
    assert heads / latent == pytest.approx(56.9, abs=0.05)


def test_deepseek_v2_at_4096_caches_0_28_gb():
    assert latent_cache_bytes(
        L=60, T=4096, d_c=512, d_R=64, dtype="float16"
    ) / 1e9 == pytest.approx(0.283, abs=5e-4)


def test_causal_sees_a_little_more_than_half():
    seen = visible_pairs(Problem.parse("T=128,H=1,d_h=64,causal"))
    assert seen == 128 * 129 // 2
    assert seen / (128**2 / 2) - 1 == pytest.approx(0.0078, abs=5e-5)


def test_a_head_count_that_does_not_divide_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match="H=6 is not a multiple of H_kv=4"):
        Problem.parse("T=4,H=6,H_kv=4,d_h=8")


def test_the_default_scale_is_of_the_head_not_of_the_model():
    assert Problem.parse("T=4,H=8,d_h=64").scale == 1 / math.sqrt(64)
