"""PyTorch's flex_attention, compiled: its mask is blocks and a function, made outside the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from impls.interface.attention import Capabilities, Forward, Implementation, Unsupported
from impls.interface.compiling import compile_afresh, compiled_for, compiler_missing, layout_key
from impls.interface.masking import nothing_attended
from impls.interface.problem import Problem
from impls.interface.sequences import seen_keys

BLOCK = 128


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any) -> torch.Tensor:
    """Attention by the compiled kernel; see `attend`. New sizes or arguments compile anew."""
    return _attention(q, k, v, with_lse=False, **arguments)[0]


def forward_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same → (out, lse (B, H, T_q)); on CUDA only."""
    if q.device.type == "cpu":
        raise Unsupported("lse is not supported on cpu")
    return _attention(q, k, v, with_lse=True, **arguments)


def prepare(problem: Problem, device: str) -> Forward:
    """The forward of one problem, with its block mask built; the first call compiles."""
    sizes = (problem.T_q, problem.T_kv, problem.causal, problem.window)
    return _prepared(_mask_of_one(*sizes, device))


def prepare_lengths(problem: Problem, device: str) -> Forward:
    """The forward of one variable-length batch: its sequences are blocks of the mask."""
    return _prepared(_mask_of_sequences(problem, device))


def _prepared(block_mask: Any) -> Forward:
    compiled = compile_afresh(_flex(block_mask))

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
    (B, H, T_q, _), T_kv, device = q.shape, k.shape[2], q.device
    inputs = [tensor for tensor in (q, k, v, mask) if tensor is not None]
    if device.type == "cpu" and torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
        raise Unsupported("backward is not supported on cpu")
    if mask is not None and mask.requires_grad:
        raise Unsupported("a mask that requires grad is not supported")
    if 0 in (*q.shape, *v.shape):
        return nothing_attended(q, k, v), q.new_full((B, H, T_q), -torch.inf, dtype=torch.float32)
    if mask is not None:
        mask = mask.expand(B, H, T_q, T_kv)

    def build() -> Callable[..., Any]:
        block_mask = _mask_of_one(T_q, T_kv, causal, window, device)
        return _flex(block_mask, scale=scale, softcap=softcap, with_lse=with_lse)

    key = ("flex", causal, window, scale, softcap, with_lse, layout_key(q, k, v, mask))
    return compiled_for(key, build)(q, k, v, mask)


def _flex(
    block_mask: Any,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    with_lse: bool = False,
):
    """A function (q, k, v, mask) → (out, lse or None) for torch.compile; lse where wanted."""
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    def attention(q, k, v, mask):
        def score_mod(score, b, h, i, j):
            if softcap is not None:
                score = softcap * torch.tanh(score / softcap)
            if mask is None:
                return score
            if mask.dtype == torch.bool:
                return torch.where(mask[b, h, i, j], score, -float("inf"))
            return score + mask[b, h, i, j]

        result: Any = flex_attention(
            *(q, k, v),
            score_mod=None if softcap is None and mask is None else score_mod,
            block_mask=block_mask,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
            # None is the default, though the annotation leaves it out.
            return_aux=AuxRequest(lse=True) if with_lse else None,  # pyright: ignore
        )
        return (result[0], result[1].lse) if with_lse else (result, None)

    return attention


def _mask_of_one(
    T_q: int, T_kv: int, causal: bool, window: int | None, device: torch.device | str
) -> Any:
    """The BlockMask of a dense problem; None where every query sees every key."""
    is_banded = causal and (T_q > 1 or window is not None)
    return _block_mask(T_q, T_kv, window, device) if is_banded else None


