"""The xformers adapters without a GPU: reasons, and what their operators are handed.

The adapters cannot run on a CPU, so cutlass is called with fake CUDA tensors in a child process,
and the Triton operator really computes, in Triton's interpreter.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from impls import xformers_attention
from impls.interface.attention import Unsupported, attend, reasons_against
from impls.interface.problem import Problem
from impls.xformers_attention import xformers_cutlass, xformers_flash, xformers_splitk

ROOT = Path(__file__).parents[1]
ALL = [xformers_cutlass, xformers_flash, xformers_splitk]
is_installed = importlib.util.find_spec("xformers") is not None
needs_xformers = pytest.mark.skipif(not is_installed, reason="xformers is not installed")

FAKE_CUTLASS = """
import json, logging
logging.getLogger("xformers").setLevel(logging.ERROR)
import torch
torch.version.cuda = "13.0"  # before the import: it decides which operators exist
torch.cuda.get_device_capability = lambda *_: (9, 0)
import xformers._cpp_lib
xformers._cpp_lib._built_with_cuda = True
from xformers.ops.fmha import common, cutlass
common._built_with_cuda = True
torch.cuda.is_available = lambda: True
torch.cuda.current_device = lambda: 0
from torch._subclasses.fake_tensor import FakeTensorMode
from impls.interface.attention import attend
from impls.xformers_attention import xformers_cutlass

handed, operator = [], cutlass.FwOp.OPERATOR

def record(**given):
    bias = given["bias"]
    handed.append({
        "q": list(given["query"].shape), "k": list(given["key"].shape),
        "mask_type": given["custom_mask_type"], "window": given["window_size"],
        "bias": None if bias is None else [list(bias.shape), list(bias.stride())],
    })
    return operator(**given)

cutlass.FwOp.OPERATOR = staticmethod(record)
with FakeTensorMode():
    half = {"dtype": torch.float16, "device": "cuda"}
    k = torch.empty(2, 2, 9, 64, **half)
    cases = [(5, {"causal": True}), (5, {"causal": True, "window": 3}), (1, {"causal": True}),
             (12, {"causal": True}), (5, {})]
    for T_q, arguments in cases:
        out, lse = attend(
            xformers_cutlass, torch.empty(2, 4, T_q, 64, **half), k, k, with_lse=True, **arguments
        )
        handed[-1] |= {"out": list(out.shape), "lse": list(lse.shape)}
print(json.dumps(handed))
"""

INTERPRETED_SPLITK = """
import logging
logging.getLogger("xformers").setLevel(logging.ERROR)
import torch
from xformers.ops.fmha import triton_splitk
triton_splitk.FwOp.SUPPORTED_DEVICES = {"cuda", "cpu"}
from impls import xformers_attention
from impls.interface.attention import attend
from impls.naive import naive
xformers_attention._refuse = lambda *_: None
torch.manual_seed(0)
for H_kv, T_kv in ((2, 75), (4, 33)):
    q = torch.randn(1, 4, 1, 32).half()
    k, v = torch.randn(2, 1, H_kv, T_kv, 32).half()
    out, lse = attend(xformers_attention.xformers_splitk, q, k, v, causal=True, with_lse=True)
    expected, expected_lse = attend(naive, q, k, v, with_lse=True)
    torch.testing.assert_close(out, expected, atol=2e-3, rtol=0)
    torch.testing.assert_close(lse, expected_lse, atol=2e-3, rtol=0)
