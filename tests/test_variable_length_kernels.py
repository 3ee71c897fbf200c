"""What CUDA's kernels for variable lengths are handed, without a GPU: offsets, masks, layouts."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from impls import torch_varlen as varlen_module
from impls.flex import BLOCK, _mask_of_sequences, flex
from impls.interface.attention import Unsupported, reasons_against
from impls.interface.check import check_output
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference
from impls.torch_varlen import torch_varlen
from impls.xformers_attention import (
    bias_of_lengths,
    xformers_cutlass,
    xformers_flash,
    xformers_splitk,
)
from tests.brute_force import brute_force

needs_xformers = pytest.mark.skipif(
    importlib.util.find_spec("xformers") is None, reason="xformers is not installed"
)
BATCHES = (
    "lengths=5+1+9,H=2,d_h=8",
    "lengths=5+1+9,H=4,H_kv=2,d_h=8,causal,bthd",
    "lengths=3x1,lengths_kv=7+1+4,H=2,d_h=8,causal",
    "lengths=4+2,lengths_kv=9+5,H=2,d_h=8,causal,window=3",
)


def varlen_attn(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1), enable_gqa=False
):
    """As torch documents it, by the definition: (Σ T, H, d), causal where the right side is 0."""
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    lengths, of_keys = cu_seq_q.diff().tolist(), cu_seq_k.diff().tolist()
    assert (max_q, max_k) == (max(lengths), max(of_keys))
    assert enable_gqa == (query.shape[1] != key.shape[1])
    causal = window_size[1] == 0
    window = window_size[0] + 1 if window_size[0] >= 0 else None
    parts = zip(query.split(lengths), key.split(of_keys), value.split(of_keys), strict=True)
    outs = [
        brute_force(*(t.transpose(0, 1)[None] for t in one), causal=causal, window=window)[0]
        for one in parts
    ]
    return torch.cat([out[0].transpose(0, 1) for out in outs]).to(query.dtype)


def older_varlen_attn(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None
):
    """As in torch 2.10: causal by a word, no window, no grouped heads."""
    window_size = (-1, 0 if is_causal else -1)
    return varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, window_size=window_size)


@pytest.mark.parametrize("text", BATCHES)
def test_torchs_own_is_handed_each_sequence(text, monkeypatch):
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    problem = Problem.parse(text)
    inputs = make_inputs(problem, "cpu")
    forward = torch_varlen.prepared(problem, "cpu")
    assert forward is not None
    out = forward(inputs.q, inputs.k, inputs.v)
    assert check_output(out, None, None, reference(inputs, problem)).ok


def test_an_older_torch_is_asked_in_its_words_and_what_it_lacks_is_told(monkeypatch):
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", older_varlen_attn)
    problem = Problem.parse("lengths=5+1+9,H=2,d_h=8,causal")
    inputs = make_inputs(problem, "cpu")
    forward = torch_varlen.prepared(problem, "cpu")
    assert forward is not None
    out = forward(inputs.q, inputs.k, inputs.v)
    assert check_output(out, None, None, reference(inputs, problem)).ok
    more = problem.with_(window=3, H=4, dtype="float16")
    assert reasons_against(torch_varlen, more, "cuda") == [
        "a sliding window is not supported by this torch",
        "H_kv=2 differs from H=4, not with this torch",
    ]


def test_torchs_own_is_for_such_batches_alone_and_for_cuda(monkeypatch):
    dense = Problem.parse("T=9,H=2,d_h=8,float16")
    assert reasons_against(torch_varlen, dense, "cuda") == ["only for variable-length batches"]
    packed = Problem.parse("lengths=5+1+9,H=2,d_h=8,float16")
    assert reasons_against(torch_varlen, packed, "cuda") == []
    assert reasons_against(torch_varlen, packed, "cpu") == ["does not run on cpu (only cuda)"]
    q = torch.zeros(1, 2, 9, 8)
    with pytest.raises(Unsupported, match="only for variable-length"):
        torch_varlen.forward(q, q, q)
    monkeypatch.setattr(varlen_module, "_MODULE", "torch.nn.attention.nowhere")
    assert "has no torch.nn.attention.nowhere" in varlen_module.unavailable("cuda")[0]


@needs_xformers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", BATCHES)
def test_xformers_mask_shows_each_sequence_its_own_keys(text):
    """Materialised by xformers itself; what is seen is what the definition says."""
    problem = Problem.parse(text)
    whole = problem.joined
    mask = bias_of_lengths(problem, "cpu").materialize((whole.T_q, whole.T_kv))
    seen = torch.zeros(whole.T_q, whole.T_kv, dtype=torch.bool)
    q_start = kv_start = 0
    for one in problem.sequences:
        for i in range(one.T_q):
            for j in range(one.T_kv):
                last = i + one.T_kv - one.T_q
                is_seen = not one.causal or j <= last
                is_seen &= one.window is None or j > last - one.window
                seen[q_start + i, kv_start + j] = is_seen
        q_start, kv_start = q_start + one.T_q, kv_start + one.T_kv
    assert torch.equal(mask == 0, seen)


def test_xformers_says_what_it_cannot_do_of_such_batches():
    packed = Problem.parse("lengths=5+1+9,H=2,d_h=16,float16")
    for one in (xformers_cutlass, xformers_flash):
        assert reasons_against(one, packed, "cuda") == []
        more_queries = Problem.parse("lengths=5+1,lengths_kv=5+0,H=2,d_h=16,float16")
        assert "a query sees no key" in reasons_against(one, more_queries, "cuda")
    assert "variable-length batches are not supported" in reasons_against(
        xformers_splitk, packed, "cuda"
    )


@pytest.mark.parametrize(
    "text",
    [
        "lengths=300+1+0+130+128,H=1,d_h=16",
        "lengths=300+1+0+130+128,H=1,d_h=16,causal",
        "lengths=256+128,H=1,d_h=16,causal",
        "lengths=300+40,H=1,d_h=16,causal,window=70",
        "lengths=3x1,lengths_kv=200+0+129,H=1,d_h=16,causal",
        "lengths=200+150,lengths_kv=100+300,H=1,d_h=16,causal",
    ],
)
def test_the_blocks_of_flex_and_its_function_show_what_is_seen(text):
    """A block left out hides all of its pairs, a full one hides none, the others ask each pair."""
    problem = Problem.parse(text)
    mask, whole = _mask_of_sequences(problem, "cpu"), problem.joined
    seen = torch.zeros(whole.T_q, whole.T_kv, dtype=torch.bool)
    q_start = kv_start = 0
    for one in problem.sequences:
        sees = torch.ones(one.T_q, one.T_kv, dtype=torch.bool)
        if one.causal:
            sees = sees.tril(one.T_kv - one.T_q)
        if one.window is not None:
            sees &= ~sees.tril(one.T_kv - one.T_q - one.window)
        seen[q_start : q_start + one.T_q, kv_start : kv_start + one.T_kv] = sees
        q_start, kv_start = q_start + one.T_q, kv_start + one.T_kv
    i, j = torch.arange(whole.T_q)[:, None], torch.arange(whole.T_kv)[None, :]
    by_function = mask.mask_mod(0, 0, i, j).expand_as(seen)
    assert torch.equal(by_function, seen)
    kinds = {}
    for kind, counts, indices in (
        ("partial", mask.kv_num_blocks, mask.kv_indices),
        ("full", mask.full_kv_num_blocks, mask.full_kv_indices),
    ):
        for row in range(counts.shape[-1]):
            for n in range(int(counts[0, 0, row])):
                kinds[row, int(indices[0, 0, row, n])] = kind
    for row in range(-(-whole.T_q // BLOCK)):
        for column in range(-(-whole.T_kv // BLOCK)):
            rows = slice(row * BLOCK, (row + 1) * BLOCK)
            part = seen[rows, column * BLOCK : (column + 1) * BLOCK]
            kind = kinds.get((row, column))
            is_whole = bool(part.all()) and part.numel() == BLOCK**2
            assert kind is not None or not part.any()
            assert kind != "full" or is_whole
            # What is seen whole should not be asked pair by pair, nor what is not seen at all.
            assert kind != "partial" or (part.any() and not is_whole)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["lengths=300+1+0+130,H=4,H_kv=2,d_h=16,causal,bthd"])
def test_flex_compiled_is_right_of_sequences(text):
    problem = Problem.parse(text)
    inputs = make_inputs(problem, "cpu")
    forward = flex.prepared(problem, "cpu")
    assert forward is not None
    with torch.no_grad():
        out = forward(inputs.q, inputs.k, inputs.v)
    assert check_output(out, None, None, reference(inputs, problem, gradients=False)).ok
