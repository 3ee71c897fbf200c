"""Prefill and then steps of decoding give what one full causal pass gives, whoever computes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.check import poisoned_empty
from impls.interface.layer_cost import decode_problem
from impls.interface.layer_shape import LayerShape
from impls.naive import naive
from tests.layers import SHAPES, close, decoding, layer_of, tokens

pytestmark = pytest.mark.filterwarnings("ignore:d_model=.*is below 16")


def _marked(implementation):
    """Compiling for every length takes minutes."""
    marks = [pytest.mark.slow] if implementation.needs_compiler else []
    return pytest.param(implementation, id=implementation.name, marks=marks)


def test_every_implementation_that_claims_decode_is_tried():
    eager = {i.name for i in decoding() if not i.needs_compiler}
    assert eager == {"naive", "chunked", "sdpa_math", "sdpa_flash", "grouped_decode"}


def _cannot(implementation, shape):
    """What it says against the shape's decode step, for what it may not be asked to do."""
    return reasons_against(implementation, decode_problem(shape, 9, "float32"), "cpu")


@pytest.mark.parametrize("implementation", [_marked(one) for one in decoding()])
@pytest.mark.parametrize("name", SHAPES)
def test_prefill_and_decode_steps_equal_one_full_pass(name, implementation):
    shape = SHAPES[name]
    dtype = torch.float32 if implementation.needs_compiler else torch.float64
    options = {} if shape.latent else {"rotary_base": 50.0, "bias": name == "GQA"}
    if _cannot(implementation, shape):
        # Refused is not skipped: it must say so itself, and not compute something else.
        layer = layer_of(shape, implementation, **options)
        with torch.no_grad(), pytest.raises(Unsupported):
            layer(tokens(2, 5, shape.d_model))
        return
    T, T_max = 11, 14
    x = tokens(2, T, shape.d_model, dtype=dtype)
    full = layer_of(shape, naive, dtype, **options)
    layer = layer_of(shape, implementation, dtype, **options)
    with torch.no_grad():
        expected = full(x)
        with poisoned_empty():
            cache = layer.new_cache(2, T_max)
        outs, at = [], 0
        for step in (5, 1, 1, 3, 1):
            outs.append(layer(x[:, at : at + step], cache=cache))
            at += step
            assert cache.length == at
    rest = [rows.storage[:, :, T:] for rows in cache._kept]
    assert all(tail.numel() and tail.isnan().all() for tail in rest), "the tail is poisoned"
    found = torch.cat(outs, 1)
    if dtype == torch.float64:
        close(found, expected)
    else:
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
