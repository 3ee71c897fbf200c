"""What a layer costs, against torch's own counter on meta tensors and against brute force.

`FlopCounterMode` counts every product of an explicit computation and knows no mask, so it is right
where all keys are seen: a full layer, and each query of a causal one on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from impls.interface.layer_cost import (
    biases,
    cache_bytes,
    crossing_T,
    decode_flop,
    decode_problem,
    prefill_flop,
    prefill_problem,
    weight_bytes,
    weights,
)
from impls.interface.layer_shape import Latent, LayerShape, ModelShape, warnings_about

META = torch.device("meta")


def counted(run) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def matrices(layer: LayerShape) -> dict[str, torch.Tensor]:
    """The weights as tensors without data, by the papers' names."""
    d, H, d_h = layer.d_model, layer.H, layer.d_h

    def made(**shapes):
        return {name: torch.empty(shape, device=META) for name, shape in shapes.items()}

    if layer.latent is None:
        kv = (d, layer.H_kv * d_h)
        return made(Q=(d, H * d_h), K=kv, V=kv, O=(H * d_h, d))
    of = layer.latent
    found = made(
        DKV=(d, of.d_c),
        KR=(d, of.d_R),
        UK=(H, of.d_c, d_h),
        UV=(H, of.d_c, of.d_v),
        O=(H * of.d_v, d),
    )
    if of.d_c_q is None:
        return found | made(Q=(d, H * (d_h + of.d_R)))
    return found | made(DQ=(d, of.d_c_q), UQ=(of.d_c_q, H * d_h), QR=(of.d_c_q, H * of.d_R))


@dataclass
class Counts:
    """Products of one layer run on tensors without data: T_q queries that all see T_kv keys."""

    projections: int
    core: int


def run_layer(layer: LayerShape, T_q: int, T_kv: int, *, absorbed: bool = False) -> Counts:
    W = matrices(layer)
    x = torch.empty(T_q, layer.d_model, device=META)
    H, d_h = layer.H, layer.d_h
    if layer.latent is None:
        group = H // layer.H_kv
        q = torch.empty(layer.H_kv, group * T_q, d_h, device=META)
        k = torch.empty(layer.H_kv, T_kv, d_h, device=META)
        projections = counted(lambda: (x @ W["Q"], x @ W["K"], x @ W["V"]))
        projections += counted(lambda: torch.empty(T_q, H * d_h, device=META) @ W["O"])
        return Counts(projections, counted(lambda: (q @ k.mT) @ k))
    of = layer.latent
    per_head = torch.empty(H, T_q, 1, device=META)

    def project():
        c = x @ W["DKV"]
        # Expanded, both take the latent; absorbed, W_UK takes the query and W_UV the result.
        narrow = d_h if absorbed else of.d_c
        up_key = W["UK"].mT if absorbed else W["UK"]
        if "Q" in W:
            queries = [x @ W["Q"]]
        else:
            c_q = x @ W["DQ"]
            queries = [c_q @ W["UQ"], c_q @ W["QR"]]
        ups = [per_head.expand(H, T_q, narrow) @ up_key, per_head.expand(H, T_q, of.d_c) @ W["UV"]]
        out = torch.empty(T_q, H * of.d_v, device=META) @ W["O"]
        return [c, x @ W["KR"], *queries, *ups, out]

    key, value = (of.d_c + of.d_R, of.d_c) if absorbed else (d_h + of.d_R, of.d_v)

    def attend():
        scores = per_head.expand(H, T_q, key) @ torch.empty(H, key, T_kv, device=META)
        return scores @ torch.empty(H, T_kv, value, device=META)

    return Counts(counted(project), counted(attend))


@st.composite
def layers(draw, *, is_causal=None, with_latent=None):
    H_kv, group = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    is_latent = draw(st.booleans()) if with_latent is None else with_latent
    size = st.integers(1, 20)
    latent = None
    if is_latent:
        latent = Latent(draw(size), draw(size), draw(size), draw(size | st.none()))
    causal = draw(st.booleans()) if is_causal is None else is_causal
    return LayerShape(
        d_model=draw(st.integers(1, 40)),
        H=H_kv * group,
        H_kv=H_kv * group if is_latent else H_kv,
        d_h=draw(size),
        latent=latent,
        window=draw(st.none() | st.integers(1, 12)) if causal else None,
        is_causal=causal,
    )


