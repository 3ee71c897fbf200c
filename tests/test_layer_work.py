"""The counts of a layer's parts, against torch's own counter and against sums over elements."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from impls.interface import cost as core_cost
from impls.interface import layer_cost, layer_work
from impls.interface.layer_problem import core_of, decode_part, prefill_part
from impls.interface.layer_shape import Latent, LayerShape
from impls.layer.attention_layer import AttentionLayer
from impls.layer.block import Block, FeedForward
from impls.layer.latent_attention import LatentAttention

B, T, D_FF = 2, 12, 80
HEADS = LayerShape(d_model=48, H=6, H_kv=2, d_h=16, is_causal=False)
CAUSAL = LayerShape(d_model=48, H=6, H_kv=2, d_h=16)
LATENT = LayerShape(
    d_model=48, H=3, d_h=16, latent=Latent(d_c=20, d_R=8, d_v=24, d_c_q=28), is_causal=False
)
FULL_QUERY = LayerShape(d_model=48, H=3, d_h=16, latent=Latent(d_c=20, d_R=8, d_v=24))
SHAPES = {"heads": HEADS, "latent": LATENT}


def module_of(shape: LayerShape) -> AttentionLayer | LatentAttention:
    with torch.device("meta"):
        return (AttentionLayer if shape.latent is None else LatentAttention)(shape)


def counted(call, *inputs: torch.Tensor, backward: bool = False) -> int:
    with FlopCounterMode(display=False) as counter:
        out = call(*inputs)
        if backward:
            out.sum().backward()
    return counter.get_total_flops()


def tokens(*, backward: bool = False) -> torch.Tensor:
    return torch.empty(B, T, 48, device="meta", requires_grad=backward)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_torch_counts_the_same_products_in_every_part(shape):
    """Of a layer without a mask the plain formula computes every pair, as `cost` counts them."""
    layer = module_of(shape)
    heads = layer.project(tokens())
    attended = torch.empty(B, shape.H, T, heads.v.shape[3], device="meta")
    calls = {
        "projections": lambda x: layer.project(x),
        "output": lambda x: layer.output(attended),
        "layer": layer,
        "feed_forward": FeedForward(48, D_FF).to("meta"),
        "block": Block(layer, d_model=48, d_ff=D_FF).to("meta"),
    }
    for part, call in calls.items():
        d_ff = D_FF if part in ("feed_forward", "block") else 0
        problem = prefill_part(shape, part, B=B, T=T, dtype="float32", d_ff=d_ff)
        assert layer_work.flop(problem) == counted(call, tokens()), part


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_backward_of_products_is_twice_their_forward(shape):
    """The core is counted by a convention of its own (its scores recomputed), and left out."""
    layer, feed_forward = module_of(shape), FeedForward(48, D_FF).to("meta")
    calls = {
        "projections": lambda x: sum(part.sum() for part in layer.project(x)),
        "feed_forward": feed_forward,
    }
    for part, call in calls.items():
        d_ff = D_FF if part == "feed_forward" else 0
        problem = prefill_part(shape, part, B=B, T=T, dtype="float32", d_ff=d_ff)
        both = counted(call, tokens(backward=True), backward=True)
        assert layer_work.flop(problem, "forward_backward") == both, part
        assert layer_work.flop(problem, "backward") == 2 * layer_work.flop(problem), part


def test_a_step_from_a_latent_cache_costs_what_torch_counts():
    layer = module_of(FULL_QUERY)
    x = torch.empty(B, 1, 48, device="meta")
    for absorbed in (False, True):
        with torch.device("meta"):
            cache = layer.new_cache(B, T)
        cache.length = T - 1
        step = decode_part(FULL_QUERY, "projections", B=B, T_kv=T, dtype="float32")
        if not absorbed:
            around = prefill_part(FULL_QUERY, "projections", B=B, T=T, dtype="float32")
            step = around.with_(T_q=1)
        with torch.no_grad():
            found = counted(partial(layer.project, cache=cache, absorbed=absorbed), x)
        assert layer_work.flop(step) == found


@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("shape", [HEADS, CAUSAL, LATENT, FULL_QUERY])
@pytest.mark.parametrize("convention", core_cost.CONVENTIONS)
def test_a_layer_is_its_parts_and_a_block_that_and_its_feed_forward(shape, pass_, convention):
    def of(part: str, d_ff: int = 0) -> int:
        problem = prefill_part(shape, part, B=B, T=T, dtype="float32", d_ff=d_ff)
        return layer_work.cost(problem, pass_, convention).flop

    core = core_of(prefill_part(shape, "layer", B=B, T=T, dtype="float32"))
    parts = of("projections") + of("output") + core_cost.flop(core, pass_, convention)
    assert of("layer") == parts
    assert of("block", D_FF) == parts + of("feed_forward", D_FF)
    times = {"forward": 1, "backward": 2, "forward_backward": 3}[pass_]
    assert of("feed_forward", D_FF) == times * 4 * B * T * 48 * D_FF


@pytest.mark.parametrize("shape", [CAUSAL, FULL_QUERY])
def test_prefill_and_decode_agree_with_the_card_of_a_model(shape):
    prefill = prefill_part(shape, "layer", B=3, T=T, dtype="float16")
    assert layer_work.flop(prefill) == 3 * layer_cost.prefill_flop(shape, T).total
    step = decode_part(shape, "layer", B=3, T_kv=T, dtype="float16")
    assert layer_work.flop(step) == 3 * layer_cost.decode_flop(shape, T).total
    # Everything a step reads again and again: the weights and the cache, its own token written.
    ends = 2 * 3 * 48 * 2
    kept = layer_cost.cache_bytes(shape, T, "float16", 3)
    assert layer_work.compulsory_bytes(step) == (
        layer_cost.weight_bytes(shape, "float16") + kept + ends
    )


@pytest.mark.parametrize("shape", [CAUSAL, FULL_QUERY])
@pytest.mark.parametrize("part", ["projections", "output", "layer", "feed_forward", "block"])
def test_the_weights_are_those_of_the_module(shape, part):
    d_ff = D_FF if part in ("feed_forward", "block") else 0
    found = layer_work.weights(prefill_part(shape, part, B=1, T=T, dtype="float32", d_ff=d_ff))
    layer = module_of(shape)
    whole = Block(layer, d_model=48, d_ff=D_FF)
    own = {
        "projections": [p for n, p in layer.named_parameters() if n != "o_proj.weight"],
        "output": [layer.o_proj.weight],
        "layer": list(layer.parameters()),
        "feed_forward": list(whole.feed_forward.parameters()),
        "block": list(whole.parameters()),
    }[part]
    assert found.count == sum(parameter.numel() for parameter in own)


def test_bytes_are_what_goes_in_and_out_and_the_weights():
    def of(part: str, pass_: str = "forward") -> int:
        return layer_work.compulsory_bytes(
            prefill_part(CAUSAL, part, B=B, T=T, dtype="float16"), pass_
        )

    x, q, kv = B * T * 48, B * T * 6 * 16, B * T * 2 * (16 + 16)
    qkv_weights, o_weights = 48 * (6 * 16 + 2 * 2 * 16), 48 * 6 * 16
    assert of("projections") == 2 * (x + qkv_weights + q + kv)
    assert of("output") == 2 * (q + o_weights + x)
    assert of("layer") == 2 * (2 * x + qkv_weights + o_weights)
    assert of("layer", "backward") == 2 * (3 * x + 2 * (qkv_weights + o_weights))
    assert of("layer", "forward_backward") == of("layer") + of("layer", "backward")


def test_a_step_with_a_window_reads_what_it_sees_of_the_cache():
    windowed = LayerShape(d_model=48, H=6, H_kv=2, d_h=16, window=5)
    step = decode_part(windowed, "layer", B=B, T_kv=T, dtype="float32")
    # Four cached tokens and the new one, each with a key and a value of two heads.
    kept = B * 5 * 2 * 2 * 16
    expected = 4 * (2 * B * 48 + layer_cost.weights(windowed) + kept)
    assert layer_work.compulsory_bytes(step) == expected


def test_an_absorbed_core_reads_one_key_for_all_heads():
    around = decode_part(FULL_QUERY, "projections", B=B, T_kv=T, dtype="float32").around
    prefill = prefill_part(FULL_QUERY, "projections", B=B, T=T, dtype="float32")
    absorbed = prefill.with_(H_kv=1, d_h=28, d_v=20, around=around)
    made = B * T * (3 * 28 + 28)
    weights = layer_work.weights(absorbed).count
    assert layer_work.compulsory_bytes(absorbed) == 4 * (B * T * 48 + weights + made)


def test_exponentials_and_pairs_are_the_core_s_and_none_where_there_is_none():
    layer = prefill_part(CAUSAL, "layer", B=B, T=T, dtype="float32")
    found, core = layer_work.cost(layer), core_cost.cost(core_of(layer))
    assert (found.pairs, found.exp) == (core.pairs, core.exp) == (78, B * 6 * 78)
    apart = layer_work.cost(prefill_part(CAUSAL, "projections", B=B, T=T, dtype="float32"))
    assert (apart.pairs, apart.exp) == (0, 0)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="does not decode"):
        decode_part(HEADS, "layer", B=1, T_kv=8, dtype="float32")
    with pytest.raises(ValueError, match=r"cost\.cost counts it"):
        layer_work.cost(core_cost.Problem.parse("T=4,H=1,d_h=64"))
