"""The interface: what an implementation declares, and every reason it has against a problem."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from impls.interface.arguments import check_arguments
from impls.interface.problem import DTYPES, PASSES, SOFTMAX, Problem

NEEDS = ("backward", "lse", "mask", "scale", "softcap")


class Forward(Protocol):
    """`forward(q, k, v, *, causal, window, mask, scale, softcap) -> out`.

    q (B, H, T_q, d_h), k (B, H_kv, T_kv, d_h), v (B, H_kv, T_kv, d_v) → (B, H, T_q, d_v).
    What each argument means is written once, in `attend`.
    """

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, /, *_: Any, **arguments: Any
    ) -> torch.Tensor:
        """The output, (B, H, T_q, d_v)."""
        ...


class Unsupported(ValueError):
    """What was asked for is not supported by the implementation; `reasons` has every reason."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


@dataclass(frozen=True)
class Capabilities:
    """What an implementation supports, as data; `further` tells what data cannot.

    `further(problem, device, needs)` gives further reasons against, in full sentences' parts
    ("d_h=512 is above 256"). It may look at the device, never at tensors.
    """

    devices: tuple[str, ...] = ("cpu", "cuda")
    dtypes: tuple[str, ...] = DTYPES
    passes: tuple[str, ...] = PASSES
    needs: tuple[str, ...] = NEEDS
    max_d_h: int | None = None
    d_h_multiple_of: int = 1
    gqa: bool = True
    d_v_may_differ: bool = True
    causal: bool = True
    causal_rectangular: bool = True
    window: bool = True
    layouts: tuple[str, ...] = ("bhtd", "bthd", "packed")
    dense: bool = True
    further: Callable[[Problem, str, frozenset[str]], list[str]] | None = None


@dataclass(frozen=True)
class Implementation:
    """One way to compute attention, found by the registry as a module-level constant.

    Attributes:
        name: how the user asks for it.
        forward: see `Forward`; must raise `Unsupported` rather than compute something else.
        summary: one line for `python -m impls list`.
        forward_with_lse: the same, → (out, lse); lse natural log, (B, H, T_q), float32.
        prepare: `prepare(problem, device) -> forward` builds, outside the clock, what depends on
            the problem alone (a block mask, a compiled function); the forward it returns is called
            as `forward(q, k, v)`. None: `forward` with the problem's arguments.
        prepare_lengths: the same for problems with `lengths`, whose sequences lie one after
            another in q, k and v (`Problem.joined`). None: those are not supported.
        needs_compiler: `prepare`'s first call compiles; planned for and timed in its own column.
        runs: names of operators or kernels (any part of the name) one of which a profile of
            the call must show; none found means it fell back, and the cell is an error.
            Empty: whatever ran is recorded, nothing is demanded.
        algorithmic_bytes: `(problem, pass_) -> bytes` the algorithm itself must move, beyond
            reading and writing each tensor once; None means the compulsory bytes.
        cache_bytes: `(problem, pass_) -> bytes` that its tiles bring from the cache; None: unknown.
        scratch_bytes: `(problem, pass_) -> bytes` allocated beyond inputs and outputs; None: none.
        synchronize: waits until the work of a call is done, for asynchronous implementations
            outside CUDA; they are timed on the wall clock.
        unavailable: reasons why it cannot run here at all, before any call is tried.
        library: the distribution whose version is recorded.
        proven_in: "device" when checked where it runs; "interpreter" for kernels checked in a
            child process without their device.
        allowed_error: of one that approximates, how far off it says it may be, as a part of the
            size of what is due; its rows are flagged. None: as close as the plain formula.
        largest_score: by dtype, up to which absolute score it is as close as it says; further up
            `python -m impls check` asks nothing of it, while a timed cell is checked as ever.
        source: where it was declared, for messages.
        operator: what it computes; the problems of another operator are not its own.
    """

    name: str
    forward: Forward
    summary: str
    capabilities: Capabilities = field(default_factory=Capabilities)
    forward_with_lse: Callable[..., tuple[torch.Tensor, torch.Tensor]] | None = None
    prepare: Callable[[Problem, str], Forward] | None = None
    prepare_lengths: Callable[[Problem, str], Forward] | None = None
    needs_compiler: bool = False
    runs: tuple[str, ...] = ()
    algorithmic_bytes: Callable[[Problem, str], int] | None = None
    cache_bytes: Callable[[Problem, str], int | None] | None = None
    scratch_bytes: Callable[[Problem, str], int] | None = None
    synchronize: Callable[[], None] | None = None
    unavailable: Callable[[str], list[str]] | None = None
    library: str = "torch"
    proven_in: str = "device"
    allowed_error: float | None = None
    largest_score: Mapping[str, float] = field(default_factory=dict, hash=False)
    source: str = ""
    operator: str = SOFTMAX

    def prepared(self, problem: Problem, device: str) -> Forward | None:
        """The forward that is made for this problem alone; None where none is.

        It takes (q, k, v), and is built outside the clock.
        """
        prepare = self.prepare if problem.lengths is None else self.prepare_lengths
        return None if prepare is None else prepare(problem, device)


