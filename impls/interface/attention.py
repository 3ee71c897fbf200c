"""The interface: what an implementation declares, and every reason it has against a problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

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
        source: where it was declared, for messages.
        operator: what it computes; the problems of another operator are not its own.
    """

    name: str
    forward: Forward
    summary: str
    capabilities: Capabilities = field(default_factory=Capabilities)
    forward_with_lse: Callable[..., tuple[torch.Tensor, torch.Tensor]] | None = None
    prepare: Callable[[Problem, str], Forward] | None = None
    needs_compiler: bool = False
    runs: tuple[str, ...] = ()
    algorithmic_bytes: Callable[[Problem, str], int] | None = None
    cache_bytes: Callable[[Problem, str], int | None] | None = None
    scratch_bytes: Callable[[Problem, str], int] | None = None
    synchronize: Callable[[], None] | None = None
    unavailable: Callable[[str], list[str]] | None = None
    library: str = "torch"
    proven_in: str = "device"
    source: str = ""
    operator: str = SOFTMAX


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
    against(
        problem.causal and problem.T_q != problem.T_kv and not can.causal_rectangular,
        f"causal with T_q={problem.T_q} and T_kv={problem.T_kv}: only T_q = T_kv",
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
      added to the scaled scores, −inf = may not attend. Not together with `causal`.
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


def check_arguments(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> None:
    """Refuse, with the numbers, what the interface gives no meaning to.

    Raises:
        ValueError: see `attend`.
    """
    given = {"q": q, "k": k, "v": v} | ({} if mask is None else {"mask": mask})
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name} is a {type(tensor).__name__}: it must be a tensor")
        if name != "mask" and tensor.ndim != 4:
            raise ValueError(f"{name} has {tensor.ndim} dimensions: it must be (B, H, T, d)")
        if tensor.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {tensor.device}")
    if not (q.dtype == k.dtype == v.dtype):
        raise ValueError(f"q, k, v have dtypes {q.dtype}, {k.dtype}, {v.dtype}: give them one")
    if not q.dtype.is_floating_point:
        raise ValueError(f"q, k, v are {q.dtype}: attention is of floating numbers")
    if not (q.shape[0] == k.shape[0] == v.shape[0]):
        raise ValueError(f"B differs: q {q.shape[0]}, k {k.shape[0]}, v {v.shape[0]}")
    if k.shape[1] != v.shape[1]:
        raise ValueError(
            f"k has {k.shape[1]} heads and v has {v.shape[1]}: H_kv must be one number"
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"H={q.shape[1]} is not a multiple of H_kv={k.shape[1]}")
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"k has T_kv={k.shape[2]} and v has T_kv={v.shape[2]}")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"q has d_h={q.shape[3]} and k has d_h={k.shape[3]}")
    _check_numbers(causal, window, scale, softcap)
    if mask is not None:
        _check_mask(mask, (*q.shape[:3], k.shape[2]), causal)


def _check_numbers(
    causal: bool, window: int | None, scale: float | None, softcap: float | None
) -> None:
    if window is not None:
        is_count = isinstance(window, int) and not isinstance(window, bool)
        if not is_count or window < 1 or not causal:
            raise ValueError(f"window={window}: give 1 or more keys, together with causal")
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale={scale} is not finite")
    if softcap is not None and not 0.0 < softcap < math.inf:
        # Some libraries write "no cap" as 0; here 0 would make all scores equal.
        raise ValueError(f"softcap={softcap}: give a finite cap above 0, or None for no cap")


def _check_mask(mask: torch.Tensor, scores_shape: tuple[int, ...], causal: bool) -> None:
    if causal:
        raise ValueError("mask together with causal: put the causal part into the mask")
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        raise ValueError(
            f"a mask of {mask.dtype} has no meaning: give bool (True = may attend) "
            "or a floating bias"
        )
    try:
        fits = torch.broadcast_shapes(mask.shape, scores_shape) == torch.Size(scores_shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"mask {tuple(mask.shape)} does not broadcast to (B, H, T_q, T_kv) = {scores_shape}"
        )
