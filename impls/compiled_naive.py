"""The formula through torch.compile, and really the formula: not rewritten into SDPA."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from impls.interface.attention import Capabilities, Forward, Implementation
from impls.interface.compiling import compile_afresh, compiled_for, compiler_missing, layout_key
from impls.interface.masking import causal_mask, dead_rows, nothing_attended, scale_or_default
from impls.interface.problem import Problem
from impls.interface.unfused import algorithmic_bytes, scratch_bytes

# With its pattern matcher Inductor recognises attention and calls scaled_dot_product_attention.
_OPTIONS = {"pattern_matcher": False}


def _formula(
    causal: bool,
    window: int | None,
    scale: float | None,
    softcap: float | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse); scores are float32 for 16-bit inputs, a row without a key is 0 and −inf."""
    (B, H, T_q, d_h), (_, H_kv, T_kv, d_v) = q.shape, v.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    grouped = (q.to(wide) * scale_or_default(scale, d_h)).reshape(B, H_kv, -1, d_h)
    scores = (grouped @ k.to(wide).mT).reshape(B, H, T_q, T_kv)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    dead = None
    if causal:
        mask = causal_mask(T_q, T_kv, window, q.device)
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
        else:
            scores = scores + mask
        if not causal or T_q > T_kv:
            dead = dead_rows(mask)
            scores = scores.masked_fill(dead, 0.0)
    p = torch.softmax(scores, -1).to(v.dtype).reshape(B, H_kv, -1, T_kv)
    out = (p @ v).reshape(B, H, T_q, d_v)
    lse = torch.logsumexp(scores, -1).float()
    if dead is not None:
        out, lse = out.masked_fill(dead, 0.0), lse.masked_fill(dead.squeeze(-1), -torch.inf)
    return out, lse


def forward_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The compiled formula → (out, lse (B, H, T_q))."""
    return _attention(q, k, v, with_lse=True, **arguments)


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any) -> torch.Tensor:
    """The compiled formula; see `attend`. Compiles when sizes or arguments are new."""
    return _attention(q, k, v, with_lse=False, **arguments)[0]


def prepare(problem: Problem, device: str) -> Forward:
    """The forward of one problem, whose first call compiles."""
    compiled = compile_afresh(
        _function(False, problem.causal, problem.window, None, None), _OPTIONS
    )

    def prepared(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return compiled(q, k, v, None)[0]

    return prepared


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    with_lse: bool,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    if 0 in (*q.shape, *v.shape):
        lse = q.new_full(q.shape[:3], -torch.inf, dtype=torch.float32)
        return nothing_attended(q, k, v), lse
    stated = (with_lse, causal, window, scale, softcap)
    key = ("compiled_naive", stated, layout_key(q, k, v, mask))
    return compiled_for(key, partial(_function, *stated), _OPTIONS)(q, k, v, mask)


def _function(
    with_lse: bool, causal: bool, window: int | None, scale: float | None, softcap: float | None
):
    """A function (q, k, v, mask) → (out, lse) for torch.compile, lse None where not wanted."""

    def formula(q, k, v, mask):
        out, lse = _formula(causal, window, scale, softcap, q, k, v, mask)
        return out, lse if with_lse else None

    return formula


compiled_naive = Implementation(
    name="compiled_naive",
    forward=forward,
    forward_with_lse=forward_with_lse,
    summary="the formula through torch.compile, without Inductor's rewrite into SDPA",
    capabilities=Capabilities(),
    prepare=prepare,
    needs_compiler=True,
    runs=("Call CompiledFxGraph",),
    algorithmic_bytes=algorithmic_bytes,
    scratch_bytes=scratch_bytes,
    unavailable=compiler_missing,
)
