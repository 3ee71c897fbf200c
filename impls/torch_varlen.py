"""PyTorch's varlen_attn: FlashAttention on sequences that lie one after another, on CUDA."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import torch

from impls.interface.attention import Capabilities, Forward, Implementation, Unsupported
from impls.interface.problem import Problem
from impls.interface.sequences import offsets

_MODULE = "torch.nn.attention.varlen"


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any) -> torch.Tensor:
    """Nothing: it is made for variable-length batches.

    Raises:
        Unsupported: always.
    """
    raise Unsupported("only for variable-length batches")


def prepare_lengths(problem: Problem, device: str) -> Forward:
    """The call of one batch; where its sequences begin is made here, outside the clock.

    It takes (Σ T, H, d), causal is aligned bottom-right, and a window counts the keys before the
    last one: torch/nn/attention/varlen.py (2.13). Before it had `window_size` it had `is_causal`.
    """
    from torch.nn.attention.varlen import varlen_attn

    call: Any = varlen_attn
    known = inspect.signature(call).parameters
    lengths, of_keys = problem.lengths or (), problem.lengths_kv or problem.lengths or ()
    places = (offsets(lengths, device), offsets(of_keys, device), problem.T_q, problem.T_kv)
    asked: dict[str, Any] = {}
    if problem.causal and "window_size" in known:
        left = -1 if problem.window is None else problem.window - 1
        asked["window_size"] = (left, 0)
    elif problem.causal:
        asked["is_causal"] = True
    if problem.H_kv != problem.H:
        asked["enable_gqa"] = True

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        joined = (t[0].transpose(0, 1) for t in (q, k, v))
        return call(*joined, *places, **asked).transpose(0, 1)[None]

    return attention


def unavailable(device: str) -> list[str]:
    """Reasons why it cannot run here: the module came with torch 2.10."""
    if importlib.util.find_spec(_MODULE) is None:
        return [f"torch {torch.__version__} has no {_MODULE}"]
    return []


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What this torch's signature lacks, and what FlashAttention does."""
    if device != "cuda" or unavailable(device):
        return []
    reasons = []
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    if problem.window is not None and "window_size" not in known:
        reasons.append("a sliding window is not supported by this torch")
    if problem.H_kv != problem.H and "enable_gqa" not in known:
        reasons.append(f"H_kv={problem.H_kv} differs from H={problem.H}, not with this torch")
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0):
        reasons.append("needs compute capability 8.0")
    return reasons


torch_varlen = Implementation(
    name="torch_varlen",
    forward=forward,
    summary="torch's varlen_attn: FlashAttention on sequences without padding",
    capabilities=Capabilities(
        devices=("cuda",),
        dtypes=("bfloat16", "float16"),
        needs=("backward",),
        max_d_h=256,
        d_h_multiple_of=8,
        d_v_may_differ=False,
        dense=False,
        further=_further,
    ),
    prepare_lengths=prepare_lengths,
    runs=("_flash_attention_forward", "flash_fwd"),
    unavailable=unavailable,
)
