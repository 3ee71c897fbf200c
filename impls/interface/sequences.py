"""Variable-length batches as tensors: what a query sees, and two ways for a dense kernel to do one.

The sequences lie one after another along T: q (1, H, Σ T_q, d_h), k and v (1, H_kv, Σ T_kv, d).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from impls.interface.cost import compulsory_bytes
from impls.interface.masking import causal_mask
from impls.interface.problem import Problem

PrepareLengths = Callable[[Problem, str], Callable[..., torch.Tensor]]


def offsets(lengths: tuple[int, ...], device: torch.device | str) -> torch.Tensor:
    """Where each sequence begins and the last one ends, B + 1 int32: libraries' `cu_seqlens`."""
    starts = torch.tensor([0, *lengths]).cumsum(0)
    return starts.to(device=device, dtype=torch.int32)


def seen_keys(problem: Problem, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys that each query of the joined tensors sees: the first, and past the last.

    Both int64, (Σ T_q,). What a query sees is one run of keys: its sequence's, causal up to its own
    place counted from the sequence's end, of those the last `window`. None where first ≥ stop.
    """
    firsts, stops, start = [torch.empty(0, dtype=torch.int64)], [], 0
    for one in problem.sequences:
        end = start + one.T_kv
        stop = torch.full((one.T_q,), end)
        if one.causal:
            stop = torch.arange(end - one.T_q, end) + 1
        first = torch.full((one.T_q,), start)
        if one.window is not None:
            first = torch.maximum(first, stop - one.window)
        firsts.append(first)
        stops.append(stop)
        start = end
    return torch.cat(firsts).to(device), torch.cat([firsts[0], *stops]).to(device)


def each_alone(forward: Callable[..., torch.Tensor]) -> PrepareLengths:
    """A `prepare_lengths` that calls a dense forward for each sequence, one after another.

    It computes no pair too many; what it costs is a call for each sequence.
    """

    def prepare(problem: Problem, device: str) -> Callable[..., torch.Tensor]:
        T_q, T_kv = (list(lengths) for lengths in _both(problem))

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            parts = zip(q.split(T_q, 2), k.split(T_kv, 2), v.split(T_kv, 2), strict=True)
            outs = [
                forward(*one, causal=problem.causal, window=problem.window)
                for one in parts
                if one[0].shape[2]
            ]
            return torch.cat(outs, 2)

        return attention

    return prepare


def padded(forward: Callable[..., torch.Tensor]) -> PrepareLengths:
    """A `prepare_lengths` that pads all to the longest, for one call of a dense forward.

    Zeros are added at the end of each and masked, and what is computed for them is dropped. The
    mask is made outside the clock; padding and dropping, which copy each tensor once, are inside.
    """

    def prepare(problem: Problem, device: str) -> Callable[..., torch.Tensor]:
        in_q, in_kv = (_places(lengths, device) for lengths in _both(problem))
        mask = padding_mask(problem, device)
        asked: dict[str, Any] = {"causal": True} if mask is None else {"mask": mask}

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            k, v = (_pad(t, in_kv, problem.B, problem.T_kv) for t in (k, v))
            out = forward(_pad(q, in_q, problem.B, problem.T_q), k, v, **asked)
            rows = out.transpose(1, 2).flatten(0, 1).index_select(0, in_q)
            return rows[None].transpose(1, 2)

        return attention

    return prepare


def padding_mask(problem: Problem, device: torch.device | str) -> torch.Tensor | None:
    """Which keys may be attended where sequences end in padding; None: causal says it all.

    Bool, (B, 1, 1, T_kv) where all queries of a sequence see alike, else (B, 1, T_q, T_kv). Where
    T_q = T_kv, what was added comes after every query whose result is wanted.
    """
    if not problem.causal:
        lengths = torch.tensor(_both(problem)[1], device=device)
        return (torch.arange(problem.T_kv, device=device) < lengths[:, None])[:, None, None]
    if problem.lengths_kv is None and problem.window is None:
        return None
    mask = torch.zeros(problem.B, 1, problem.T_q, problem.T_kv, dtype=torch.bool, device=device)
    for into, one in zip(mask, problem.sequences, strict=True):
        into[0, : one.T_q, : one.T_kv] = causal_mask(one.T_q, one.T_kv, one.window, device)
    return mask


def has_blind_queries(problem: Problem) -> bool:
    """Whether a query sees no key: its sequence has none, or causal begins after it."""
    return any(
        one.T_q > one.T_kv if one.causal else one.T_q > 0 and one.T_kv == 0
        for one in problem.sequences
    )


def padded_problem(problem: Problem) -> Problem:
    """The dense problem that is computed where every sequence is padded to the longest."""
    return problem.with_(lengths=None, lengths_kv=None)


def bytes_of_each(count: Callable[[Problem, str], int]) -> Callable[[Problem, str], int]:
    """A dense count of bytes as the sum over the sequences."""

    @functools.wraps(count)
    def counted(problem: Problem, pass_: str) -> int:
        return sum(count(one, pass_) for one in problem.sequences)

    return counted


def bytes_when_padded(
    count: Callable[[Problem, str], int] = compulsory_bytes,
) -> Callable[[Problem, str], int]:
    """What a dense call moves of the padded batch, and what is copied to pad and to drop.

    The copies read or write each tensor once as it is and once padded.
    """

    def counted(problem: Problem, pass_: str) -> int:
        dense = padded_problem(problem)
        copies = compulsory_bytes(problem, pass_) + compulsory_bytes(dense, pass_)
        return copies + count(dense, pass_)

    return counted


def scratch_when_padded(
    count: Callable[[Problem, str], int] | None = None,
) -> Callable[[Problem, str], int]:
    """The padded tensors, and a dense call's own scratch on them."""

    def counted(problem: Problem, pass_: str) -> int:
        dense = padded_problem(problem)
        return compulsory_bytes(dense, pass_) + (count(dense, pass_) if count else 0)

    return counted


def _both(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths of queries and of keys; those of a dense problem are all alike."""
    if problem.lengths is None:
        return problem.B * (problem.T_q,), problem.B * (problem.T_kv,)
    return problem.lengths, problem.lengths_kv or problem.lengths


def _places(lengths: tuple[int, ...], device: torch.device | str) -> torch.Tensor:
    """Where each token of the joined tensors lies in the padded ones, (Σ T,) of B·max T."""
    longest = max(lengths, default=0)
    rows = [torch.arange(n) + i * longest for i, n in enumerate(lengths)]
    return torch.cat(rows).to(device)


def _pad(tensor: torch.Tensor, places: torch.Tensor, B: int, T: int) -> torch.Tensor:
    """(1, H, Σ T, d) → (B, H, T, d), zeros after the end of each sequence."""
    H, d = tensor.shape[1], tensor.shape[3]
    room = tensor.new_zeros(B * T, H, d)
    return room.index_copy(0, places, tensor[0].transpose(0, 1)).view(B, T, H, d).transpose(1, 2)
