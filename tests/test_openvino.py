"""The OpenVINO adapter without the library: what its operator is handed, from memory.

The stand-in computes in float64 what the operator's documentation says, and float32 in bfloat16
unless it is told not to, as the library does. `make cpu-rivals` runs the library itself.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from impls import openvino_sdpa as module
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.check import check_output
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.reference import reference
from impls.openvino_sdpa import openvino_sdpa

KINDS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
SETTINGS: list[dict[str, str]] = []


def tensor(numbers: np.ndarray, shape: list[int], kind: str) -> torch.Tensor:
    """A torch tensor over the memory of `numbers`, which must be as many and as wide."""
    assert list(numbers.shape) == shape
    assert numbers.flags.c_contiguous
    return torch.from_numpy(numbers).view(KINDS[kind])


class Request:
    def __init__(self, model, settings):
        (self.node,), self.parameters = model
        self.is_float32 = settings.get("INFERENCE_PRECISION_HINT") == "f32"
        self.given: list[Any] = [None] * len(self.parameters)

    def set_input_tensor(self, i, given):
        assert [list(given.shape), given.dtype] == self.parameters[i]
        self.given[i] = given

    def set_output_tensor(self, i, out):
        assert i == 0
        self.out = out

    def infer(self):
        given = {id(p): tensor for p, tensor in zip(self.parameters, self.given, strict=True)}
        q, k, v, *more = (given.get(id(argument), argument) for argument in self.node)
        if not self.is_float32:
            q, k, v = (t.to(torch.bfloat16) for t in (q, k, v))
        q, k, v = (t.double() for t in (q, k, v))
        scale = more[1] if len(more) == 2 else 1 / math.sqrt(q.shape[3])
        s = q @ k.mT * scale + (more[0] if more else 0.0)
        self.out.copy_(torch.softmax(s, -1) @ v)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """`openvino` as above; what another test compiled is forgotten."""

    class Core:
        def compile_model(self, model, device, settings):
            assert device == "CPU"
            SETTINGS.append(settings)
            return SimpleNamespace(create_infer_request=lambda: Request(model, settings))

    def parameter(shape, kind):
        return [shape, KINDS[kind]]

    operators = SimpleNamespace(
        parameter=parameter,
        constant=lambda value, kind: float(value),
        scaled_dot_product_attention=lambda *arguments: arguments,
    )
    library = ModuleType("openvino")
    vars(library).update(
        Type=SimpleNamespace(f32="f32", bf16="bf16", f16="f16"),
        Shape=list,
        PartialShape=list,
        Tensor=tensor,
        Model=lambda results, parameters: (results, parameters),
        Core=Core,
        opset13=operators,
    )
    monkeypatch.setitem(sys.modules, "openvino", library)
    module._request.cache_clear()
    SETTINGS.clear()
    yield
    module._request.cache_clear()


def judged(text: str, **arguments: Any):
    """What attention of `text` gives, against float64."""
    problem = Problem.parse(text)
    inputs = make_inputs(problem, "cpu")
    out, _ = attend(openvino_sdpa, inputs.q, inputs.k, inputs.v, causal=problem.causal, **arguments)
    return check_output(out, None, None, reference(inputs, problem, **arguments))


@pytest.mark.parametrize(
    "text",
    [
        "B=2,T_q=17,T_kv=33,H=3,d_h=40,d_v=24",
        "B=2,T_q=17,T_kv=33,H=3,d_h=40,causal",
        "B=2,T_q=1,T_kv=33,H=4,H_kv=1,d_h=40,causal",
        "B=2,T=63,H=6,H_kv=2,d_h=31,causal,bthd",
        "B=2,T=17,H=3,d_h=40,packed",
        "B=2,T=17,H=4,H_kv=2,d_h=64,causal,bfloat16",
        "T=17,H=2,d_h=64,float16",
    ],
)
def test_the_operator_is_handed_what_gives_the_float64_result(text: str):
    check = judged(text)
    assert check.ok, check.reasons


def test_the_scale_reaches_the_operator_with_and_without_a_mask():
    for text in ("T=17,H=2,d_h=64", "T=17,H=2,d_h=64,causal"):
        for scale in (0.0, -0.2):
            check = judged(text, scale=scale)
            assert check.ok, check.reasons


def test_float32_computed_in_bfloat16_would_be_told_wrong(monkeypatch):
    def compiled_without_the_hint(self, model, device, settings):
        settings = settings | {"INFERENCE_PRECISION_HINT": "bf16"}
        return SimpleNamespace(create_infer_request=lambda: Request(model, settings))

    assert judged("T=17,H=2,d_h=64").ok
    module._request.cache_clear()
    monkeypatch.setattr(sys.modules["openvino"].Core, "compile_model", compiled_without_the_hint)
    assert not judged("T=17,H=2,d_h=64").ok


def test_it_computes_with_as_many_threads_as_torch_and_compiles_once(monkeypatch):
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for _ in range(2):
            judged("T=17,H=2,d_h=64")
    assert [settings["INFERENCE_NUM_THREADS"] for settings in SETTINGS] == ["1", "3"]


@pytest.mark.parametrize(
    ("text", "needs", "reason"),
    [
        ("T_q=33,T_kv=17,H=2,d_h=64,causal", (), "causal with T_q=33 above T_kv=17"),
        ("T=17,H=2,d_h=64,causal,window=3", (), "a sliding window is not supported"),
        ("T=17,H=2,d_h=64", ("softcap",), "softcap is not supported"),
        ("T=17,H=2,d_h=64", ("lse",), "lse is not supported"),
        ("T=17,H=2,d_h=64", ("mask",), "mask is not supported"),
        ("T=17,H=2,d_h=64", ("backward",), "backward is not supported"),
    ],
)
def test_what_it_lacks_is_told_before_and_refused_in_the_call(text, needs, reason):
    problem = Problem.parse(text)
    assert any(reason in why for why in reasons_against(openvino_sdpa, problem, "cpu", needs))
    inputs = make_inputs(problem, "cpu")
    asked: dict[str, Any] = {"causal": problem.causal, "window": problem.window}
    asked |= {"mask": torch.ones(17, 17, dtype=torch.bool)} if "mask" in needs else {}
    asked |= {"softcap": 2.0} if "softcap" in needs else {}
    asked |= {"with_lse": True} if "lse" in needs else {}
    q, k, v = (t.requires_grad_("backward" in needs) for t in (inputs.q, inputs.k, inputs.v))
    with pytest.raises(Unsupported, match=reason):
        attend(openvino_sdpa, q, k, v, **asked)
    assert SETTINGS == []


def test_without_the_library_the_reason_says_what_to_type(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert module.unavailable("cpu") == ["openvino is not installed: pip install openvino"]