def _block_mask(T_q: int, T_kv: int, window: int | None, device: torch.device | str) -> Any:
    """The causal BlockMask of exactly these sizes, from the edges of its blocks.

    `create_block_mask` gives the same by evaluating the mask at all T_q · T_kv places, which is
    gigabytes at T = 32768.
    """
    offset = T_kv - T_q

    def is_visible(b, h, i, j):
        visible = j <= i + offset
        return visible if window is None else visible & (j > i + offset - window)

    i_first = torch.arange(0, T_q, BLOCK, device=device)[:, None]
    j_first = torch.arange(0, T_kv, BLOCK, device=device)[None, :]
    i_last, j_last = i_first + BLOCK - 1, j_first + BLOCK - 1
    i_end, j_end = i_last.clamp(max=T_q - 1), j_last.clamp(max=T_kv - 1)
    some = j_first <= i_end + offset
    # A block that reaches beyond the end is never full: the kernel must look at its edge.
    all_ = (j_last <= i_first + offset) & (j_last < T_kv) & (i_last < T_q)
    if window is not None:
        some = some & (j_end > i_first + offset - window)
        all_ = all_ & (j_first > i_end + offset - window)
    return _of_blocks(some, all_, is_visible, (T_q, T_kv))


def _mask_of_sequences(problem: Problem, device: torch.device | str) -> Any:
    """The BlockMask in which each query sees its run of keys, from where the runs begin and end."""
    first, stop = seen_keys(problem, device)
    T_q, T_kv = problem.joined.T_q, problem.joined.T_kv
    # The kernel asks beyond the last query, whose answers are dropped: to the end of its block.
    first, stop = (_padded(each, -(-T_q // BLOCK) * BLOCK) for each in (first, stop))
    j_first = torch.arange(0, T_kv, BLOCK, device=device)
    j_last = j_first + BLOCK - 1
    in_rows = (-1, BLOCK, len(j_first))
    sees_some = (first[:, None] <= j_last) & (stop[:, None] > j_first.clamp(min=first[:, None]))
    sees_all = (first[:, None] <= j_first) & (stop[:, None] > j_last)
    some, all_ = sees_some.view(in_rows).any(1), sees_all.view(in_rows).all(1)

    def is_visible(b, h, i, j):
        return (j >= first[i]) & (j < stop[i])

    return _of_blocks(some, all_, is_visible, (T_q, T_kv))


def _padded(each: torch.Tensor, count: int) -> torch.Tensor:
    """Zeros after the last: queries that see nothing."""
    return torch.cat([each, each.new_zeros(count - len(each))])


def _of_blocks(
    some: torch.Tensor, all_: torch.Tensor, is_visible: Callable[..., Any], sizes: tuple[int, int]
) -> Any:
    """The BlockMask of blocks that are seen in part or whole, both bool (of T_q, of T_kv)."""
    from torch.nn.attention.flex_attention import BlockMask

    partial_count, partial_index = _in_order(some & ~all_)
    full_count, full_index = _in_order(all_)
    return BlockMask.from_kv_blocks(
        *(partial_count, partial_index, full_count, full_index),
        BLOCK_SIZE=BLOCK,
        mask_mod=is_visible,
        seq_lengths=sizes,
    )


def _in_order(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row how many blocks are meant, and which, first ones first (1, 1, rows, …)."""
    count = blocks.sum(-1, dtype=torch.int32)
    index = torch.argsort(blocks.to(torch.int8), dim=-1, descending=True, stable=True)
    return count[None, None].contiguous(), index.to(torch.int32)[None, None].contiguous()


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    if device == "cpu":
        return [f"{need} is not supported on cpu" for need in ("backward", "lse") if need in needs]
    narrow = min(problem.d_h, problem.d_v)
    return [f"d_h={narrow} is below 16 on cuda"] if narrow < 16 else []


flex = Implementation(
    name="flex",
    forward=forward,
    forward_with_lse=forward_with_lse,
    summary="torch flex_attention, compiled for the problem",
    capabilities=Capabilities(further=_further),
    prepare=prepare,
    prepare_lengths=prepare_lengths,
    needs_compiler=True,
    runs=("Call CompiledFxGraph",),
    unavailable=compiler_missing,
)
