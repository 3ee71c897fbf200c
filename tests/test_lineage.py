"""Operators that are not softmax attention, each against its formula, derived once more here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls.interface.registry import implementations
from impls.layer import additive as additive_module
from impls.layer import linear as linear_module
from impls.layer import multiplicative as multiplicative_module
from impls.layer.lineage import Operator, operators
from impls.naive import naive
from tests.layers import close, tokens

FORWARDS = {
    "additive": additive_module.forward,
    "linear_chunked": linear_module.chunked,
    "linear_recurrent": linear_module.recurrent,
    "multiplicative": multiplicative_module.forward,
}
every = pytest.mark.parametrize("name", FORWARDS)


def inputs(B=2, H=3, T_q=5, T_kv=5, d_h=4, d_v=4, dtype=torch.float64):
    shapes = ((B, H, T_q, d_h), (B, H, T_kv, d_h), (B, H, T_kv, d_v))
    return [tokens(*shape, seed=seed).to(dtype) for seed, shape in enumerate(shapes)]


def operator(name) -> Operator:
    return operators()[implementations()[name].operator]


def drawn(name, d_h=4, dtype=torch.float64) -> dict[str, Any]:
    weights = operator(name).weights(d_h, torch.Generator().manual_seed(3))
    return {key: weight.to(dtype) for key, weight in weights.items()}


def by_hand(name, q, k, v, weights, causal):
    """One number at a time, with Python's own arithmetic."""
    (B, H, T_q, d), (T_kv, d_v) = q.shape, v.shape[2:]
    W = {key: weight.tolist() for key, weight in weights.items()}
    out = torch.zeros(B, H, T_q, d_v, dtype=torch.float64)

    def phi(x):
        return x + 1.0 if x > 0 else math.exp(x)

    def weight_of(a, b):
        if name == "additive":
            hidden = [
                sum(W["W_q"][r][c] * a[c] + W["W_k"][r][c] * b[c] for c in range(d))
                for r in range(d)
            ]
            return math.exp(sum(W["w"][r] * math.tanh(hidden[r]) for r in range(d)))
        if name == "multiplicative":
            return math.exp(sum(a[r] * W["W"][r][c] * b[c] for r in range(d) for c in range(d)))
        return sum(phi(x) * phi(y) for x, y in zip(a, b, strict=True))

    for b in range(B):
        for h in range(H):
            for i in range(T_q):
                keys = range(T_kv) if not causal else range(max(0, i + 1 + T_kv - T_q))
                found = [weight_of(q[b, h, i].tolist(), k[b, h, j].tolist()) for j in keys]
                for weight, j in zip(found, keys, strict=True):
                    out[b, h, i] += weight / sum(found) * v[b, h, j]
    return out


SIZES = ((5, 5), (1, 6), (3, 7), (7, 3), (4, 1))


@every
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("T_q", "T_kv"), SIZES)
def test_forward_and_formula_are_what_is_written(name, T_q, T_kv, causal):
    weights, formula = drawn(name), operator(name).formula
    q, k, v = inputs(T_q=T_q, T_kv=T_kv, d_v=2)
    expected = by_hand(name, q, k, v, weights, causal)
    for computed in (FORWARDS[name], formula):
        close(computed(q, k, v, causal=causal, **weights), expected)
    some = torch.tensor([T_q - 1, 0])
    close(formula(q, k, v, causal=causal, rows=some, **weights), expected[:, :, some])


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.integers(1, 9))
def test_chunks_and_recurrence_are_one_operator(T_q, T_kv, causal, chunk):
    q, k, v = inputs(B=1, H=2, T_q=T_q, T_kv=T_kv)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_module, "CHUNK", chunk)
        chunked = linear_module.chunked(q, k, v, causal=causal)
    recurrent = linear_module.recurrent(q, k, v, causal=causal)
    close(chunked, recurrent)
    expected = linear_module.formula(q, k, v, causal=causal)
    close(chunked, expected)


def test_a_state_stands_for_all_keys_seen():
    """Decoding keeps (d_h + 1)·d_v numbers a head, whatever T is."""
    _, k, v = inputs(T_kv=50)
    keys = linear_module.feature_map(k)
    state = linear_module.State(torch.zeros(2, 3, 4, 4).double(), torch.zeros(2, 3, 4).double())
    for j in range(50):
        state = linear_module.step(state, keys[:, :, j], v[:, :, j])
    close(state.S, keys.mT @ v)
    close(state.z, keys.sum(2))


@pytest.mark.parametrize("causal", [False, True])
def test_multiplicative_with_a_scaled_identity_is_softmax_attention(causal):
    q, k, v = inputs()
    W = torch.eye(4, dtype=torch.float64) / 2.0
    found = multiplicative_module.forward(q, k, v, W=W, causal=causal)
    close(found, naive.forward(q, k, v, causal=causal))


@every
def test_it_computes_something_else_than_softmax_attention(name):
    q, k, v = inputs()
    found = FORWARDS[name](q, k, v, **drawn(name))
    assert (found - naive.forward(q, k, v)).abs().max() > 0.01


def test_every_operator_of_the_folder_is_found():
    assert {"additive", "linear", "multiplicative"} <= set(operators())
    assert all(
        name == one.name and one.computes and one.source for name, one in operators().items()
    )


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_dtypes_are_as_close_as_they_can_be(name, dtype):
    weights = drawn(name, dtype=dtype)
    q, k, v = inputs(T_q=70, T_kv=70, dtype=dtype)
    exact = {key: weight.double() for key, weight in weights.items()}
    expected = operator(name).formula(*(t.double() for t in (q, k, v)), causal=True, **exact)
    found = FORWARDS[name](q, k, v, causal=True, **weights)
    assert found.dtype == dtype
    limit = 8 * torch.finfo(dtype).eps * float(expected.abs().max())
    assert (found.double() - expected).abs().max() <= limit


@pytest.mark.parametrize("name", ["linear_chunked", "linear_recurrent"])
def test_a_long_sum_does_not_stall_in_16_bits(name):
    """Beyond 256 a bfloat16 sum of ones stays where it is: sums are kept in float32."""
    q, k, v = inputs(1, 1, 600, 600, dtype=torch.bfloat16)
    v = v.abs()
    expected = linear_module.formula(*(t.double() for t in (q, k, v)), causal=True)
    error = (FORWARDS[name](q, k, v, causal=True).double() - expected).abs()
    assert (error <= 0.51 * torch.finfo(torch.bfloat16).eps * expected.abs() + 1e-5).all()


@every
@pytest.mark.parametrize(("T_q", "T_kv"), [(3, 3), (3, 2)])
def test_gradients_are_those_of_finite_differences(name, T_q, T_kv):
    weights = drawn(name, 2)
    tensors = [t.requires_grad_() for t in inputs(1, 1, T_q, T_kv, 2, 2)]
    keys = list(weights)
    more = [weights[key].requires_grad_() for key in keys]

    def call(q, k, v, *given):
        return FORWARDS[name](q, k, v, causal=True, **dict(zip(keys, given, strict=True)))

    assert torch.autograd.gradcheck(call, (*tensors, *more))


def test_additive_scores_by_parts_are_the_same(monkeypatch):
    q, k, v = inputs(T_q=7)
    whole = additive_module.forward(q, k, v, **drawn("additive"))
    monkeypatch.setattr(additive_module, "HIDDEN_ELEMENTS", 2 * k.numel())
    assert torch.equal(additive_module.forward(q, k, v, **drawn("additive")), whole)
