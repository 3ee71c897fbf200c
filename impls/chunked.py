"""Online softmax over chunks of keys in plain PyTorch: the fused algorithm without a kernel."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from impls.interface.attention import Capabilities, Implementation
from impls.interface.cost import compulsory_bytes
from impls.interface.masking import causal_mask, nothing_attended, scale_or_default
from impls.interface.problem import DTYPE_BYTES, Problem
from impls.interface.sequences import bytes_of_each, each_alone
from impls.interface.unfused import MATRIX_PASSES, SCORE_BYTES

# 256 × 512 float32 scores are 512 KiB a head: they stay in the L2 cache of a server core.
CHUNK_Q = 256
CHUNK_KV = 512


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments) -> torch.Tensor:
    """Attention by chunks; see `attend` for the arguments."""
    return forward_with_lse(q, k, v, **arguments)[0]


def forward_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention by chunks → (out, lse (B, H, T_q)); chunks that no query may see are skipped."""
    (B, H, T_q, d_h), (_, _, T_kv, d_v) = q.shape, v.shape
    if 0 in (*q.shape, T_kv):
        return nothing_attended(q, k, v), q.new_full((B, H, T_q), -torch.inf, dtype=torch.float32)
    factor = scale_or_default(scale, d_h)
    if mask is not None:
        mask = mask.expand(B, H, T_q, T_kv)
    outs, lses = [], []
    for i_start, i_stop in _steps(0, T_q, CHUNK_Q):
        softmax = _OnlineSoftmax(q[:, :, i_start:i_stop], factor, k.shape[1], d_v)
        for j_start, j_stop in _visible_chunks(i_start, i_stop, T_q, T_kv, causal, window):
            bias = None
            if causal:
                bias = _causal_bias((i_start, i_stop), (j_start, j_stop), T_kv - T_q, window, q)
            elif mask is not None:
                bias = mask[:, :, i_start:i_stop, j_start:j_stop]
            softmax.add(k[:, :, j_start:j_stop], v[:, :, j_start:j_stop], bias, softcap)
        out, lse = softmax.result()
        outs.append(out.to(q.dtype))
        lses.append(lse.float())
    return torch.cat(outs, 2), torch.cat(lses, 2)


