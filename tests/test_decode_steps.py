"""Prefill and then steps of decoding give what one full causal pass gives, whoever computes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.availability import availability
from impls.interface.check import poisoned_empty
from impls.interface.layer_cost import decode_problem
from impls.interface.layer_shape import LayerShape
from impls.naive import naive
from tests.layers import SHAPES, close, decoding, layer_of, tokens

pytestmark = pytest.mark.filterwarnings("ignore:d_model=.*is below 16")


# Rivals that are installed apart decode in `cpu_rivals.py`.
EAGER = [one for one in decoding() if not one.needs_compiler and not availability(one, "cpu")]
COMPILED = [one for one in decoding() if one.needs_compiler]


def name_of(implementation):
    return implementation.name


def test_every_implementation_that_claims_decode_is_tried():
    tried = {one.name for one in (*EAGER, *COMPILED)}
    assert tried >= {"naive", "chunked", "sdpa_math", "sdpa_flash", "grouped_decode", "flex"}


def in_steps(layer, x, steps):
    """The outputs of x, as many tokens at a time, into a cache whose tail is poisoned with NaN."""
    with poisoned_empty():
        cache = layer.new_cache(x.shape[0], sum(steps) + 3)
    outs = []
    with torch.no_grad():
        for part in x.split(steps, 1):
            outs.append(layer(part, cache=cache))
            assert cache.length == sum(out.shape[1] for out in outs)
    tails = [rows.storage[:, :, cache.length :] for rows in cache._kept]
    assert all(tail.numel() and tail.isnan().all() for tail in tails)
    return torch.cat(outs, 1)


def options_of(shape):
    return {} if shape.latent else {"rotary_base": 50.0, "bias": True}


@pytest.mark.parametrize("implementation", EAGER, ids=name_of)
@pytest.mark.parametrize("name", SHAPES)
def test_prefill_and_decode_steps_equal_one_full_pass(name, implementation):
    shape = SHAPES[name]
    layer, x = layer_of(shape, implementation, **options_of(shape)), tokens(2, 11, shape.d_model)
    if reasons_against(implementation, decode_problem(shape, 9, "float32"), "cpu"):
        # What it may not be asked for it must refuse, and not compute something else.
        with torch.no_grad(), pytest.raises(Unsupported):
            layer(x)
        return
    with torch.no_grad():
        expected = layer_of(shape, naive, **options_of(shape))(x)
    close(in_steps(layer, x, (5, 1, 1, 3, 1)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", COMPILED, ids=name_of)
@pytest.mark.parametrize("name", ["GQA", "window", "MLA"])
def test_compiled_steps_equal_one_full_pass(name, implementation):
    """Few: each length is compiled anew, in seconds. float32, as not all compile float64."""
    shape, dtype = SHAPES[name], torch.float32
    x = tokens(2, 5, shape.d_model, dtype=dtype)
    layer = layer_of(shape, implementation, dtype, **options_of(shape))
    with torch.no_grad():
        expected = layer_of(shape, naive, dtype, **options_of(shape))(x)
    found = in_steps(layer, x, (4, 1))
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    H_kv=st.integers(1, 3),
    group=st.integers(1, 3),
    half=st.integers(1, 4),
    window=st.none() | st.integers(1, 8),
    steps=st.lists(st.integers(1, 4), min_size=1, max_size=5),
)
def test_any_split_into_steps_equals_one_full_pass(H_kv, group, half, window, steps):
    shape = LayerShape(d_model=6, H=H_kv * group, H_kv=H_kv, d_h=2 * half, window=window)
    layer = layer_of(shape, "naive", decode_implementation="grouped_decode", rotary_base=30.0)
    x = tokens(1, sum(steps), 6)
    with torch.no_grad():
        cache = layer.new_cache(1, sum(steps))
        found = torch.cat([layer(part, cache=cache) for part in x.split(steps, 1)], 1)
        close(found, layer(x))


def test_bfloat16_steps_equal_the_full_pass_to_its_rounding():
    shape = SHAPES["GQA"]
    x = tokens(2, 9, shape.d_model).bfloat16()
    layer = layer_of(shape, "grouped_decode", torch.bfloat16, rotary_base=10000.0)
    exact = layer_of(shape, "naive", rotary_base=10000.0)
    exact.load_state_dict(layer.state_dict())
    with torch.no_grad():
        cache = layer.new_cache(2, 9)
        found = torch.cat([layer(part, cache=cache) for part in x.split((4, 1, 1, 3), 1)], 1)
        full, expected = layer(x), exact(x.double())
    # Both are rounded at the same places, so neither may be much further off than the other.
    error, full_error = ((one.double() - expected).abs().max() for one in (found, full))
    assert found.dtype == torch.bfloat16
    assert error <= 1.5 * full_error < 0.05


def test_decode_steps_go_to_the_implementation_named_for_them():
    seen = []

    def spying(name):
        def forward(q, k, v, **arguments):
            seen.append((name, q.shape[2], k.shape[2]))
            return naive.forward(q, k, v, **arguments)

        return replace(naive, name=name, forward=forward)

    layer = layer_of(SHAPES["GQA"], spying("first"), decode_implementation=spying("second"))
    x = tokens(1, 6, SHAPES["GQA"].d_model)
    with torch.no_grad():
        cache = layer.new_cache(1, 6)
        for part in x.split((4, 1, 1), 1):
            layer(part, cache=cache)
        layer(x)
    assert seen == [("first", 4, 4), ("second", 1, 5), ("second", 1, 6), ("first", 6, 6)]