@given(layers())
@settings(max_examples=30, deadline=None)
def test_weights_are_the_elements_of_the_matrices(layer):
    assert weights(layer) == sum(one.numel() for one in matrices(layer).values())
    assert weight_bytes(layer, "bfloat16") == 2 * weights(layer)


@given(layers(is_causal=False), st.integers(1, 15))
@settings(max_examples=25, deadline=None)
def test_prefill_of_a_full_layer_is_what_torch_counts(layer, T):
    found = prefill_flop(layer, T)
    assert Counts(found.projections, found.core) == run_layer(layer, T, T)
    assert found.tokens == T


@given(layers(is_causal=True), st.integers(1, 15))
@settings(max_examples=12, deadline=None)
def test_prefill_of_a_causal_layer_is_torchs_count_of_each_query_on_its_own(layer, T):
    seen = [min(i + 1, layer.window or T) for i in range(T)]
    core = sum(run_layer(layer, 1, keys).core for keys in seen)
    assert prefill_flop(layer, T).core == core
    assert prefill_flop(layer, T).projections == run_layer(layer, T, T).projections


@given(layers(), st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_decode_is_what_torch_counts_of_one_query_absorbed_where_there_is_a_latent(layer, T):
    keys = min(T, layer.window or T)
    found = decode_flop(layer, T)
    assert Counts(found.projections, found.core) == run_layer(layer, 1, keys, absorbed=True)


def test_torchs_counter_bites():
    """The witness must be able to disagree: one head less is another count."""
    four = LayerShape(d_model=8, H=4, d_h=2, is_causal=False)
    two = LayerShape(d_model=8, H=2, d_h=2, is_causal=False)
    assert run_layer(four, 3, 3).core == 4 * 3 * 3 * 4 * 2
    assert prefill_flop(two, 3).core == run_layer(four, 3, 3).core // 2


@given(layers(), st.integers(1, 30), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_cache_is_the_bytes_of_the_tensors_that_are_kept(layer, T, B):
    kept = min(T, layer.window or T)
    for dtype in (torch.float16, torch.float32):
        if layer.latent is None:
            shapes = 2 * [(B, layer.H_kv, kept, layer.d_h)]
        else:
            shapes = [(B, kept, layer.latent.d_c), (B, kept, layer.latent.d_R)]
        held = [torch.empty(shape, dtype=dtype, device=META) for shape in shapes]
        expected = sum(one.numel() * one.element_size() for one in held)
        assert cache_bytes(layer, T, str(dtype).removeprefix("torch."), B) == expected


@given(layers(with_latent=False), st.sampled_from([prefill_flop, decode_flop]))
@settings(max_examples=25, deadline=None)
def test_crossing_is_the_first_length_of_a_walk_at_which_the_core_has_caught_up(layer, flop):
    longest = 200
    reached = (T for T in range(1, longest) if flop(layer, T).core >= flop(layer, T).projections)
    found, walked = crossing_T(layer, flop), next(reached, None)
    assert found == walked or (walked is None and (found is None or found >= longest))


@pytest.mark.parametrize(
    "d_model, H, H_kv, d_h", [(512, 8, 8, 64), (3072, 16, 16, 256), (4096, 32, 8, 128)]
)
def test_crossing_of_heads_is_d_model_times_one_plus_the_grouping(d_model, H, H_kv, d_h):
    expected = d_model * (H + H_kv) // H
    full = LayerShape(d_model=d_model, H=H, H_kv=H_kv, d_h=d_h, is_causal=False)
    causal = LayerShape(d_model=d_model, H=H, H_kv=H_kv, d_h=d_h)
    assert crossing_T(full, prefill_flop) == expected
    assert crossing_T(causal, prefill_flop) == 2 * expected - 1
    assert crossing_T(causal, decode_flop) == expected


def test_a_stack_is_the_sum_of_its_layers_windowed_ones_apart():
    layer = LayerShape(d_model=24, H=6, H_kv=2, d_h=5)
    windowed = LayerShape(d_model=24, H=6, H_kv=2, d_h=5, window=4)
    stack = ModelShape(layer, L=7, window=4, L_window=3)
    T = 11
    for count in (
        weights,
        lambda shape: prefill_flop(shape, T).core,
        lambda shape: prefill_flop(shape, T).projections,
        lambda shape: decode_flop(shape, T).core,
        lambda shape: cache_bytes(shape, T, "float16", 2),
    ):
        assert count(stack) == 4 * count(layer) + 3 * count(windowed)
    assert cache_bytes(windowed, T, "float16") * T == cache_bytes(layer, T, "float16") * 4


def test_biases_are_one_for_each_output_of_a_projection():
    layer = LayerShape(d_model=24, H=6, H_kv=2, d_h=5)
    made = [
        torch.nn.Linear(24, 6 * 5, device=META),
        torch.nn.Linear(24, 2 * 5, device=META),
        torch.nn.Linear(24, 2 * 5, device=META),
        torch.nn.Linear(6 * 5, 24, device=META),
    ]
    assert biases(layer) == sum(one.bias.numel() for one in made)
    assert weights(layer) == sum(one.weight.numel() for one in made)


def test_problems_of_a_latent_layer_are_what_its_two_forms_compute():
    layer = LayerShape(d_model=24, H=4, d_h=6, latent=Latent(d_c=10, d_R=3, d_v=5))
    expanded, absorbed = prefill_problem(layer, 9, "bfloat16"), decode_problem(layer, 9)
    assert (expanded.H_kv, expanded.d_h, expanded.d_v, expanded.causal) == (4, 9, 5, True)
    assert (absorbed.H_kv, absorbed.d_h, absorbed.d_v) == (1, 13, 10)
    assert (absorbed.T_q, absorbed.T_kv, expanded.dtype) == (1, 9, "bfloat16")


def test_core_share_and_per_token_are_of_both_parts():
    found = prefill_flop(LayerShape(d_model=512, H=8, is_causal=False), 1024)
    assert (found.core_share, found.total) == (0.5, 2 * found.core)
    assert found.per_token == 16 * 512**2


@pytest.mark.parametrize(
    "sizes, told",
    [
        ({"d_model": 512, "H": 6}, "d_model=512 is not a multiple of H=6"),
        ({"d_model": 512, "H": 8, "H_kv": 3}, "H=8 is not a multiple of H_kv=3"),
        ({"d_model": 512, "H": 8, "H_kv": 0}, "H_kv=0 is not a size"),
        ({"d_model": 0, "H": 8}, "d_model=0 is not a size"),
        ({"d_model": 512, "H": True}, "H=True is not a size"),
        ({"d_model": 512, "H": 8, "window": 4, "is_causal": False}, "a window needs a causal"),
        ({"d_model": 8, "H": 2, "H_kv": 1, "latent": Latent(4, 2, 4)}, "no H_kv"),
    ],
)
def test_sizes_that_make_no_layer_are_refused_with_the_numbers(sizes, told):
    with pytest.raises(ValueError, match=told):
        LayerShape(**sizes)


def test_a_stack_needs_its_window_and_the_layers_that_have_it():
    layer = LayerShape(d_model=8, H=2)
    for wrong in ({"window": 4}, {"L_window": 1}, {"window": 4, "L_window": 3}):
        with pytest.raises(ValueError, match="of 2 layers"):
            ModelShape(layer, L=2, **wrong)
    with pytest.raises(ValueError, match="a window needs a causal"):
        ModelShape(LayerShape(d_model=8, H=2, is_causal=False), L=2, window=4, L_window=2)


@pytest.mark.parametrize(
    "sizes, told",
    [
        ({"d_model": 512, "H": 64}, ["d_h=8 is below 16"]),
        ({"d_model": 512, "H": 8}, []),
        ({"d_model": 360, "H": 10}, ["d_h=36 is not a multiple of 8"]),
        ({"d_model": 512, "H": 1}, ["d_h=512 is above 256"]),
        ({"d_model": 3072, "H": 16, "d_h": 256}, ["H·d_h=4096 is not d_model=3072"]),
    ],
)
def test_odd_sizes_are_warned_about_not_refused(sizes, told):
    found = warnings_about(LayerShape(**sizes))
    assert len(found) == len(told)
    assert all(text in sentence for text, sentence in zip(told, found, strict=True))


@pytest.mark.parametrize(
    "layer, variant",
    [
        (LayerShape(64, 1), "single-head"),
        (LayerShape(64, 4), "MHA"),
        (LayerShape(64, 4, H_kv=1), "MQA"),
        (LayerShape(64, 4, H_kv=2), "GQA-2"),
        (LayerShape(64, 4, latent=Latent(8, 2, 16)), "MLA"),
    ],
)
def test_layers_are_called_what_they_are(layer, variant):
    assert layer.variant == variant
    assert layer.as_mha.variant in ("MHA", "single-head")
