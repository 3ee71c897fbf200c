"""Stand-ins for libraries that need a GPU: their signatures and conventions, in float64 on a CPU.

They take what the libraries take and refuse what those refuse, unknown keywords included. A test
changes one of the `Habits` to see that another convention is told wrong.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch

from impls.interface.attention import Implementation
from impls.interface.foreign_kernel import ForeignKernel

SIXTEEN_BIT = (torch.float16, torch.bfloat16)


@dataclass
class Habits:
    """What a library does where others do otherwise, and what it was told."""

    bottom_right: bool = True
    more_window: int = 0
    lse_factor: float = 1.0
    heads_first: bool = False
    told: list[dict[str, Any]] = field(default_factory=list)


def visible(
    T_q: int, T_kv: int, left: int | None, right: int | None, bottom_right: bool
) -> torch.Tensor:
    """The keys of each query, from `left` before its diagonal to `right` after it; None is all."""
    diagonal = torch.arange(T_q)[:, None] + (T_kv - T_q if bottom_right else 0)
    distance = torch.arange(T_kv) - diagonal
    seen = torch.ones(T_q, T_kv, dtype=torch.bool)
    if left is not None:
        seen &= distance >= -left
    if right is not None:
        seen &= distance <= right
    return seen


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    seen: torch.Tensor,
    softcap: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, T, H, d) in float64 → out (B, T_q, H, d_v) in v's dtype, natural LSE (B, H, T_q)."""
    group = q.shape[2] // k.shape[2]
    qh, kh, vh = (t.transpose(1, 2).double() for t in (q, k, v))
    kh, vh = (t.repeat_interleave(group, 1) for t in (kh, vh))
    scores = qh @ kh.mT * scale
    if softcap > 0.0:
        scores = softcap * torch.tanh(scores / softcap)
    dead = ~seen.any(-1, keepdim=True)
    scores = scores.masked_fill(~seen & ~dead, -torch.inf)
    out = (torch.softmax(scores, -1) @ vh).masked_fill(dead, 0.0)
    lse = torch.logsumexp(scores, -1).masked_fill(dead.squeeze(-1), -torch.inf)
    return out.transpose(1, 2).to(v.dtype), lse.float()


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, widest: int) -> None:
    """What every one of these libraries refuses."""
    if not q.dtype == k.dtype == v.dtype or q.dtype not in SIXTEEN_BIT:
        raise RuntimeError("only supports fp16 and bf16")
    if q.shape[2] % k.shape[2] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise RuntimeError(f"shapes {q.shape}, {k.shape}, {v.shape}")
    if max(q.shape[3], v.shape[3]) > widest:
        raise RuntimeError(f"only supports head dimension at most {widest}")


def install(
    monkeypatch: pytest.MonkeyPatch, library: str, version: str, modules: dict[str, dict[str, Any]]
) -> None:
    """Make `import` find these modules, and the library's metadata this version."""
    for name, contents in modules.items():
        module = ModuleType(name)
        module.__path__ = []
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    known = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: version if name == library else known(name)
    )


def on_a_cpu(kernel: ForeignKernel) -> Implementation:
    """The adapter, allowed to call its stand-in on CPU tensors."""
    capabilities = replace(kernel.capabilities, devices=("cpu",))
    return replace(kernel, capabilities=capabilities).implementation()