def reasons_against(
    implementation: Implementation,
    problem: Problem,
    device: str,
    needs: Collection[str] = (),
) -> list[str]:
    """All reasons why `implementation` cannot do `problem` on `device`; empty when it can.

    `needs` names what is wanted beyond the problem's own fields, from `NEEDS`. The strings are
    the skip messages. They say nothing of whether it is installed: see `availability`.
    """
    can = implementation.capabilities
    reasons: list[str] = []

    def against(is_against: bool, reason: str) -> None:
        if is_against:
            reasons.append(reason)

    against(device not in can.devices, f"does not run on {device} (only {', '.join(can.devices)})")
    if problem.around is not None and problem.T_q != problem.T_kv:
        against("backward" in needs, "a layer has no backward through tokens that are cached")
    if not problem.has_core:
        # Products alone: nothing is asked of an attention.
        return reasons
    against(
        problem.dtype not in can.dtypes and problem.dtype != "float64",
        f"dtype {problem.dtype} is not supported (only {', '.join(can.dtypes)})",
    )
    against(
        problem.dtype == "float64" and "float64" not in can.dtypes, "dtype float64 is not supported"
    )
    against(
        problem.operator != implementation.operator,
        f"computes {implementation.operator} attention, not {problem.operator}",
    )
    widest = max(problem.d_h, problem.d_v)
    if can.max_d_h is not None:
        against(widest > can.max_d_h, f"d_h={widest} is above {can.max_d_h}")
    step = can.d_h_multiple_of
    against(
        bool(problem.d_h % step or problem.d_v % step),
        f"d_h={problem.d_h} is not a multiple of {step}",
    )
    against(
        not can.d_v_may_differ and problem.d_v != problem.d_h,
        f"d_v={problem.d_v} differs from d_h={problem.d_h}",
    )
    against(
        not can.gqa and problem.H_kv != problem.H,
        f"H_kv={problem.H_kv} differs from H={problem.H}: grouped heads are not supported",
    )
    against(problem.causal and not can.causal, "causal is not supported")
    if problem.lengths is not None:
        against(implementation.prepare_lengths is None, "variable-length batches are not supported")
        against("lse" in needs, "lse is not supported of variable-length batches")
    against(problem.lengths is None and not can.dense, "only for variable-length batches")
    for one in [one for one in problem.sequences if one.T_q != one.T_kv][:1]:
        against(
            problem.causal and not can.causal_rectangular,
            f"causal with T_q={one.T_q} and T_kv={one.T_kv}: only T_q = T_kv",
        )
    against(problem.window is not None and not can.window, "a sliding window is not supported")
    against(problem.layout not in can.layouts, f"layout {problem.layout} is not supported")
    if problem.around is not None and problem.around.shape.latent is not None:
        # Its scale is that of its expanded keys, whatever the core's d_h is.
        needs = {*needs, "scale"}
    for need in NEEDS:
        if need in needs:
            known = "backward" in can.passes if need == "backward" else need in can.needs
            against(not known, f"{need} is not supported")
    if can.further is not None:
        reasons += [r for r in can.further(problem, device, frozenset(needs)) if r not in reasons]
    return reasons


def attend(
    implementation: Implementation,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    with_lse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The attention of one implementation, its arguments checked before it sees them.

    q (B, H, T_q, d_h), k (B, H_kv, T_kv, d_h), v (B, H_kv, T_kv, d_v) → (B, H, T_q, d_v), lse.

    - `causal` is aligned bottom-right: query i sees keys j ≤ i + T_kv − T_q.
    - `window` w, with causal: only keys j > i + T_kv − T_q − w of those.
    - `mask` broadcasts to (B, H, T_q, T_kv) from the right: bool, True = may attend; or floating,
      added to the scaled scores in the dtype of q, −inf = may not attend: a number, however low, is
      no −inf, and a row of the same one is a mean. Not together with `causal`.
    - `scale` multiplies the scores; None is 1/sqrt(d_h); 0.0 is zero.
    - `softcap` c caps the scaled scores: c·tanh(s / c), before the mask.
    - query head h reads kv head h // (H / H_kv).
    - A row that may see no key has output 0, lse −inf and finite gradients.

    Raises:
        ValueError: shapes, head counts, dtypes or the mask do not fit together.
        Unsupported: the implementation does not do this.
    """
    check_arguments(q, k, v, causal=causal, window=window, mask=mask, scale=scale, softcap=softcap)
    arguments: dict[str, Any] = {
        "causal": causal,
        "window": window,
        "mask": mask if mask is None or mask.dtype == torch.bool else mask.to(q.dtype),
        "scale": scale,
        "softcap": softcap,
    }
    if not with_lse:
        return implementation.forward(q, k, v, **arguments), None
    if implementation.forward_with_lse is None:
        raise Unsupported("lse is not supported")
    return implementation.forward_with_lse(q, k, v, **arguments)
