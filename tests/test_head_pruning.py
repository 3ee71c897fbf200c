"""A pruned layer computes what the kept heads add up to, and does only their work."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls.interface.layer_cost import biases, weights
from impls.interface.layer_shape import LayerShape
from impls.layer.head_pruning import pruned
from impls.naive import naive
from tests.layers import close, layer_of, tokens

pytestmark = pytest.mark.filterwarnings("ignore:d_model=.*is below 16")


def masked(layer, x, keep):
    """The whole layer, the output of the heads not kept set to 0 before it is projected."""
    attended = layer.core(layer.project(x))
    return layer.output(attended * torch.tensor(keep)[:, None, None])


OPTIONS = {
    "plain": {},
    "bias": {"bias": True},
    "fused": {"bias": True, "fused_qkv": True},
    "rotary": {"rotary_base": 20.0},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(
    ("H_kv", "keep"),
    [
        (6, [True, False, True, True, False, False]),
        (6, [False] * 5 + [True]),
        (2, [True, False, True, False, True, True]),
        (2, [False, False, False, True, True, True]),
        (3, [False, True, True, False, False, False]),
        (1, [True, True, False, False, True, True]),
        (1, [True] * 6),
    ],
)
def test_the_kept_heads_add_up_to_the_same(H_kv, keep, options):
    layer = layer_of(LayerShape(d_model=10, H=6, H_kv=H_kv, d_h=4, window=4), **options)
    x = tokens(2, 7, 10)
    with torch.no_grad():
        found = pruned(layer, keep)(x)
        close(found, masked(layer, x, keep))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_any_mask_is_pruned_right_or_refused(groups):
    keep = [flag for group in groups for flag in group]
    layer = layer_of(LayerShape(d_model=6, H=len(keep), H_kv=len(groups), d_h=2), bias=True)
    x = tokens(1, 4, 6)
    counts = {sum(group) for group in groups if any(group)}
    if len(counts) != 1:
        with pytest.raises(ValueError):
            pruned(layer, keep)
        return
    smaller = pruned(layer, torch.tensor(keep))
    assert (smaller.shape.H, smaller.shape.H_kv) == (sum(keep), sum(map(any, groups)))
    with torch.no_grad():
        close(smaller(x), masked(layer, x, keep))


def test_the_work_is_really_gone():
    """Parameters and the core's inputs are those of a layer with half the heads."""
    seen = []

    def forward(q, k, v, **arguments):
        seen.append((q.shape, k.shape, v.shape))
        return naive.forward(q, k, v, **arguments)

    shape = LayerShape(d_model=64, H=4, H_kv=2)
    layer = layer_of(shape, replace(naive, name="spy", forward=forward), bias=True)
    half = pruned(layer, [True, True, False, False])
    smaller = LayerShape(d_model=64, H=2, H_kv=1, d_h=16)
    assert half.shape == smaller
    assert sum(p.numel() for p in half.parameters()) == weights(smaller) + biases(smaller)
    with torch.no_grad():
        half(tokens(1, 5, 64))
    assert seen == [((1, 2, 5, 16), (1, 1, 5, 16), (1, 1, 5, 16))]


def test_the_cache_shrinks_with_its_heads_and_decodes():
    layer = layer_of(LayerShape(d_model=12, H=6, H_kv=3, d_h=4), rotary_base=9.0)
    keep = [True, True, False, False, True, True]
    half, x = pruned(layer, keep), tokens(2, 6, 12)
    with torch.no_grad():
        cache = half.new_cache(2, 6)
        found = torch.cat([half(part, cache=cache) for part in x.split((3, 1, 2), 1)], 1)
        close(found, masked(layer, x, keep))
    assert 3 * cache.bytes == 2 * layer.new_cache(2, 6).bytes


def test_the_layer_itself_is_left_as_it_was():
    layer, x = layer_of(LayerShape(d_model=12, H=6, d_h=4)), tokens(1, 3, 12)
    with torch.no_grad():
        before = layer(x)
        pruned(layer, [True] * 3 + [False] * 3).o_proj.weight.zero_()
        assert torch.equal(layer(x), before)


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ([True] * 5, r"\(5,\): give H=6 bools"),
        ([1, 1, 1, 0, 0, 0], "int64"),
        ([False] * 6, "no head of H=6 is kept"),
        ([True, True, False, True, False, False], "serve 2, 1 query heads"),
    ],
)
def test_what_cannot_be_pruned_is_refused(keep, words):
    layer = layer_of(LayerShape(d_model=12, H=6, H_kv=2, d_h=4))
    with pytest.raises(ValueError, match=words):
        pruned(layer, keep)
