"""The ONNX Runtime adapter without the library: what its operators are handed, from memory.

The stand-in reads and writes where a binding points to and computes in float64 what the operators'
documentation says, so that a wrong layout, size or attribute is a wrong result. `make cpu-rivals`
runs the library itself.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from impls import onnxruntime_attention
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.check import check_output
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference
from impls.onnxruntime_attention import onnxruntime

HANDED: list[tuple[str, dict[str, Any]]] = []


class Binding:
    def __init__(self):
        self.arrays: dict[str, np.ndarray] = {}

    def bind_input(self, name, device, number, dtype, shape, address):
        assert (device, number) == ("cpu", 0)
        size = int(np.prod(shape)) * dtype.itemsize
        memory = (ctypes.c_char * size).from_address(address)
        self.arrays[name] = np.frombuffer(memory, dtype).reshape(shape)

    bind_output = bind_input


class Session:
    """One node, (operator, inputs, outputs, attributes), computed by the plain formula."""

    def __init__(self, node, options, providers):
        assert providers == ["CPUExecutionProvider"]
        self.operator, self.attributes = node[0], node[3]
        self.threads = options.intra_op_num_threads

    def io_binding(self):
        return Binding()

    def run_with_iobinding(self, binding):
        HANDED.append((self.operator, {**self.attributes, "threads": self.threads}))
        given, can = binding.arrays, self.attributes
        H = can["num_heads"]
        H_kv = can.get("kv_num_heads", H)
        q, k, v = (
            given[name].astype(np.float64).reshape(*given[name].shape[:2], heads, -1).swapaxes(1, 2)
            for name, heads in (("query", H), ("key", H_kv), ("value", H_kv))
        )
        k, v = (x.repeat(H // H_kv, 1) for x in (k, v))
        s = q @ k.swapaxes(2, 3) * (can.get("scale") or q.shape[3] ** -0.5)
        if cap := can.get("softcap"):
            s = cap * np.tanh(s / cap)
        if self.operator == "GroupQueryAttention":
            T = q.shape[2]
            assert given["seqlens_k"].tolist() == [T - 1] * len(q)
            assert (int(given["total_sequence_length"]), k.shape[2]) == (T, T)
            distance = np.arange(T)[:, None] - np.arange(T)
            if can["causal"]:
                s = np.where(distance >= 0, s, -np.inf)
                s = np.where(distance < can.get("local_window_size", T), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        out = p / p.sum(-1, keepdims=True) @ v
        given["output"][:] = out.swapaxes(1, 2).reshape(given["output"].shape)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """`onnx` and `onnxruntime` as above; sessions of another test are forgotten."""

    class Options:
        def add_session_config_entry(self, key, value):
            assert (key, value) == ("session.force_spinning_stop", "1")

    def node(operator, inputs, outputs, domain, **attributes):
        assert domain == "com.microsoft"
        return operator, inputs, outputs, attributes

    helper = SimpleNamespace(
        make_node=node,
        make_graph=lambda nodes, name, inputs, outputs: nodes[0],
        make_model=lambda graph, **_: SimpleNamespace(SerializeToString=lambda: graph),
        make_tensor_value_info=lambda *_: None,
        make_opsetid=lambda *_: None,
    )
    kinds = SimpleNamespace(FLOAT=1, FLOAT16=10, INT32=6)
    for name, has in (
        ("onnx", {"helper": helper, "TensorProto": kinds}),
        ("onnxruntime", {"SessionOptions": Options, "InferenceSession": Session}),
    ):
        module = ModuleType(name)
        vars(module).update(has)
        monkeypatch.setitem(sys.modules, name, module)
    onnxruntime_attention._session.cache_clear()
    HANDED.clear()
    yield
    onnxruntime_attention._session.cache_clear()


def judged(text: str, **arguments: Any):
    """What attention of `text` gives, against float64."""
    problem = Problem.parse(text)
    inputs = make_inputs(problem, "cpu")
    out, _ = attend(
        onnxruntime,
        *(inputs.q, inputs.k, inputs.v),
        causal=problem.causal,
        window=problem.window,
        **arguments,
    )
    return check_output(out, None, None, reference(inputs, problem, **arguments))


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("B=2,T_q=17,T_kv=33,H=3,d_h=40,d_v=24", "MultiHeadAttention"),
        ("T=17,H=2,d_h=1", "MultiHeadAttention"),
        ("B=2,T=17,H=3,d_h=40,bthd", "MultiHeadAttention"),
        ("B=2,T=17,H=3,d_h=40,packed", "MultiHeadAttention"),
        ("B=2,T=63,H=6,H_kv=2,d_h=40", "GroupQueryAttention"),
        ("B=2,T=63,H=6,H_kv=1,d_h=40,causal", "GroupQueryAttention"),
        ("T=65,H=2,d_h=64,causal,window=17", "GroupQueryAttention"),
        ("T=17,H=2,d_h=64,float16", "GroupQueryAttention"),
    ],
)
def test_an_operator_is_handed_what_gives_the_float64_result(text: str, operator: str):
    check = judged(text)
    assert check.ok, check.reasons
    assert [name for name, _ in HANDED] == [operator]


def test_scale_and_softcap_reach_the_operator():
    for arguments, operator in (
        ({"scale": -0.2}, "MultiHeadAttention"),
        ({"scale": 0.3, "softcap": 1.5}, "GroupQueryAttention"),
    ):
        check = judged("T=17,H=2,d_h=64", **arguments)
        assert check.ok, check.reasons
        assert HANDED[-1][0] == operator
        assert HANDED[-1][1].items() >= arguments.items()


def test_it_computes_with_as_many_threads_as_torch(monkeypatch):
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        judged("T=17,H=2,d_h=64")
    assert [handed["threads"] for _, handed in HANDED] == [1, 3]


def test_the_result_is_written_into_memory_of_torch_and_a_session_is_made_once():
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        q, k, v = torch.randn(3, 1, 2, 17, 8)
        out = attend(onnxruntime, q, k, v, causal=True)[0]
        assert out.shape == (1, 2, 17, 8)
        # Row by row of tokens: what the operator wrote is not copied once more.
        assert out.transpose(1, 2).is_contiguous()
    assert onnxruntime_attention._session.cache_info().misses == 1


@pytest.mark.parametrize(
    ("text", "needs", "reason"),
    [
        ("T_q=17,T_kv=33,H=2,d_h=64,causal", (), "with T_q=17 and T_kv=33: only T_q = T_kv"),
        ("T_q=1,T_kv=33,H=4,H_kv=2,d_h=64", (), "with T_q=1 and T_kv=33: only T_q = T_kv"),
        ("T_q=5,T_kv=33,H=2,d_h=64", ("softcap",), "with T_q=5 and T_kv=33: only T_q = T_kv"),
        ("T=17,H=2,d_h=31,causal", (), "d_h=31 is not a multiple of 8"),
        ("T=17,H=2,d_h=64,d_v=32,causal", (), "d_v=32 differs from d_h=64"),
        ("T=17,H=2,d_h=64,bfloat16", (), "dtype bfloat16 is not supported"),
        ("T=17,H=2,d_h=64", ("lse",), "lse is not supported"),
        ("T=17,H=2,d_h=64", ("mask",), "mask is not supported"),
        ("T=17,H=2,d_h=64", ("backward",), "backward is not supported"),
    ],
)
def test_what_it_lacks_is_told_before_and_refused_in_the_call(text, needs, reason):
    problem = Problem.parse(text)
    assert any(reason in why for why in reasons_against(onnxruntime, problem, "cpu", needs))
    inputs = make_inputs(problem, "cpu")
    asked: dict[str, Any] = {"causal": problem.causal}
    asked |= {"mask": torch.ones(17, 17, dtype=torch.bool)} if "mask" in needs else {}
    asked |= {"softcap": 2.0} if "softcap" in needs else {}
    asked |= {"with_lse": True} if "lse" in needs else {}
    q, k, v = (t.requires_grad_("backward" in needs) for t in (inputs.q, inputs.k, inputs.v))
    with pytest.raises(Unsupported, match=reason):
        attend(onnxruntime, q, k, v, **asked)
    assert HANDED == []


def test_a_scale_of_zero_is_refused_because_it_would_be_the_default():
    with pytest.raises(Unsupported, match=r"scale=0\.0"):
        judged("T=17,H=2,d_h=64", scale=0.0)


def test_without_the_library_the_reason_says_what_to_type(monkeypatch):
    monkeypatch.setattr(onnxruntime_attention.importlib.util, "find_spec", lambda name: None)
    assert onnxruntime_attention.unavailable("cpu") == [
        "onnxruntime is not installed: pip install onnxruntime onnx",
        "onnx is not installed: pip install onnxruntime onnx",
    ]
