"""FlashInfer's batched prefill and decode, over tokens in a row and over pages of 16 tokens.

Signatures and conventions are those of flashinfer-python 0.7.2 (prefill.py, decode.py): tokens are
(tokens, H, d); causal is aligned to the bottom right; `window_left` counts the keys to the left of
the last one; the LSE is of base 2, (tokens, H), and is made natural inside the clock. Plans are
made outside it, as a model makes one for all its layers. Which kernel runs (its own for Ampere or
for Hopper, cuDNN, CUTLASS) is the library's choice: the row's `ran` tells.

Prefill reads q, k and v where they lie when B = 1 or as bthd; of bhtd with B > 1 they are copied
inside the clock, and q for paged prefill. Pages are never copied: they are the tensors' memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import torch

from impls.interface.attention import Capabilities, Unsupported
from impls.interface.foreign_kernel import (
    SIXTEEN_BIT,
    Build,
    Call,
    ForeignKernel,
    Given,
    Wanted,
    against_capability,
)
from impls.interface.inputs import TORCH_DTYPES
from impls.interface.problem import Problem
from impls.interface.sequences import offsets

PAGE = 16
"""Tokens of a page: vLLM's default."""
_D_H = (64, 128, 256)
_WORKSPACE_BYTES = 128 * 2**20
"""What its documentation recommends."""
_SHARING = 4
"""Its documentation has large groups decode on matrix units: from so many query heads on."""
_workspaces: WeakValueDictionary[str, torch.Tensor] = WeakValueDictionary()


