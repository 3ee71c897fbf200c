"""MLA against its formula written out, and its two forms against each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from impls.interface.attention import Unsupported
from impls.interface.layer_shape import Latent, LayerShape
from impls.layer.latent_attention import LatentAttention
from impls.layer.rotary import Rotary
from impls.naive import naive
from tests.layers import SHAPES, close, layer_of, tokens

pytestmark = pytest.mark.filterwarnings("ignore:d_model=.*is below 16")

LATENT = [name for name, shape in SHAPES.items() if shape.latent is not None]


def written_out(layer, x):
    """DeepSeek-V2, appendix C, one query of one head at a time."""
    shape, of, d_h = layer.shape, layer.latent, layer.shape.d_h
    rotary = Rotary(of.d_R, layer.rotary.base)
    W_UQ = layer.q_up.weight.view(shape.H, d_h + of.d_R, -1)
    W_UK, W_UV = (
        layer.k_up.weight.view(shape.H, d_h, -1),
        layer.v_up.weight.view(shape.H, of.d_v, -1),
    )
    W_DKV, W_KR = layer.kv_down.weight.split((of.d_c, of.d_R))
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            heads = []
            for h in range(shape.H):
                c_q = x[b, t] if of.d_c_q is None else layer.q_down.weight @ x[b, t]
                q_c, q_r = (W_UQ[h] @ c_q).split((d_h, of.d_R))
                q = torch.cat([q_c, rotary(q_r[None], t)[0]])
                first = 0 if shape.window is None else max(0, t + 1 - shape.window)
                scores, values = [], []
                for j in range(first, t + 1 if shape.is_causal else x.shape[1]):
                    c = W_DKV @ x[b, j]
                    k = torch.cat([W_UK[h] @ c, rotary((W_KR @ x[b, j])[None], j)[0]])
                    scores.append(q @ k / (d_h + of.d_R) ** 0.5)
                    values.append(W_UV[h] @ c)
                p = torch.softmax(torch.stack(scores), 0)
                heads.append(p @ torch.stack(values))
            out[b, t] = layer.o_proj.weight @ torch.cat(heads)
    return out


@pytest.mark.parametrize("absorbed", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("d_c_q", [None, 5])
def test_either_form_is_the_formula(d_c_q, is_causal, absorbed):
    of = Latent(d_c=4, d_R=2, d_v=3, d_c_q=d_c_q)
    shape = LayerShape(d_model=6, H=2, d_h=3, latent=of, is_causal=is_causal)
    layer, x = layer_of(shape, rotary_base=20.0), tokens(2, 5, 6)
    with torch.no_grad():
        close(layer(x, absorbed=absorbed), written_out(layer, x))


def test_a_window_leaves_the_last_keys():
    of = Latent(d_c=4, d_R=2, d_v=3)
    layer = layer_of(LayerShape(d_model=6, H=2, d_h=3, latent=of, window=2))
    x = tokens(1, 6, 6)
    with torch.no_grad():
        for absorbed in (False, True):
            found = layer(x, absorbed=absorbed)
            close(found, written_out(layer, x))


@settings(deadline=None, max_examples=30)
@given(
    H=st.integers(1, 4),
    d_h=st.integers(1, 5),
    d_c=st.integers(1, 7),
    half=st.integers(1, 3),
    d_v=st.integers(1, 6),
    d_c_q=st.none() | st.integers(1, 6),
    window=st.none() | st.integers(1, 7),
    steps=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_absorbed_equals_expanded_at_every_step(H, d_h, d_c, half, d_v, d_c_q, window, steps):
    of = Latent(d_c=d_c, d_R=2 * half, d_v=d_v, d_c_q=d_c_q)
    layer = layer_of(LayerShape(d_model=5, H=H, d_h=d_h, latent=of, window=window))
    x = tokens(2, sum(steps), 5)
    with torch.no_grad():
        full = layer(x, absorbed=False)
        close(layer(x, absorbed=True), full)
        for absorbed in (False, True):
            cache = layer.new_cache(2, sum(steps))
            parts = x.split(steps, 1)
            found = [layer(part, cache=cache, absorbed=absorbed) for part in parts]
            close(torch.cat(found, 1), full)


def test_a_step_is_absorbed_and_reads_the_cache_itself():
    """No key or value of a head is made: the core gets the cache's own memory, one kv head."""
    seen = []

    def forward(q, k, v, **arguments):
        seen.append((q.shape, k.shape, v.shape, k.data_ptr(), v.data_ptr()))
        return naive.forward(q, k, v, **arguments)

    shape = SHAPES["MLA"]
    layer = layer_of(
        shape, "naive", decode_implementation=replace(naive, name="spy", forward=forward)
    )
    x = tokens(2, 6, shape.d_model)
    with torch.no_grad():
        cache = layer.new_cache(2, 6)
        layer(x[:, :5], cache=cache)
        assert not seen, "prefill is expanded"
        layer(x[:, 5:], cache=cache)
    memory = cache.latent.data_ptr()
    assert seen == [((2, 3, 1, 14), (2, 1, 6, 14), (2, 1, 6, 10), memory, memory)]


def test_an_implementation_that_needs_equal_widths_says_so():
    layer = layer_of(SHAPES["MLA"], "sdpa_flash")
    with torch.no_grad(), pytest.raises(Unsupported, match="d_v=12 differs from d_h=20"):
        layer(tokens(1, 3, 32))


@pytest.mark.parametrize("absorbed", [False, True])
def test_gradients_are_those_of_finite_differences(absorbed):
    of = Latent(d_c=2, d_R=2, d_v=2, d_c_q=2)
    layer = layer_of(LayerShape(d_model=3, H=2, d_h=2, latent=of))
    names, parameters = zip(*layer.named_parameters(), strict=True)
    x = tokens(1, 3, 3).requires_grad_()

    def call(x, *parameters):
        state = dict(zip(names, parameters, strict=True))
        return functional_call(layer, state, (x,), {"absorbed": absorbed})

    assert torch.autograd.gradcheck(call, (x, *parameters))


@pytest.mark.parametrize("name", LATENT)
@pytest.mark.parametrize("absorbed", [False, True])
def test_the_three_parts_are_the_layer(name, absorbed):
    layer, x = layer_of(SHAPES[name]), tokens(2, 5, SHAPES[name].d_model)
    with torch.no_grad():
        attended = layer.core(layer.project(x, absorbed=absorbed), absorbed=absorbed)
        whole = layer.output(attended, absorbed=absorbed)
        assert torch.equal(whole, layer(x, absorbed=absorbed))


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="AttentionLayer"):
        LatentAttention(SHAPES["MHA"])
    odd = replace(SHAPES["MLA"], latent=Latent(d_c=10, d_R=3, d_v=12))
    with pytest.raises(ValueError, match="d=3 must be even"):
        LatentAttention(odd)
    layer = layer_of(SHAPES["MLA"])
    with pytest.raises(ValueError, match=r"\(2, 5, 31\).*d_model=32"):
        layer(tokens(2, 5, 31))
    whole = layer_of(replace(SHAPES["MLA"], is_causal=False))
    with torch.no_grad(), pytest.raises(ValueError, match="causal"):
        whole(tokens(2, 5, 32), cache=layer.new_cache(2, 9))
    with pytest.warns(UserWarning, match="d_h=4 is below 16"):
        LatentAttention(replace(SHAPES["MLA"], d_h=4))
