"""PyTorch's SDPA on a variable-length batch that is padded to its longest sequence.

Beside it `sdpa_flash` and `sdpa_math` do such a batch by one call for each sequence. Nested tensors
are left out: on a CPU they are unfused, full alone and a prototype, on CUDA as `torch_varlen`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from impls.interface.attention import Capabilities, Implementation, Unsupported
from impls.interface.problem import Problem
from impls.interface.sequences import (
    bytes_when_padded,
    has_blind_queries,
    padded,
    scratch_when_padded,
)

_FUSED = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)


def _dense(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    mask: torch.Tensor | None = None,
    **others: Any,
) -> torch.Tensor:
    """SDPA of padded sequences, by the kernel that torch chooses: the row's `ran` names it."""
    if given := sorted(name for name, value in others.items() if value is not None):
        raise Unsupported(*(f"{name} is not supported" for name in given))
    return F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )


def _against_padded(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """On CUDA no fused kernel takes a mask with grouped heads, nor gives 0 where no key is seen."""
    if device == "cpu" or problem.lengths is None:
        return []
    reasons = []
    is_masked = not problem.causal or problem.lengths_kv is not None or problem.window is not None
    if is_masked and problem.H_kv != problem.H:
        reasons.append(f"a padding mask with H_kv={problem.H_kv} and H={problem.H} on cuda")
    if has_blind_queries(problem):
        reasons.append("a query that sees no key on cuda")
    return reasons


sdpa_padded = Implementation(
    name="sdpa_padded",
    forward=_dense,
    summary="torch SDPA on sequences padded to the longest, the padding masked",
    capabilities=Capabilities(
        dense=False, d_v_may_differ=False, needs=("backward",), further=_against_padded
    ),
    prepare_lengths=padded(_dense),
    runs=_FUSED,
    algorithmic_bytes=bytes_when_padded(),
    scratch_bytes=scratch_when_padded(),
)
