"""Layers made of torch's and Llama's weights compute what their makers compute."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from impls.layer.foreign_weights import from_llama, from_torch
from tests.layers import close, seeded, tokens

pytestmark = pytest.mark.filterwarnings("ignore:d_model=.*is below 16")

IMPLEMENTATIONS = ("naive", "chunked", "sdpa_math", "sdpa_flash")


def torch_module(d_model=24, H=4, **options):
    module = nn.MultiheadAttention(d_model, H, batch_first=True, **options)
    return seeded(module)


def torch_says(module, x, context=None, *, is_causal=False):
    """What the module gives; its own masks are True where a query may not attend."""
    attended = x if context is None else context
    mask = None
    if is_causal:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    with torch.no_grad():
        return module(x, attended, attended, attn_mask=mask, need_weights=False)[0]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("fused_qkv", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_equals_torch_multihead_attention(bias, fused_qkv, is_causal, implementation):
    module, x = torch_module(bias=bias), tokens(3, 7, 24)
    layer = from_torch(
        module, is_causal=is_causal, implementation=implementation, fused_qkv=fused_qkv
    )
    with torch.no_grad():
        found = layer(x)
    assert found.dtype == torch.float64
    close(found, torch_says(module, x, is_causal=is_causal))


@settings(deadline=None, max_examples=30)
@given(
    B=st.integers(1, 3),
    T=st.integers(1, 9),
    T_kv=st.integers(1, 9),
    H=st.integers(1, 5),
    d_h=st.integers(1, 6),
    is_causal=st.booleans(),
    bias=st.booleans(),
)
def test_any_layer_equals_torch_multihead_attention(B, T, T_kv, H, d_h, is_causal, bias):
    d_model = H * d_h
    module, x = torch_module(d_model, H, bias=bias), tokens(B, T, d_model)
    layer = from_torch(module, is_causal=is_causal)
    with torch.no_grad():
        expected = torch_says(module, x, is_causal=is_causal)
        close(layer(x), expected)
        if not is_causal:
            context = tokens(B, T_kv, d_model, seed=5)
            expected = torch_says(module, x, context)
            close(layer(x, context=context), expected)


def test_its_gradients_are_torch_s_too():
    module, x = torch_module(), tokens(2, 5, 24).requires_grad_()
    layer = from_torch(module)
    out = module(x, x, x, need_weights=False)[0]
    wanted = (x, module.in_proj_weight, module.out_proj.bias)
    expected = torch.autograd.grad(out.square().sum(), wanted)
    parts = [projection.weight for projection in (layer.q_proj, layer.k_proj, layer.v_proj)]
    gradients = torch.autograd.grad(layer(x).square().sum(), (x, *parts, layer.o_proj.bias))
    found = (gradients[0], torch.cat(gradients[1:4]), gradients[4])
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=0)


def test_the_weights_are_copies():
    module, x = torch_module(), tokens(1, 3, 24)
    layer = from_torch(module)
    with torch.no_grad():
        before = layer(x)
        module.in_proj_weight.zero_()
        assert torch.equal(layer(x), before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kdim": 8, "vdim": 6}, "kdim=8, vdim=6"),
        ({"add_bias_kv": True}, "add_bias_kv"),
        ({"add_zero_attn": True}, "add_zero_attn"),
        ({"dropout": 0.1}, "dropout=0.1"),
        ({"dropout": 0.1, "add_zero_attn": True}, "add_zero_attn.*dropout=0.1"),
    ],
)
def test_what_the_layer_has_not_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        from_torch(torch_module(**options))


def llama_state(d_model, H, H_kv, d_h, bias=()):
    """The state dict of a Llama attention, as Hugging Face names it."""
    rows = {"q_proj": H * d_h, "k_proj": H_kv * d_h, "v_proj": H_kv * d_h, "o_proj": d_model}
    state = {}
    for seed, (name, size) in enumerate(rows.items()):
        columns = d_model if name != "o_proj" else H * d_h
        state[f"{name}.weight"] = tokens(size, columns, seed=seed) / math.sqrt(columns)
        if name in bias:
            state[f"{name}.bias"] = tokens(size, seed=seed + 9)
    return state


def llama_attention(state, x, H, H_kv, base, window=None):
    """Llama's attention written out: project, rotate halves, repeat kv heads, softmax in full."""
    B, T, _ = x.shape

    def projected(name, heads):
        y = x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", 0.0)
        return y.view(B, T, heads, -1).transpose(1, 2)

    q, k, v = projected("q_proj", H), projected("k_proj", H_kv), projected("v_proj", H_kv)
    d_h = q.shape[-1]
    inv_freq = 1.0 / base ** (torch.arange(0, d_h, 2).double() / d_h)
    angles = torch.arange(T).double()[:, None] * inv_freq
    angles = torch.cat([angles, angles], -1)

    def rotate_half(y):
        return torch.cat([-y[..., d_h // 2 :], y[..., : d_h // 2]], -1)

    q = q * angles.cos() + rotate_half(q) * angles.sin()
    k = k * angles.cos() + rotate_half(k) * angles.sin()
    k, v = (y.repeat_interleave(H // H_kv, 1) for y in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(d_h)
    i, j = torch.arange(T)[:, None], torch.arange(T)[None]
    hidden = (j > i) | (j <= i - (window or T))
    scores = scores.masked_fill(hidden, float("-inf"))
    heads = torch.softmax(scores, -1) @ v
    return heads.transpose(1, 2).reshape(B, T, -1) @ state["o_proj.weight"].T + state.get(
        "o_proj.bias", 0.0
    )


LLAMAS = {
    "Llama-2-7B, narrowed": (32, 4, 4, 8),
    "Llama-2-70B, narrowed": (32, 8, 2, 4),
    "Gemma, H·d_h ≠ d_model": (24, 4, 1, 10),
}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("fused_qkv", [False, True])
@pytest.mark.parametrize("sizes", LLAMAS.values(), ids=LLAMAS)
def test_a_layer_equals_llama_s_attention(sizes, fused_qkv, implementation):
    d_model, H, H_kv, d_h = sizes
    state, x = llama_state(*sizes), tokens(2, 9, d_model)
    layer = from_llama(
        {f"model.layers.3.self_attn.{name}": weight for name, weight in state.items()}
        | {"model.layers.2.self_attn.q_proj.weight": torch.zeros(3)},
        H=H,
        prefix="model.layers.3.self_attn.",
        rotary_base=500.0,
        implementation=implementation,
        fused_qkv=fused_qkv,
    )
    assert (layer.shape.H_kv, layer.shape.d_h, layer.shape.d_model) == (H_kv, d_h, d_model)
    with torch.no_grad():
        expected = llama_attention(state, x, H, H_kv, 500.0)
        close(layer(x), expected)


def test_mistral_s_window_and_qwen_s_biases():
    state = llama_state(16, 4, 2, 6, bias=("q_proj", "k_proj", "v_proj"))
    layer, x = from_llama(state, H=4, window=3, rotary_base=30.0), tokens(2, 8, 16)
    with torch.no_grad():
        expected = llama_attention(state, x, 4, 2, 30.0, window=3)
        close(layer(x), expected)
    assert torch.equal(layer.o_proj.bias, torch.zeros(16))


def test_weights_keep_their_dtype():
    state = {name: weight.bfloat16() for name, weight in llama_state(16, 4, 2, 6).items()}
    layer = from_llama(state, H=4)
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.bfloat16}
    assert torch.equal(layer.k_proj.weight, state["k_proj.weight"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k_proj.weight": None}, "no k_proj.weight"),
        ({"q_norm.weight": torch.ones(6)}, "q_norm.weight: the layer has nothing of this name"),
        ({"k_proj.weight": torch.ones(13, 16)}, "13 rows, which is not a multiple of d_h=6"),
        ({"v_proj.weight": torch.ones(6, 16)}, r"v_proj is \(6, 16\) where \(12, 16\) is due"),
        ({"o_proj.weight": torch.ones(16, 6)}, r"o_proj is \(16, 6\) where \(16, 24\) is due"),
        ({"rotary_emb.inv_freq": torch.ones(3)}, "rotary_base=10000"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, words):
    state = llama_state(16, 4, 2, 6) | change
    with pytest.raises(ValueError, match=words):
        from_llama({n: w for n, w in state.items() if w is not None}, H=4)


def test_head_counts_and_prefixes_that_do_not_fit_are_refused():
    state = llama_state(16, 4, 2, 6)
    with pytest.raises(ValueError, match="24 rows, which is not a multiple of H=5"):
        from_llama(state, H=5)
    three = {"k_proj.weight": torch.ones(18, 16), "v_proj.weight": torch.ones(18, 16)}
    with pytest.raises(ValueError, match="H=4 is not a multiple of H_kv=3"):
        from_llama(state | three, H=4)
    named = {f"layers.0.attention.{name}": weight for name, weight in state.items()}
    with pytest.raises(ValueError, match=r'under "".*try prefix="layers\.0\.attention\."'):
        from_llama(named, H=4)


def test_frequencies_of_an_old_checkpoint_are_held_to_the_base():
    frequencies = {"rotary_emb.inv_freq": 10000.0 ** -(torch.arange(0, 6, 2) / 6)}
    layer, plain = (from_llama(llama_state(16, 4, 2, 6) | more, H=4) for more in (frequencies, {}))
    assert layer.state_dict().keys() == plain.state_dict().keys()
    with pytest.raises(ValueError, match="rotary_base=500"):
        from_llama(llama_state(16, 4, 2, 6) | frequencies, H=4, rotary_base=500.0)
