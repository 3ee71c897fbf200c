"""The layer against torch's own, against its formula written out, and prefill against decoding."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from impls.interface.layer_cost import biases, cache_bytes, weights
from impls.interface.layer_shape import LayerShape
from impls.layer.attention_layer import AttentionLayer
from tests.layers import SHAPES, close, layer_of, seeded, tokens

pytestmark = pytest.mark.filterwarnings("ignore:d_model=.*is below 16")

PLAIN = [name for name, shape in SHAPES.items() if shape.latent is None]


def written_out(layer, x, context=None):
    """The layer from its definition: one query of one head at a time, no reshaping, no library."""
    shape, d_h = layer.shape, layer.shape.d_h
    attended = x if context is None else context
    if layer.fused_qkv:
        sizes = (shape.H * d_h, shape.H_kv * d_h, shape.H_kv * d_h)
        W = dict(zip("qkv", layer.qkv_proj.weight.split(sizes), strict=True))
        b = dict(zip("qkv", layer.qkv_proj.bias.split(sizes), strict=True)) if layer.bias else {}
    else:
        projections = {"q": layer.q_proj, "k": layer.k_proj, "v": layer.v_proj}
        W = {name: projection.weight for name, projection in projections.items()}
        b = {name: p.bias for name, p in projections.items()} if layer.bias else {}
    out = torch.zeros_like(x)
    for at in range(x.shape[0]):
        for i in range(x.shape[1]):
            heads = []
            for h in range(shape.H):
                g = h // (shape.H // shape.H_kv)
                own, shared = slice(h * d_h, (h + 1) * d_h), slice(g * d_h, (g + 1) * d_h)
                q = W["q"][own] @ x[at, i] + (b["q"][own] if b else 0)
                last = i + attended.shape[1] - x.shape[1]
                keys = range(attended.shape[1])
                if shape.is_causal:
                    keys = range(max(0, last - (shape.window or math.inf) + 1), last + 1)
                k = [W["k"][shared] @ attended[at, j] + (b["k"][shared] if b else 0) for j in keys]
                v = [W["v"][shared] @ attended[at, j] + (b["v"][shared] if b else 0) for j in keys]
                p = torch.softmax(torch.stack([q @ one for one in k]) / math.sqrt(d_h), 0)
                heads.append(sum(weight * one for weight, one in zip(p, v, strict=True)))
            out[at, i] = layer.o_proj.weight @ torch.cat(heads)
            if layer.bias:
                out[at, i] += layer.o_proj.bias
    return out


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("options", [{}, {"bias": True}, {"fused_qkv": True, "bias": True}])
@pytest.mark.parametrize("H_kv", [1, 2, 6])
def test_a_layer_is_its_formula(H_kv, options, is_causal):
    shape = LayerShape(d_model=10, H=6, H_kv=H_kv, d_h=3, is_causal=is_causal)
    layer, x = layer_of(shape, **options), tokens(2, 5, 10)
    with torch.no_grad():
        close(layer(x), written_out(layer, x))


def test_a_window_leaves_the_last_keys():
    layer, x = layer_of(LayerShape(d_model=8, H=2, d_h=5, window=3)), tokens(2, 7, 8)
    with torch.no_grad():
        close(layer(x), written_out(layer, x))


@pytest.mark.parametrize("T_kv", [1, 4, 9])
def test_cross_attention_reads_keys_and_values_of_the_context(T_kv):
    shape = LayerShape(d_model=8, H=4, H_kv=2, d_h=3, is_causal=False)
    layer, x, context = layer_of(shape, bias=True), tokens(2, 5, 8), tokens(2, T_kv, 8, seed=3)
    with torch.no_grad():
        expected = written_out(layer, x, context)
        close(layer(x, context=context), expected)


@settings(deadline=None, max_examples=30)
@given(
    B=st.integers(1, 3),
    T=st.integers(1, 5),
    d_model=st.integers(1, 9),
    H_kv=st.integers(1, 3),
    group=st.integers(1, 3),
    d_h=st.integers(1, 5),
    window=st.none() | st.integers(1, 6),
    options=st.fixed_dictionaries({"bias": st.booleans(), "fused_qkv": st.booleans()}),
)
def test_any_layer_is_its_formula(B, T, d_model, H_kv, group, d_h, window, options):
    shape = LayerShape(d_model=d_model, H=H_kv * group, H_kv=H_kv, d_h=d_h, window=window)
    layer, x = layer_of(shape, **options), tokens(B, T, d_model)
    with torch.no_grad():
        close(layer(x), written_out(layer, x))


def copied(from_layer, to_layer, **changed):
    """`to_layer` with the parameters of the other, those in `changed` replaced."""
    to_layer.load_state_dict(from_layer.state_dict() | changed)
    return to_layer


def test_grouped_heads_are_shared_heads_repeated():
    """GQA is MHA whose heads of one group have the same keys and values; so is MQA."""
    x = tokens(2, 6, 12)
    for H_kv in (1, 2, 4):
        grouped = layer_of(LayerShape(d_model=12, H=4, H_kv=H_kv, d_h=5))
        repeated = {
            name: parameter.unflatten(0, (H_kv, 5)).repeat_interleave(4 // H_kv, 0).flatten(0, 1)
            for name, parameter in grouped.state_dict().items()
            if name in ("k_proj.weight", "v_proj.weight")
        }
        every = copied(grouped, layer_of(LayerShape(d_model=12, H=4, d_h=5)), **repeated)
        with torch.no_grad():
            close(grouped(x), every(x))


def test_gqa_with_as_many_kv_heads_is_torch_s_mha():
    module = seeded(torch.nn.MultiheadAttention(12, 4, bias=False, batch_first=True))
    layer = AttentionLayer(LayerShape(d_model=12, H=4, H_kv=4, is_causal=False)).double()
    q, k, v = (f"{part}_proj.weight" for part in "qkv")
    state = dict(zip((q, k, v), module.in_proj_weight.chunk(3), strict=True))
    layer.load_state_dict(state | {"o_proj.weight": module.out_proj.weight})
    x = tokens(2, 6, 12)
    with torch.no_grad():
        close(layer(x), module(x, x, x, need_weights=False)[0])


def test_gqa_with_one_kv_head_is_mqa():
    """Shazeer 2019, section 2.4: keys and values have no head axis at all."""
    layer, x = layer_of(LayerShape(d_model=12, H=4, H_kv=1, d_h=5)), tokens(2, 6, 12)
    with torch.no_grad():
        P_q, P_o = layer.q_proj.weight.view(4, 5, 12), layer.o_proj.weight.view(12, 4, 5)
        q = torch.einsum("btm,hdm->bhtd", x, P_q)
        k, v = x @ layer.k_proj.weight.T, x @ layer.v_proj.weight.T
        scores = torch.einsum("bhtd,bsd->bhts", q, k) / math.sqrt(5)
        hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
        p = torch.softmax(scores.masked_fill(hidden, -math.inf), -1)
        close(layer(x), torch.einsum("bhts,bsd,mhd->btm", p, v, P_o))


@pytest.mark.parametrize("name", PLAIN)
def test_a_fused_projection_is_the_three_separate_ones(name):
    shape, x = SHAPES[name], tokens(2, 5, SHAPES[name].d_model)
    separate = layer_of(shape, rotary_base=100.0, bias=True)
    fused = layer_of(shape, rotary_base=100.0, bias=True, fused_qkv=True)
    state = separate.state_dict()
    for kind in ("weight", "bias"):
        parts = [state.pop(f"{part}_proj.{kind}") for part in "qkv"]
        state[f"qkv_proj.{kind}"] = torch.cat(parts)
    fused.load_state_dict(state)
    with torch.no_grad():
        close(fused(x), separate(x))


def test_the_three_parts_are_the_layer():
    layer, x = layer_of(SHAPES["GQA"], rotary_base=7.0), tokens(2, 5, SHAPES["GQA"].d_model)
    with torch.no_grad():
        heads = layer.project(x)
        assert [tuple(one.shape) for one in heads] == [(2, 6, 5, 16), (2, 2, 5, 16), (2, 2, 5, 16)]
        attended = layer.core(heads)
        assert attended.shape == heads.q.shape
        assert torch.equal(layer.output(attended), layer(x))


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_and_cache_bytes_are_those_counted(name):
    shape = SHAPES[name]
    layer = layer_of(shape)
    assert sum(p.numel() for p in layer.parameters()) == weights(shape)
    whole = replace(shape, window=None)  # a window is counted, and kept whole
    assert layer.new_cache(3, 7).bytes == cache_bytes(whole, 7, "float64", B=3)
    if shape.latent is None:
        biased = AttentionLayer(shape, bias=True)
        assert sum(p.numel() for p in biased.parameters()) == weights(shape) + biases(shape)


def test_gradients_are_those_of_finite_differences():
    shape = LayerShape(d_model=4, H=2, H_kv=1, d_h=2, window=2)
    layer = layer_of(shape, bias=True, rotary_base=10.0)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    x = tokens(1, 3, 4).requires_grad_()

    def call(x, *parameters):
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *parameters))


@pytest.mark.parametrize("implementation", ["naive", "chunked", "sdpa_math", "sdpa_flash"])
def test_every_implementation_trains_the_same_layer(implementation):
    shape = SHAPES["GQA"]
    gradients = []
    for name in ("naive", implementation):
        layer, x = layer_of(shape, name, rotary_base=9.0), tokens(2, 6, shape.d_model)
        x.requires_grad_()
        (layer(x) ** 2).sum().backward()
        gradients.append([x.grad, *(p.grad for p in layer.parameters())])
    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize(
    ("sizes", "numbers"),
    [
        ({"d_model": 512, "H": 7}, ("d_model=512", "H=7")),
        ({"d_model": 512, "H": 8, "H_kv": 3}, ("H=8", "H_kv=3")),
        ({"d_model": 512, "H": 4, "H_kv": 8}, ("H=4", "H_kv=8")),
    ],
)
def test_heads_that_do_not_divide_are_refused_with_both_numbers(sizes, numbers):
    with pytest.raises(ValueError) as told:
        AttentionLayer(LayerShape(**sizes))
    assert all(number in str(told.value) for number in numbers)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"d_model": 512, "H": 64}, ("d_model=512, H=64", "d_h=8 is below 16")),
        ({"d_model": 64, "H": 2, "d_h": 15}, ("d_h=15 is below 16",)),
        ({"d_model": 512, "H": 32}, ()),
        ({"d_model": 3072, "H": 16, "d_h": 256}, ()),
    ],
)
def test_narrow_heads_are_warned_of_and_work(sizes, words):
    shape = LayerShape(**sizes)
    with torch.device("meta"):
        if not words:
            AttentionLayer(shape)
            return
        with pytest.warns(UserWarning) as told:
            layer = AttentionLayer(shape)
    assert all(word in str(told[0].message) for word in words)
    assert told[0].filename == __file__, "it points at who asked for the layer"
    assert layer.o_proj.weight.shape == (shape.d_model, shape.H * shape.d_h)


def test_what_has_no_meaning_is_refused():
    layer, x = layer_of(SHAPES["MHA"], rotary_base=9.0), tokens(2, 5, 32)
    with pytest.raises(ValueError, match=r"\(2, 5, 31\).*d_model=32"):
        layer(x[..., :31])
    with pytest.raises(ValueError, match="no positions"):
        layer(x, context=x)
    with pytest.raises(ValueError, match=r'"nave".*did you mean "naive"'):
        AttentionLayer(SHAPES["MHA"], "nave")
    with pytest.raises(ValueError, match="LatentAttention"):
        AttentionLayer(SHAPES["MLA"])
    with pytest.raises(ValueError, match="d=9 must be even"):
        AttentionLayer(LayerShape(d_model=9, H=1), rotary_base=10.0)
    with torch.no_grad(), pytest.raises(ValueError, match="causal"):
        whole = layer_of(LayerShape(d_model=32, H=2, is_causal=False))
        whole(x, cache=layer.new_cache(2, 9))
    fused = layer_of(LayerShape(d_model=32, H=2, is_causal=False), fused_qkv=True)
    with pytest.raises(ValueError, match="fused_qkv=False"):
        fused(x, context=x)
    with pytest.raises(ValueError, match="no_grad"):
        layer(x, cache=layer.new_cache(2, 9))


def test_a_layer_survives_copying_and_saving(tmp_path):
    layer, x = layer_of(SHAPES["GQA"], "sdpa_flash", rotary_base=9.0), tokens(1, 4, 40)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = AttentionLayer(SHAPES["GQA"], "sdpa_flash", rotary_base=9.0).double()
    other.load_state_dict(torch.load(tmp_path / "layer.pt"))
    with torch.no_grad():
        assert torch.equal(other(x), layer(x))
    assert seeded(other) is other