print("agrees")
"""


def child(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


@needs_xformers
def test_cutlass_is_handed_the_right_mask_and_layout():
    handed = json.loads(child(FAKE_CUTLASS))
    causal, windowed, decode, tall, full = handed
    # xformers' custom mask types: 0 none, 1 aligned top-left, 2 aligned bottom-right.
    assert (causal["mask_type"], causal["window"]) == (2, None)
    assert (windowed["mask_type"], windowed["window"]) == (2, 3)
    assert decode["mask_type"] == full["mask_type"] == 0
    for case, T_q in ((causal, 5), (windowed, 5), (decode, 1), (full, 5)):
        assert case["q"] == [2, T_q, 4, 64]
        assert case["k"] == [2, 9, 4, 64]
        assert case["out"] == [2, 4, T_q, 64]
        assert case["lse"] == [2, 4, T_q]
    # Three of twelve queries see no key: the operator gets the other nine.
    assert (tall["q"], tall["mask_type"], tall["out"]) == ([2, 9, 4, 64], 2, [2, 4, 12, 64])
    assert tall["lse"] == [2, 4, 12]
    assert all(case["bias"] is None for case in handed)


@needs_xformers
def test_mask_becomes_an_aligned_bias_shared_by_the_heads():
    q, k = torch.ones(2, 4, 5, 8), torch.ones(2, 4, 9, 8)
    mask = torch.rand(5, 9, generator=torch.Generator().manual_seed(0)) > 0.5
    bias = xformers_attention._bias(False, None, mask, q, k)
    # Rows of 9 stand 16 apart, and no head holds a copy.
    assert (bias.shape, bias.stride()) == ((2, 4, 5, 9), (0, 0, 16, 1))
    assert torch.equal(bias[1, 3] == 0, mask)
    assert torch.equal(bias[1, 3] == -torch.inf, ~mask)
    for narrow in (torch.zeros(9), torch.zeros(5, 1), torch.zeros(2, 1, 1, 9)):
        assert xformers_attention._bias(False, None, narrow, q, k).shape == (2, 4, 5, 9)


@pytest.mark.slow
@needs_xformers
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_splitk_reads_grouped_heads_right_in_the_interpreter():
    assert child(INTERPRETED_SPLITK, TRITON_INTERPRET="1") == "agrees"


@pytest.mark.parametrize("implementation", ALL, ids=lambda i: i.name)
def test_forward_on_cpu_is_refused(implementation):
    q = torch.ones(1, 1, 2, 16, dtype=torch.float16)
    with pytest.raises(Unsupported, match="does not run on cpu"):
        attend(implementation, q, q, q)


@needs_xformers
def test_build_for_another_torch_is_told_with_both_versions(monkeypatch, tmp_path):
    (tmp_path / "cpp_lib.json").write_text('{"version": {"torch": "2.1.0+cu118"}}')
    found = importlib.util.spec_from_loader("xformers", None, is_package=True)
    assert found is not None
    found.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(xformers_attention.importlib.util, "find_spec", lambda _: found)
    installed = xformers_attention.version("xformers")
    assert xformers_attention.unavailable("cpu") == [
        "does not run on cpu",
        f"xformers {installed} was built for torch 2.1.0+cu118, this is {torch.__version__}",
    ]


def test_missing_xformers_is_one_reason(monkeypatch):
    monkeypatch.setattr(xformers_attention.importlib.util, "find_spec", lambda _: None)
    assert xformers_attention.unavailable("cuda") == ["xformers is not installed"]


@needs_xformers
def test_import_of_xformers_is_silent(caplog, capfd):
    with caplog.at_level(logging.INFO):
        xformers_attention._import_quietly()
    assert not [record for record in caplog.records if record.name == "xformers"]
    assert capfd.readouterr() == ("", "")


def test_operators_declare_their_limits(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def reasons(implementation, text, *needs):
        return reasons_against(implementation, Problem.parse(text), "cuda", needs)

    assert reasons(xformers_splitk, "B=1,T_q=1,T_kv=99,H=8,H_kv=2,d_h=64,causal,float16") == []
    assert reasons(xformers_splitk, "B=1,T=99,H=8,d_h=80,causal,float32", "backward") == [
        "dtype float32 is not supported (only bfloat16, float16)",
        "backward is not supported",
        "d_h=80 is not one of 16, 32, 64, 128, 256, 512",
        "causal with T_q=99: a decode step only",
    ]
    assert reasons(xformers_flash, "B=1,T=99,H=8,d_h=264,bfloat16", "mask") == [
        "d_h=264 is above 256",
        "mask is not supported",
    ]
    assert reasons(xformers_cutlass, "B=1,T=9,H=8,H_kv=1,d_h=20,d_v=28,float32", "lse") == []
    assert reasons(xformers_cutlass, "B=1,T=9,H=8,d_h=20,float16") == [
        "d_h=20 is not a multiple of 8"
    ]