def build_prefill(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem, or variable-length batch, over tokens in a row; see `Build`."""
    import flashinfer  # pyright: ignore[reportMissingImports]  # an optional library

    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(_workspace(device), "NHD")
    T_q = problem.lengths or (problem.T_q,) * problem.B
    T_kv = problem.lengths_kv or problem.lengths or (problem.T_kv,) * problem.B
    wrapper.plan(
        offsets(T_q, device),
        offsets(T_kv, device),
        *(problem.H, problem.H_kv, problem.d_h),
        head_dim_vo=problem.d_v,
        causal=problem.causal,
        **_planned(problem, wanted),
    )

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        given = wrapper.run(_in_a_row(q), _in_a_row(k), _in_a_row(v), return_lse=wanted.with_lse)
        return _as_batches(given, problem.joined)

    return call


def build_paged(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem over pages, any number of queries; see `Build`."""
    import flashinfer  # pyright: ignore[reportMissingImports]  # an optional library

    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(_workspace(device), "NHD")

    def plan(pages: tuple[torch.Tensor, ...]) -> None:
        wrapper.plan(
            offsets((problem.T_q,) * problem.B, device),
            *pages,
            *(problem.H, problem.H_kv, problem.d_h, PAGE),
            causal=problem.causal,
            **_planned(problem, wanted),
        )

    return _over_pages(wrapper, plan, problem, device, wanted)


def build_decode(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem over pages, one query each; see `Build`."""
    import flashinfer  # pyright: ignore[reportMissingImports]  # an optional library

    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        _workspace(device), "NHD", use_tensor_cores=problem.H // problem.H_kv >= _SHARING
    )

    def plan(pages: tuple[torch.Tensor, ...]) -> None:
        sizes = (problem.H, problem.H_kv, problem.d_h, PAGE)
        wrapper.plan(*pages, *sizes, **_planned(problem, wanted))

    return _over_pages(wrapper, plan, problem, device, wanted)


def _over_pages(
    wrapper: Any,
    plan: Callable[[tuple[torch.Tensor, ...]], None],
    problem: Problem,
    device: str,
    wanted: Wanted,
) -> Call:
    """The first call plans, as page numbers follow from strides; those after it find it planned."""
    planned_apart = None

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        nonlocal planned_apart
        apart = _pages_apart(k)
        if apart is None or apart != _pages_apart(v):
            raise Unsupported("k and v of these strides are not whole pages")
        if apart != planned_apart:
            plan(_page_table(problem, apart, device))
            planned_apart = apart
        cache = (_pages(k, problem, apart), _pages(v, problem, apart))
        return _as_batches(wrapper.run(_in_a_row(q), cache, return_lse=wanted.with_lse), problem)

    return call


def _pages_apart(tensor: torch.Tensor) -> int | None:
    """How many pages after one sequence's first the next one's begins, in (B, H_kv, T_kv, d).

    A page is PAGE rows of a head, and those of the other heads wherever they are: bhtd, bthd and
    packed tensors are all made of pages. None where sequences lie otherwise.
    """
    of_batch, page = tensor.stride(0), PAGE * tensor.stride(2)
    return None if of_batch % page else of_batch // page


def _pages(tensor: torch.Tensor, problem: Problem, apart: int) -> torch.Tensor:
    """(B, H_kv, T_kv, d) seen as pages (pages, PAGE, H_kv, d), without a copy."""
    _, H_kv, T_kv, d = tensor.shape
    of_head, of_row = tensor.stride(1), tensor.stride(2)
    count = (problem.B - 1) * apart + T_kv // PAGE
    shape, strides = (count, PAGE, H_kv, d), (PAGE * of_row, of_row, of_head, 1)
    return tensor.as_strided(shape, strides, tensor.storage_offset())


def _page_table(problem: Problem, apart: int, device: str) -> tuple[torch.Tensor, ...]:
    """Where each sequence's page numbers begin, the numbers, and tokens of each one's last page."""
    each = problem.T_kv // PAGE
    of_sequence = torch.arange(each, dtype=torch.int32)
    first = torch.arange(problem.B, dtype=torch.int32) * apart
    numbers = (first[:, None] + of_sequence).flatten()
    full = torch.full((problem.B,), PAGE, dtype=torch.int32)
    return offsets((each,) * problem.B, device), numbers.to(device), full.to(device)


def _planned(problem: Problem, wanted: Wanted) -> dict[str, Any]:
    """What all plans are told."""
    dtype = TORCH_DTYPES[problem.dtype]
    return {
        "window_left": -1 if problem.window is None else problem.window - 1,
        "logits_soft_cap": wanted.softcap or 0.0,
        "sm_scale": wanted.scale,
        "q_data_type": dtype,
        "kv_data_type": dtype,
    }


def _workspace(device: str) -> torch.Tensor:
    """One for all plans that are alive, as models share it: calls follow one another."""
    shared = _workspaces.get(device)
    if shared is None:
        shared = torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        _workspaces[device] = shared
    return shared


def _in_a_row(tensor: torch.Tensor) -> torch.Tensor:
    """(B, H, T, d) as (B·T, H, d): a view of one sequence or of a bthd tensor, else a copy."""
    return tensor.transpose(1, 2).flatten(0, 1)


def _as_batches(given: Any, problem: Problem) -> Given:
    """(tokens, H, d) and, where wanted, the LSE (tokens, H) of base 2, as this interface has it."""
    out, lse = given if isinstance(given, tuple) else (given, None)
    out = out.unflatten(0, (problem.B, problem.T_q)).transpose(1, 2)
    if lse is not None:
        lse = (lse * math.log(2)).unflatten(0, (problem.B, problem.T_q)).transpose(1, 2)
    return out, lse


def _further(kind: str, problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What its documentation and its kernels' instances leave out."""
    least = (8, 0) if problem.dtype == "bfloat16" else (7, 5)
    reasons = against_capability(
        lambda capability: capability >= least, f"{least[0]}.{least[1]} for {problem.dtype}"
    )
    sizes = (problem.d_h, problem.d_v)
    of_deepseek = kind == "prefill" and sizes == (192, 128)
    if not of_deepseek and (problem.d_h not in _D_H or problem.d_v != problem.d_h):
        also = ", or 192 with d_v=128" if kind == "prefill" else ""
        known = ", ".join(map(str, _D_H))
        reasons.append(f"d_h={problem.d_h}, d_v={problem.d_v}: one of {known} for both{also}")
    if kind != "prefill" and problem.T_kv % PAGE:
        reasons.append(f"T_kv={problem.T_kv} is not a multiple of a page's {PAGE} tokens")
    if kind == "decode" and problem.T_q != 1:
        reasons.append(f"T_q={problem.T_q}: a decode step only")
    return reasons


def _kernel(kind: str, summary: str, build: Build) -> ForeignKernel:
    return ForeignKernel(
        name=f"flashinfer_{kind}",
        summary=summary,
        capabilities=Capabilities(
            devices=("cuda",),
            dtypes=SIXTEEN_BIT,
            passes=("forward",),
            needs=("lse", "scale", "softcap"),
            further=partial(_further, kind),
        ),
        library="flashinfer-python",
        runs=(),
        build=build,
        build_lengths=build if kind == "prefill" else None,
        install="pip install flashinfer-python (its first call compiles, with nvcc)",
        at_least=(0, 5),
    )


PREFILL = _kernel("prefill", "FlashInfer, prefill over tokens in a row", build_prefill)
PAGED = _kernel("paged", f"FlashInfer, prefill over pages of {PAGE} tokens", build_paged)
DECODE = _kernel("decode", f"FlashInfer, decoding over pages of {PAGE} tokens", build_decode)

flashinfer_prefill = PREFILL.implementation()
flashinfer_paged = PAGED.implementation()
flashinfer_decode = DECODE.implementation()
