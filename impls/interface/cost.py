"""What a problem costs: pairs, flop, exponentials and bytes, by arithmetic alone. No torch here.

1 multiply-add is 2 FLOP. Every count is an exact integer, the same for every implementation, so
that two implementations of one problem differ in time only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

from impls.interface.problem import DTYPE_BYTES, PASSES, Problem

CONVENTIONS = ("exact", "fa")
LSE_BYTES = 4
_Further = ParamSpec("_Further")


@dataclass(frozen=True)
class Cost:
    """The counts of one problem and pass.

    Attributes:
        pairs: visible (query, key) pairs of one head, of a variable-length batch in all its
            sequences; exact whatever the convention.
        flop: useful floating-point operations under `flop_convention`.
        exp: exponentials of the softmax, a resource of their own.
        compulsory_bytes: what any implementation must move.
    """

    pairs: int
    flop: int
    flop_convention: str
    exp: int
    compulsory_bytes: int

    @property
    def intensity(self) -> float | None:
        """FLOP per compulsory byte; None where no byte moves."""
        return self.flop / self.compulsory_bytes if self.compulsory_bytes else None


def cost(problem: Problem, pass_: str = "forward", convention: str = "exact") -> Cost:
    """All counts of one problem and pass.

    >>> cost(Problem.parse("B=2,T=1024,H=16,d_h=64,causal")).flop
    4299161600

    Raises:
        ValueError: the pass or the convention is not known.
    """
    return Cost(
        pairs=visible_pairs(problem),
        flop=flop(problem, pass_, convention),
        flop_convention=convention,
        exp=exponentials(problem, pass_),
        compulsory_bytes=compulsory_bytes(problem, pass_),
    )


def _of_each_sequence(
    count: Callable[Concatenate[Problem, _Further], int],
) -> Callable[Concatenate[Problem, _Further], int]:
    """The same count, of a variable-length batch the sum over its sequences: padding is no work.

    The offsets that say where each begins, B + 1 integers, are not counted.
    """

    @functools.wraps(count)
    def counted(problem: Problem, *args: _Further.args, **kwargs: _Further.kwargs) -> int:
        return sum(count(one, *args, **kwargs) for one in problem.sequences)

    return counted


@_of_each_sequence
def visible_pairs(problem: Problem) -> int:
    """The (query, key) pairs that one head may see, N; of lengths, in all sequences together.

    Full: T_q·T_kv. Causal, bottom-right: the query i of T_q may see a_i = i + 1 + T_kv − T_q keys
    (none below 0), and a window w takes away the max(0, a_i − w) oldest. Both sums run over T_q
    consecutive integers, so each is a difference of two triangular numbers; without a window that
    is T_q·T_kv − T_q(T_q − 1)/2 for T_q ≤ T_kv and T_kv(T_kv + 1)/2 beyond.

    >>> visible_pairs(Problem.parse("T=4,H=1,d_h=64,causal"))
    10
    >>> visible_pairs(Problem.parse("T_q=1,T_kv=9,H=1,d_h=64,causal"))
    9
    >>> visible_pairs(Problem.parse("lengths=4+1,H=1,d_h=64,causal"))
    11
    """
    T_q, T_kv, w = problem.T_q, problem.T_kv, problem.window
    if not problem.causal:
        return T_q * T_kv
    seen = _triangle(T_kv) - _triangle(T_kv - T_q)
    hidden = 0 if w is None else _triangle(T_kv - w) - _triangle(T_kv - T_q - w)
    return seen - hidden


@_of_each_sequence
def flop(problem: Problem, pass_: str = "forward", convention: str = "exact") -> int:
    """The useful floating-point operations: 2·B·H·N·(d_h + d_v) forward.

    Two products, QKᵀ and PV, of 2 FLOP a pair and element (FlashAttention, Dao et al. 2022,
    section 2.1). Backward is counted as five such products, the scores recomputed: 2.5 × forward,
    both passes 3.5 × (Dao 2023, FlashAttention-2, section 4.1), also for an implementation that
    saved P and does four. The softmax's additions are not counted.

    `convention` "fa" counts causal as FlashAttention's own benchmarks do: a query sees on average
    (max(0, T_kv − T_q) + T_kv) / 2 keys, exactly half of them when square; windows as "exact".

    >>> flop(Problem.parse("T=4,H=1,d_h=64"))
    4096
    >>> flop(Problem.parse("T=4,H=1,d_h=64,causal"))
    2560
    >>> flop(Problem.parse("T=4,H=1,d_h=64,causal"), convention="fa")
    2048

    Raises:
        ValueError: the pass or the convention is not known.
    """
    _check_word("pass", pass_, PASSES)
    _check_word("flop convention", convention, CONVENTIONS)
    forward = problem.B * problem.H * _doubled_pairs(problem, convention)
    forward *= problem.d_h + problem.d_v
    # Multiplied before it is halved: whole except for an odd count under the "fa" convention.
    return {"forward": 2, "backward": 5, "forward_backward": 7}[pass_] * forward // 2


@_of_each_sequence
def exponentials(problem: Problem, pass_: str = "forward") -> int:
    """The exponentials of the softmax: B·H·N in forward and, recomputed, again in backward.

    An online softmax's rescales (under 1 %) are not counted.

    >>> exponentials(Problem.parse("T=4,H=2,d_h=64,causal"), "forward_backward")
    40
    """
    _check_word("pass", pass_, PASSES)
    once = problem.B * problem.H * visible_pairs(problem)
    return 2 * once if pass_ == "forward_backward" else once


@_of_each_sequence
def compulsory_bytes(problem: Problem, pass_: str = "forward") -> int:
    """The bytes any implementation must move: each tensor once, K and V with their H_kv heads.

    Forward reads q, k, v and writes out. Backward reads q, k, v, out, dout, the log-sum-exp and
    the row sums of dout∘out (4 bytes a row each) and writes dq, dk, dv: for equal heads and square
    8·B·H·T·d_h·bytes + 8·B·H·T. Both passes together are the sum, and the forward writes the
    log-sum-exp as well. Causal takes nothing away; a window does, where no query reaches the oldest
    keys (a decode step with a window reads the window only): those of K and V are not read.

    >>> compulsory_bytes(Problem.parse("T_q=1,T_kv=8192,H=32,H_kv=8,d_h=128,float16"))
    33570816
    """
    _check_word("pass", pass_, PASSES)
    element = DTYPE_BYTES[problem.dtype]
    rows = problem.B * problem.H * problem.T_q
    T_read = problem.T_kv
    if problem.window is not None:
        T_read = min(T_read, max(0, problem.T_q + problem.window - 1))
    q, out = rows * problem.d_h * element, rows * problem.d_v * element
    kv_row = problem.B * problem.H_kv * (problem.d_h + problem.d_v) * element
    forward = q + out + kv_row * T_read
    backward = 2 * q + 2 * out + kv_row * (T_read + problem.T_kv) + 2 * LSE_BYTES * rows
    if pass_ == "forward":
        return forward
    return backward if pass_ == "backward" else forward + LSE_BYTES * rows + backward


def intensity(problem: Problem, pass_: str = "forward", convention: str = "exact") -> float | None:
    """FLOP per compulsory byte; None where no byte moves. T / bytes for full square forward.

    >>> intensity(Problem.parse("T=512,H=8,d_h=64"))
    128.0
    """
    return cost(problem, pass_, convention).intensity


def parameters(*, d_model: int, H: int, d_h: int, H_kv: int | None = None) -> int:
    """The weights of one attention layer, no biases: 2·d_model·d_h·(H + H_kv).

    W_Q and W_O have d_model·H·d_h each, W_K and W_V d_model·H_kv·d_h. H·d_h need not be d_model.
    """
    return 2 * d_model * d_h * (H + (H if H_kv is None else H_kv))


def projection_flop(
    *, B: int, T: int, d_model: int, H: int, d_h: int, H_kv: int | None = None
) -> int:
    """The FLOP of the four projections, forward: 4·B·T·d_model·d_h·(H + H_kv).

    2 FLOP a weight and token; 8·T·d_model² for MHA with H·d_h = d_model.
    """
    return 2 * B * T * parameters(d_model=d_model, H=H, d_h=d_h, H_kv=H_kv)


def kv_cache_bytes(*, L: int, T: int, H_kv: int, d_h: int, dtype: str, B: int = 1) -> int:
    """The bytes of a model's KV cache: K and V, 2·L·H_kv·d_h·T·B elements.

    >>> kv_cache_bytes(L=80, T=4096, H_kv=8, d_h=128, dtype="float16")
    1342177280
    """
    return 2 * L * H_kv * d_h * T * B * DTYPE_BYTES[dtype]


def latent_cache_bytes(*, L: int, T: int, d_c: int, d_R: int, dtype: str, B: int = 1) -> int:
    """The bytes of a latent (MLA) cache: L·(d_c + d_R)·T·B elements, whatever H is.

    d_c is the compressed latent, d_R the shared rotary key (DeepSeek-V2, 2024, section 2.1.3).
    """
    return L * (d_c + d_R) * T * B * DTYPE_BYTES[dtype]


def _triangle(n: int) -> int:
    """1 + 2 + … + n, and 0 below 1."""
    return n * (n + 1) // 2 if n > 0 else 0


def _doubled_pairs(problem: Problem, convention: str) -> int:
    """2·N, which stays whole where a convention halves."""
    if convention == "fa" and problem.causal and problem.window is None:
        return problem.T_q * (max(0, problem.T_kv - problem.T_q) + problem.T_kv)
    return 2 * visible_pairs(problem)


def _check_word(name: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ValueError(f"{name}={word!r} is not known: one of {', '.join(known)}")