class _OnlineSoftmax:
    """The running maximum, denominator and weighted sum (Milakov and Gimelshein 2018, alg. 3)."""

    def __init__(self, q: torch.Tensor, scale: float, H_kv: int, d_v: int) -> None:
        B, H, rows, d_h = q.shape
        self._wide = torch.promote_types(q.dtype, torch.float32)
        self._rows = (B, H, rows)
        self._grouped = (B, H_kv, H // H_kv * rows)
        self._q = (q.to(self._wide) * scale).reshape(*self._grouped, d_h)
        self._maximum = q.new_full((B, H, rows, 1), -torch.inf, dtype=self._wide)
        self._denominator = q.new_zeros((B, H, rows, 1), dtype=self._wide)
        self._sum = q.new_zeros((B, H, rows, d_v), dtype=self._wide)

    def add(
        self, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, softcap: float | None
    ) -> None:
        """Take in one chunk of keys; `bias` as a mask, for (B, H, rows, keys)."""
        scores = (self._q @ k.to(self._wide).mT).reshape(*self._rows, k.shape[2])
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if bias is not None and bias.dtype == torch.bool:
            scores = scores.masked_fill_(~bias, -torch.inf)
        elif bias is not None:
            scores = scores + bias
        # The maximum cancels in the result: no gradient flows through it.
        with torch.no_grad():
            maximum = torch.maximum(self._maximum, scores.amax(-1, keepdim=True))
            shift = _zero_where_empty(maximum)
            rescale = torch.exp(self._maximum - shift)
        # In place: one matrix of scores a chunk, for the backward too.
        p = scores.sub_(shift).exp_()
        weighted = p.reshape(*self._grouped, k.shape[2]) @ v.to(self._wide)
        self._denominator = self._denominator * rescale + p.sum(-1, keepdim=True)
        self._sum = self._sum * rescale + weighted.reshape(self._sum.shape)
        self._maximum = maximum

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(out, lse) of the keys seen; a row that saw none has out 0 and lse −inf."""
        empty = self._denominator == 0
        denominator = torch.where(empty, 1.0, self._denominator)
        lse = (_zero_where_empty(self._maximum) + torch.log(denominator)).masked_fill(
            empty, -torch.inf
        )
        return self._sum / denominator, lse.squeeze(-1)


def _zero_where_empty(maximum: torch.Tensor) -> torch.Tensor:
    """Without a key the maximum is −inf, and −inf − (−inf) would be NaN."""
    return torch.where(maximum == -torch.inf, 0.0, maximum)


def _steps(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    for at in range(start, stop, step):
        yield at, min(at + step, stop)


def _visible_chunks(
    i_start: int, i_stop: int, T_q: int, T_kv: int, causal: bool, window: int | None
) -> Iterator[tuple[int, int]]:
    """The chunks of keys that one of the queries i_start … i_stop − 1 may see."""
    if not causal:
        return _steps(0, T_kv, CHUNK_KV)
    offset = T_kv - T_q
    first = 0 if window is None else max(0, i_start + offset - window + 1)
    return _steps(first, min(T_kv, i_stop + offset), CHUNK_KV)


def _causal_bias(
    i: tuple[int, int], j: tuple[int, int], offset: int, window: int | None, q: torch.Tensor
) -> torch.Tensor | None:
    """The part of the causal mask in one chunk; None where every query sees every key."""
    sees_last_key = j[1] - 1 <= i[0] + offset
    sees_first_key = window is None or j[0] > i[1] - 1 + offset - window
    if sees_last_key and sees_first_key:
        return None
    return causal_mask(i[1] - i[0], j[1] - j[0], window, q.device, offset + i[0] - j[0])


def algorithmic_bytes(problem: Problem, pass_: str) -> int:
    """The compulsory bytes, k and v again for every chunk of queries, and the scores.

    Of the scores, float32, as for the formula: S and P written and read once each, backward P
    read twice, dP written and read, dS written and read twice; only the chunks visited. Most of
    this is traffic of the L2 cache.
    """
    p = problem
    pairs = rereads = 0
    for chunk, (i_start, i_stop) in enumerate(_steps(0, p.T_q, CHUNK_Q)):
        chunks = _visible_chunks(i_start, i_stop, p.T_q, p.T_kv, p.causal, p.window)
        keys = sum(j_stop - j_start for j_start, j_stop in chunks)
        pairs += (i_stop - i_start) * keys
        rereads += keys if chunk else 0
    scores = MATRIX_PASSES[pass_] * p.B * p.H * pairs * SCORE_BYTES
    reads = {"forward": 1, "backward": 1, "forward_backward": 2}[pass_]
    kv = reads * p.B * p.H_kv * rereads * (p.d_h + p.d_v) * DTYPE_BYTES[p.dtype]
    return compulsory_bytes(problem, pass_) + scores + kv


def scratch_bytes(problem: Problem, pass_: str) -> int:
    """One chunk of scores; with a backward P of every chunk, kept by autograd, and dP."""
    rows = problem.T_q if pass_ != "forward" else min(CHUNK_Q, problem.T_q)
    keys = problem.T_kv if pass_ != "forward" else min(CHUNK_KV, problem.T_kv)
    matrices = 1 if pass_ == "forward" else 2
    return matrices * problem.B * problem.H * rows * keys * SCORE_BYTES


chunked = Implementation(
    name="chunked",
    forward=forward,
    forward_with_lse=forward_with_lse,
    summary="online softmax over chunks of keys in plain PyTorch",
    capabilities=Capabilities(),
    prepare_lengths=each_alone(forward),
    algorithmic_bytes=bytes_of_each(algorithmic_bytes),
    scratch_bytes=bytes_of_each(scratch_bytes),
)
