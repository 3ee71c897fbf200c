"""The conformance run calls again in the same memory, and at lengths beyond a few blocks."""

from __future__ import annotations

import pytest
import torch

from impls.interface.attention import Capabilities, Implementation
from impls.interface.conformance import conformance
from impls.interface.conformance_cases import cases
from tests.test_conformance import attention

LONG = [case for case in cases() if case.subject == "long"]
KEPT = "it gave the result of values that were there before"


def key_of(q, k, v, arguments):
    addresses = (q.data_ptr(), k.data_ptr(), v.data_ptr())
    return (*addresses, q.shape, v.shape, q.dtype, *arguments.values())


def right(q, k, v, **arguments):
    return attention(q, k, v, **arguments)[0]


def keeping_results():
    """By address; a gradient that is asked for has it compute."""
    kept = {}

    def forward(q, k, v, **arguments):
        if q.requires_grad:
            return right(q, k, v, **arguments)
        key = key_of(q, k, v, arguments)
        # The tensors too: their memory is not given to others.
        return kept.setdefault(key, (right(q, k, v, **arguments), q, k, v))[0]

    return forward


def keeping_keys():
    """A copy of k, by its address: the shape of a transposed or packed key that is made once."""
    kept = {}

    def forward(q, k, v, **arguments):
        copy = kept.setdefault((k.data_ptr(), k.shape, k.dtype), (k.detach().clone(), k))[0]
        return right(q, copy + (k - k.detach()), v, **arguments)

    return forward


def one_buffer():
    buffers = {}

    def forward(q, k, v, **arguments):
        out = right(q, k, v, **arguments)
        if q.requires_grad:
            return out
        return buffers.setdefault((out.shape, out.dtype), torch.empty_like(out)).copy_(out)

    return forward


def one_buffer_of_gradients():
    buffers = {}

    class Buffered(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v.clone()

        @staticmethod
        def backward(ctx, *gradients):
            (d_v,) = gradients
            return buffers.setdefault((d_v.shape, d_v.dtype), torch.empty_like(d_v)).copy_(d_v)

    return lambda q, k, v, **arguments: right(q, k, Buffered.apply(v), **arguments)


def wrong_of(forward, matrix=()):
    planted = Implementation("planted", forward, "", Capabilities(needs=("backward",)))
    return conformance(planted, "cpu", matrix=matrix).of("wrong")


@pytest.mark.parametrize(
    ("made", "ask", "told"),
    [
        (keeping_results, "output", KEPT),
        (keeping_keys, "output", "out: off by "),
        (keeping_keys, "gradients", "out: off by "),
        (one_buffer, "output", "out of an earlier call changed with the next call"),
        (one_buffer_of_gradients, "gradients", "dv of an earlier call changed"),
    ],
)
def test_what_is_kept_or_taken_back_between_calls_is_wrong_and_named(made, ask, told):
    found = [o for o in wrong_of(made()) if o.ask == ask]
    assert found and all(o.case.startswith("other values in the same memory: ") for o in found)
    assert all(o.reasons[0].startswith(told) for o in found)


def test_a_buffer_of_its_own_for_every_address_is_no_excuse():
    """Its results differ between two tensors, and not between two values of one tensor."""
    buffers = {}

    def forward(q, k, v, **arguments):
        out = right(q, k, v, **arguments)
        if q.requires_grad:
            return out
        buffer, _ = buffers.setdefault(key_of(q, k, v, arguments), (torch.empty_like(out), q))
        return buffer.copy_(out)

    assert {o.ask for o in wrong_of(forward)} == {"output"}


def test_what_is_kept_by_version_is_right_where_autograd_is_told_of_changes():
    """It is only ever wrong for who writes past autograd, as the check after timing does."""
    kept = {}

    def forward(q, k, v, **arguments):
        if q.requires_grad:
            return right(q, k, v, **arguments)
        key = (*key_of(q, k, v, arguments), q._version, k._version, v._version)
        return kept.setdefault(key, (right(q, k, v, **arguments), q, k, v))[0]

    assert wrong_of(forward) == []


def test_the_definition_is_right_at_length_and_in_one_memory():
    assert wrong_of(right, LONG) == []


@pytest.mark.parametrize("longest", [300, 512, 1000])
@pytest.mark.parametrize("which", ["T_q", "T_kv"])
def test_what_is_wrong_beyond_a_length_alone_is_wrong(which, longest):
    def forward(q, k, v, **arguments):
        out = right(q, k, v, **arguments)
        if {"T_q": q, "T_kv": k}[which].shape[2] <= longest:
            return out
        is_spoiled = torch.arange(q.shape[2]) == 137 % q.shape[2]
        return out.masked_fill(is_spoiled[:, None], 0.0)

    assert wrong_of(forward, LONG)


class InOrder(torch.autograd.Function):
    """Its backward reads the gradient as it lies in memory, taken for contiguous."""

    @staticmethod
    def forward(ctx, out):
        return out.clone()

    @staticmethod
    def backward(ctx, *gradients):
        (given,) = gradients
        room = given.untyped_storage().nbytes() // given.element_size()
        read = torch.zeros(given.numel())
        read[:room] = given.as_strided((room,), (1,), 0)
        return read.view(given.shape)


def test_a_gradient_that_is_taken_for_contiguous_is_wrong():
    """flash-attention#355, xformers#282: `out.sum()` sends one number, with strides of 0."""

    def forward(q, k, v, **arguments):
        return InOrder.apply(right(q, k, v, **arguments))

    matrix = [case for case in cases() if case.subject == "strides"]
    found = conformance(Implementation("in order", forward, ""), "cpu", matrix=matrix)
    wrong = [o for o in found.of("wrong") if o.case.startswith("strides")]
    assert {o.case.split(", ")[-1] for o in wrong} == {"gradient of a sum", "gradient turned"}
    assert {o.ask for o in wrong} == {"gradients"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_denominator_that_is_summed_in_16_bits_is_wrong(dtype):
    """Of ones the sum stays at 2048, or at 256 (tract PR#2586, candle#3727)."""

    def forward(q, k, v, causal=False, **arguments):
        out = right(q, k, v, causal=causal, **arguments)
        if q.dtype != dtype or q.requires_grad:
            return out
        groups = q.shape[1] // k.shape[1]
        scores = q.float() @ k.float().repeat_interleave(groups, 1).mT / q.shape[-1] ** 0.5
        terms = torch.exp(scores - scores.amax(-1, keepdim=True)).to(dtype)
        summed = torch.zeros_like(terms[..., 0])
        for j in range(terms.shape[-1]):
            summed += terms[..., j]
        return out * (terms.sum(-1, dtype=torch.float32) / summed)[..., None].to(dtype)

    wrong = wrong_of(forward, LONG)
    assert wrong and all(str(dtype).removeprefix("torch.") in o.case for o in wrong)
