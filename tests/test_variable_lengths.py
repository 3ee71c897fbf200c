"""Variable-length batches: their names, their work, and what each implementation makes of them."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from impls.interface import cost
from impls.interface.attention import reasons_against
from impls.interface.availability import availability
from impls.interface.check import check_output
from impls.interface.inputs import Inputs, make_inputs
from impls.interface.problem import PASSES, Problem
from impls.interface.reference import reference
from impls.interface.registry import implementations
from impls.interface.sequence_lengths import (
    shorten,
)
from impls.interface.sequences import offsets, seen_keys
from tests.brute_force import brute_force

EVERY = implementations()
ABLE = [
    name
    for name, one in EVERY.items()
    if one.prepare_lengths is not None
    and not one.needs_compiler
    and "cpu" in one.capabilities.devices
    and one.proven_in == "device"
]
# Empty ones at the ends and within, length 1, equal ones, one very long, and a decode step each.
AWKWARD = (
    "lengths=0+5+0+1+7+0,H=2,d_h=8",
    "lengths=0+5+0+1+7+0,H=2,d_h=8,causal",
    "lengths=3x4,H=4,H_kv=2,d_h=8,causal,bthd",
    "lengths=6x1+70,H=2,d_h=16",
    "lengths=2+70+3,H=2,d_h=16,causal,packed",
    "lengths=9,H=2,d_h=8,causal",
    "lengths=4x1,lengths_kv=9+1+30+4,H=4,H_kv=1,d_h=8",
    "lengths=4x1,lengths_kv=9+1+30+4,H=2,d_h=8,causal,bthd",
    "lengths=3+2+6+4+2,lengths_kv=5+2+1+0+9,H=2,d_h=8,causal",
    "lengths=40+5+0+17,H=2,d_h=8,causal,window=3",
    "lengths=12+33+1,H=2,d_h=8,bfloat16",
)


def asked(text: str) -> Problem:
    return Problem.parse(text)


some_lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@st.composite
def batches(draw) -> Problem:
    lengths = draw(some_lengths)
    of_keys = draw(st.none() | st.lists(st.integers(0, 6), min_size=len(lengths), max_size=20))
    is_causal = draw(st.booleans())
    return Problem.of_lengths(
        lengths,
        None if of_keys is None else of_keys[: len(lengths)],
        H=4,
        H_kv=2,
        d_h=5,
        d_v=3,
        causal=is_causal,
        window=draw(st.none() | st.integers(1, 4)) if is_causal else None,
        layout=draw(st.sampled_from(("bhtd", "bthd"))),
    )


def pairs_of(problem: Problem) -> list[tuple[int, int]]:
    """The visible pairs of the joined tensors, by the definition, sequence by sequence."""
    assert problem.lengths is not None
    found, q_start, kv_start = [], 0, 0
    for T_q, T_kv in zip(problem.lengths, problem.lengths_kv or problem.lengths, strict=True):
        for i in range(T_q):
            for j in range(T_kv):
                last = i + T_kv - T_q
                is_seen = not problem.causal or j <= last
                if problem.window is not None:
                    is_seen &= j > last - problem.window
                found += [(q_start + i, kv_start + j)] if is_seen else []
        q_start, kv_start = q_start + T_q, kv_start + T_kv
    return found


# Names and records.


@given(batches())
def test_a_batch_is_read_back_from_its_name_and_from_its_record(problem):
    assert Problem.parse(problem.id) == problem
    assert Problem.from_json(json.loads(json.dumps(problem.to_json()))) == problem
    assert problem.id.isascii() and hash(problem) == hash(Problem.parse(problem.id))


def test_lengths_are_part_of_what_a_problem_is():
    dense, packed = asked("B=2,T=5,H=2,d_h=8"), asked("lengths=5+5,H=2,d_h=8")
    assert (packed.B, packed.T_q, packed.T_kv) == (2, 5, 5)
    assert packed != dense and packed.id == "lengths=2x5,H=2,d_h=8,float32"
    assert asked("lengths=5+3,H=2,d_h=8") != asked("lengths=3+5,H=2,d_h=8")
    # One spelling for one problem, or one cell would have two identities.
    assert asked("lengths=5+3,lengths_kv=5+3,H=2,d_h=8").id == asked("lengths=5+3,H=2,d_h=8").id
    # What was measured before there were such batches keeps its identity.
    assert not {"lengths", "lengths_kv"} & set(dense.to_json())


def test_an_id_that_is_read_and_not_typed_has_no_list_of_lengths():
    assert shorten("lengths=3x16,H=2") == "lengths=3x16,H=2"
    assert shorten("lengths=9x1,lengths_kv=9+8+7+6+5+4+3+2+1,H=2") == (
        "lengths=9x1,lengths_kv=9 of 1…9,H=2"
    )
    assert shorten("B=1,T=8,H=2") == "B=1,T=8,H=2"


# Work.


@given(batches(), st.sampled_from(PASSES))
def test_work_is_counted_by_real_lengths_one_pair_at_a_time(problem, pass_):
    N, H = len(pairs_of(problem)), problem.H
    found = cost.cost(problem, pass_)
    multiply_adds = sum(problem.d_h + problem.d_v for _ in range(H) for _ in range(N))
    assert found.pairs == N
    assert found.flop == {"forward": 2, "backward": 5, "forward_backward": 7}[pass_] * multiply_adds
    assert found.exp == (2 if pass_ == "forward_backward" else 1) * H * N


@given(batches())
def test_bytes_are_those_of_the_tensors_without_padding(problem):
    inputs = make_inputs(problem, "cpu")
    tensors = (inputs.q, inputs.k, inputs.v, inputs.d_out)
    if problem.window is None:
        n_bytes = sum(t.numel() * t.element_size() for t in tensors)
        assert cost.compulsory_bytes(problem) == n_bytes
    # Of a window the sequences are counted one by one, as cost counts each alone.
    each = [cost.compulsory_bytes(one, "backward") for one in problem.sequences]
    assert cost.compulsory_bytes(problem, "backward") == sum(each)


def test_a_batch_of_equal_lengths_is_the_work_of_the_dense_one():
    for pass_ in PASSES:
        for word in ("causal", "full"):
            dense = cost.cost(asked(f"B=7,T=13,H=4,H_kv=2,d_h=8,{word}"), pass_, "fa")
            packed = cost.cost(asked(f"lengths=7x13,H=4,H_kv=2,d_h=8,{word}"), pass_, "fa")
            assert (packed.flop, packed.exp) == (dense.flop, dense.exp)
            assert packed.compulsory_bytes == dense.compulsory_bytes


def test_how_much_of_the_padded_batch_is_filled():
    assert asked("lengths=8+4+4,H=1,d_h=4").filled == pytest.approx(16 / 24)
    assert asked("lengths=3x4,H=1,d_h=4").filled == 1 == asked("B=3,T=4,H=1,d_h=4").filled
    assert asked("lengths=2x1,lengths_kv=10+30,H=1,d_h=4").filled == pytest.approx(40 / 60)


# What is right.


@given(batches())
def test_a_query_sees_one_run_of_keys_of_its_own_sequence(problem):
    first, stop = seen_keys(problem, "cpu")
    T_kv = problem.joined.T_kv
    seen = [(i, j) for i in range(len(first)) for j in range(T_kv) if first[i] <= j < stop[i]]
    assert seen == pairs_of(problem)


def test_offsets_are_those_that_libraries_take():
    assert offsets((3, 0, 5), "cpu").tolist() == [0, 3, 3, 8]
    assert offsets((3, 0, 5), "cpu").dtype == torch.int32


@settings(max_examples=8, deadline=None)
@given(batches())
def test_the_reference_is_each_sequence_by_itself(problem):
    if problem.is_empty or 0 in problem.joined.with_(window=None).to_json().values():
        return
    inputs = make_inputs(problem, "cpu")
    expected = reference(inputs, problem).outputs
    out, gradients = each_by_brute_force(problem, inputs)
    shown = [expected[n].value for n in ("out", "dq", "dk", "dv")]
    for found, wanted in zip(shown, (out, *gradients), strict=True):
        torch.testing.assert_close(found, wanted[0].double(), atol=1e-6, rtol=1e-6)


def each_by_brute_force(problem: Problem, inputs: Inputs):
    """Output and gradients of slices that know nothing of one another."""
    q, k, v = (t.detach().double().requires_grad_() for t in (inputs.q, inputs.k, inputs.v))
    outs, q_start, kv_start = [], 0, 0
    for one in problem.sequences:
        T_q, T_kv = one.T_q, one.T_kv
        part = q[:, :, q_start : q_start + T_q]
        keys, values = (t[:, :, kv_start : kv_start + T_kv] for t in (k, v))
        if T_q:
            arguments = {"causal": problem.causal, "window": problem.window}
            outs.append(brute_force(part, keys, values, **arguments)[0])
        q_start, kv_start = q_start + T_q, kv_start + T_kv
    out = torch.cat(outs, 2)
    gradients = torch.autograd.grad((out * inputs.d_out).sum(), (q, k, v), allow_unused=True)
    return out.detach(), [
        torch.zeros_like(t) if g is None else g for g, t in zip(gradients, (q, k, v), strict=True)
    ]


@pytest.mark.parametrize("text", AWKWARD)
@pytest.mark.parametrize("name", ABLE)
def test_output_and_gradients_are_right_of_awkward_lengths(name, text):
    implementation, problem = EVERY[name], asked(text)
    if against := reasons_against(implementation, problem, "cpu", ["backward"]):
        assert against == ["a sliding window is not supported"]
        return
    inputs = make_inputs(problem, "cpu")
    q, k, v = (t.detach().requires_grad_() for t in (inputs.q, inputs.k, inputs.v))
    forward = implementation.prepared(problem, "cpu")
    assert forward is not None
    out = forward(q, k, v)
    gradients = torch.autograd.grad(out, (q, k, v), inputs.d_out)
    found = check_output(out.detach(), None, gradients, reference(inputs, problem))
    assert found.ok, found.reasons


@pytest.mark.parametrize("name", ABLE)
@pytest.mark.parametrize("word", ["causal", "full"])
def test_no_sequence_sees_what_is_in_another(name, word):
    """NaN in all of one sequence leaves every bit of the others as it was."""
    problem = asked(f"lengths=5+9+1+12,H=2,d_h=16,{word}")
    inputs = make_inputs(problem, "cpu")
    forward = EVERY[name].prepared(problem, "cpu")
    assert forward is not None
    before = forward(inputs.q, inputs.k, inputs.v).clone()
    for start, stop in ((0, 5), (5, 14), (14, 15), (15, 27)):
        q, k, v = (t.clone() for t in (inputs.q, inputs.k, inputs.v))
        for tensor in (q, k, v):
            tensor[:, :, start:stop] = math.nan
        out = forward(q, k, v)
        others = torch.ones(27, dtype=torch.bool)
        others[start:stop] = False
        assert out[:, :, start:stop].isnan().all()
        assert torch.equal(out[:, :, others], before[:, :, others])


@pytest.mark.parametrize("name", ABLE)
def test_nothing_is_read_beyond_the_last_sequence(name):
    problem = asked("lengths=5+9,H=2,d_h=16")
    inputs = make_inputs(problem, "cpu")
    forward = EVERY[name].prepared(problem, "cpu")
    assert forward is not None
    before = forward(inputs.q, inputs.k, inputs.v)
    room = [torch.full((1, 2, 40, 16), math.nan) for _ in range(3)]
    q, k, v = (r[:, :, 13:27] for r in room)
    for into, tensor in zip((q, k, v), (inputs.q, inputs.k, inputs.v), strict=True):
        into.copy_(tensor)
    torch.testing.assert_close(forward(q, k, v), before)


def test_who_has_no_such_call_says_so_and_who_has_only_such_says_that():
    packed, dense = asked("lengths=5+9,H=2,d_h=16"), asked("T=9,H=2,d_h=16")
    why = "variable-length batches are not supported"
    assert reasons_against(EVERY["compiled_naive"], packed, "cpu") == [why]
    for name, one in EVERY.items():
        if one.prepare_lengths is None and one.operator == "softmax":
            assert why in reasons_against(one, packed, one.capabilities.devices[0]), name
    assert reasons_against(EVERY["naive_padded"], dense, "cpu") == [
        "only for variable-length batches"
    ]
    assert availability(EVERY["naive_padded"], "cpu") == []


def test_causal_alone_where_lengths_are_equal_is_judged_by_each_sequence():
    problem = asked("lengths=5+9,lengths_kv=9+5,H=2,d_h=16,causal")
    naive = EVERY["naive"]
    from dataclasses import replace

    square = replace(naive, capabilities=replace(naive.capabilities, causal_rectangular=False))
    assert reasons_against(square, problem, "cpu") == [
        "causal with T_q=5 and T_kv=9: only T_q = T_kv"
    ]


def test_memory_and_traffic_are_of_the_sequences_or_of_the_padded_batch():
    problem = asked("lengths=100+10,H=2,d_h=16")
    naive, padded = EVERY["naive"], EVERY["naive_padded"]
    assert naive.scratch_bytes is not None and padded.scratch_bytes is not None
    # S and P, float32: of 100² and 10² pairs, and of two times 100².
    assert naive.scratch_bytes(problem, "forward") == 2 * 4 * 2 * (100**2 + 10**2)
    # And q, k, v and the output, padded to 200 tokens.
    tensors = 4 * 200 * 2 * 16 * 4
    assert padded.scratch_bytes(problem, "forward") == 2 * 4 * 2 * 2 * 100**2 + tensors
    assert naive.algorithmic_bytes is not None and padded.algorithmic_bytes is not None
    assert naive.algorithmic_bytes(problem, "forward") < padded.algorithmic_bytes(
        problem, "forward"
    )