def flash_attention(
    habits: Habits,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None,
    left: int | None,
    right: int | None,
    softcap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the three of them compute, from (B, T, H, d), unless the habits are changed."""
    if habits.heads_first:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    left = None if left is None else left + habits.more_window
    seen = visible(q.shape[1], k.shape[1], left, right, habits.bottom_right)
    factor = q.shape[3] ** -0.5 if scale is None else scale
    out, lse = attention(q, k, v, scale=factor, seen=seen, softcap=softcap)
    return out.transpose(1, 2) if habits.heads_first else out, lse * habits.lse_factor


def of_sequences(function: Callable[..., Any]) -> Callable[..., Any]:
    """The library's function of variable-length batches: `function` on each sequence alone."""

    @functools.wraps(function)
    def flash_attn_varlen_func(
        q, k, v, *, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, **asked
    ):
        assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
        starts_q, starts_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
        assert (starts_q[-1], starts_k[-1]) == (len(q), len(k))
        outs, is_pair = [], False
        for (a, b), (c, d) in zip(pairwise(starts_q), pairwise(starts_k), strict=True):
            assert b - a <= max_seqlen_q and d - c <= max_seqlen_k
            if b > a:
                given = function(q[a:b][None], k[c:d][None], v[c:d][None], **asked)
                is_pair = isinstance(given, tuple)
                outs.append((given[0] if is_pair else given)[0])
        return (torch.cat(outs), None) if is_pair else torch.cat(outs)

    return flash_attn_varlen_func


def both(function: Callable[..., Any]) -> dict[str, Any]:
    """What a module of flash-attn holds."""
    return {"flash_attn_func": function, "flash_attn_varlen_func": of_sequences(function)}


def flash_attn_2(monkeypatch: pytest.MonkeyPatch) -> Habits:
    """`flash_attn` as of v2.7 to v2.8.3: −1 is no bound, a row without a key has the LSE +∞."""
    habits = Habits()

    def flash_attn_func(
        q,
        k,
        v,
        dropout_p=0.0,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        alibi_slopes=None,
        deterministic=False,
        return_attn_probs=False,
    ):
        assert (dropout_p, alibi_slopes) == (0.0, None)
        check_tensors(q, k, v, 256)
        assert v.shape[3] == q.shape[3]
        habits.told.append({"deterministic": deterministic})
        left, right = (None if bound < 0 else bound for bound in window_size)
        out, lse = flash_attention(
            habits,
            *(q, k, v),
            scale=softmax_scale,
            left=left,
            right=0 if causal else right,
            softcap=softcap,
        )
        lse = lse.masked_fill(lse == -torch.inf, torch.inf)
        return (out, lse, torch.empty(0)) if return_attn_probs else out

    install(monkeypatch, "flash-attn", "2.8.3", {"flash_attn": both(flash_attn_func)})
    return habits


def flash_attn_3(monkeypatch: pytest.MonkeyPatch) -> Habits:
    """`flash_attn_interface` 3.0.0: d_h of whole 16 bytes, d_v other than d_h in two ranges."""
    habits = Habits()

    def flash_attn_func(
        q,
        k,
        v,
        softmax_scale=None,
        causal=False,
        qv=None,
        q_descale=None,
        k_descale=None,
        v_descale=None,
        window_size=(-1, -1),
        attention_chunk=0,
        softcap=0.0,
        num_splits=1,
        pack_gqa=None,
        deterministic=False,
        sm_margin=0,
        return_attn_probs=False,
    ):
        assert (qv, q_descale, k_descale, v_descale, attention_chunk) == (*(None,) * 4, 0)
        check_tensors(q, k, v, 512)
        d_h, d_v = q.shape[3], v.shape[3]
        assert d_h <= 256 and d_h % 8 == d_v % 8 == 0
        assert d_h == d_v or d_h <= 64 or (128 < d_h <= 192 and 96 < d_v <= 128)
        habits.told.append({"num_splits": num_splits})
        left, right = (None if bound < 0 else bound for bound in window_size)
        given = flash_attention(
            habits,
            *(q, k, v),
            scale=softmax_scale,
            left=left,
            right=0 if causal else right,
            softcap=softcap,
        )
        return given if return_attn_probs else given[0]

    modules = {"flash_attn_interface": both(flash_attn_func)}
    install(monkeypatch, "flash-attn-3", "3.0.0", modules)
    return habits


def flash_attn_4(monkeypatch: pytest.MonkeyPatch) -> Habits:
    """`flash_attn.cute` 4.0.0b36: None is no bound, −1 beside a bound is one; always (out, lse)."""
    habits = Habits()

    def flash_attn_func(
        q,
        k,
        v,
        qv=None,
        gather_kv_indices=None,
        softmax_scale=None,
        causal=False,
        window_size=(None, None),
        learnable_sink=None,
        softcap=0.0,
        num_splits=1,
        pack_gqa=None,
        deterministic=False,
        score_mod=None,
        score_mod_bwd=None,
        mask_mod=None,
        aux_tensors=None,
        aux_scalars=None,
        block_sparse_tensors=None,
        block_sparse_tensors_bwd=None,
        return_lse=False,
        gather_bwd_recompute_p=False,
        gather_bwd_token_chunk=None,
    ):
        assert (qv, learnable_sink, score_mod, mask_mod) == (None,) * 4
        check_tensors(q, k, v, 256)
        assert q.shape[3] % 8 == v.shape[3] % 8 == 0
        habits.told.append({"num_splits": num_splits})
        left, right = window_size
        out, lse = flash_attention(
            habits,
            *(q, k, v),
            scale=softmax_scale,
            left=left,
            right=0 if causal else right,
            softcap=softcap,
        )
        needs_lse = return_lse or any(t.requires_grad for t in (q, k, v))
        return out, lse if needs_lse else None

    # Without flash-attn 2 its parent is a namespace.
    modules = {"flash_attn": {}, "flash_attn.cute": both(flash_attn_func)}
    install(monkeypatch, "flash-attn-4", "4.0.0b36", modules)
    return habits
