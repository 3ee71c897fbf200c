"""A kernel of another library as an implementation: what an adapter does around its call."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from impls.interface.attention import (
    Capabilities,
    Forward,
    Implementation,
    Unsupported,
    reasons_against,
)
from impls.interface.inputs import TORCH_DTYPES
from impls.interface.masking import nothing_attended, scale_or_default
from impls.interface.problem import Problem
from impls.interface.sequences import offsets

SIXTEEN_BIT = ("bfloat16", "float16")

Given = tuple[torch.Tensor, torch.Tensor | None]
Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Given]


@dataclass(frozen=True)
class Wanted:
    """What is asked beside the problem: a positive scale, a cap of the scores, the LSE."""

    scale: float
    softcap: float | None = None
    with_lse: bool = False


class Build(Protocol):
    """Imports the library and prepares, outside the clock, what the problem alone decides.

    What it gives is called as `(q, k, v) -> (out, lse)`, all seen as (B, H, T, d), rows of stride
    1, no size 0, no query without a key; lse (B, H, T_q) float32, natural, or None unless wanted.
    Of variable lengths some may be 0, and a sequence may have more queries than keys.
    """

    def __call__(self, problem: Problem, device: str, wanted: Wanted) -> Call:
        """The call for this problem."""
        ...


@dataclass(frozen=True)
class ForeignKernel:
    """An optional kernel; what has no word here is as of `Implementation`.

    Attributes:
        build: see `Build`.
        build_lengths: the same for variable-length batches, in tensors of B = 1; None: not those.
        install: what to type where the library is not installed, or too old.
        at_least: the oldest version with this signature and these conventions.
    """

    name: str
    summary: str
    capabilities: Capabilities
    library: str
    runs: tuple[str, ...]
    build: Build
    install: str
    at_least: tuple[int, ...]
    build_lengths: Build | None = None
    allowed_error: float | None = None
    largest_score: Mapping[str, float] = field(default_factory=dict, hash=False)

    def implementation(self) -> Implementation:
        """It as an implementation: what it cannot do is refused by all that it declares."""
        gives_lse = "lse" in self.capabilities.needs
        return Implementation(
            name=self.name,
            summary=self.summary,
            capabilities=self.capabilities,
            library=self.library,
            runs=self.runs,
            forward=self._forward,
            forward_with_lse=self._forward_with_lse if gives_lse else None,
            prepare=self._prepare,
            prepare_lengths=self._prepare if self.build_lengths else None,
            unavailable=self._unavailable,
            allowed_error=self.allowed_error,
            largest_score=self.largest_score,
        )

    def _unavailable(self, device: str) -> list[str]:
        """What is lacking, and what to type; nothing that would not help on this device."""
        if device not in self.capabilities.devices:
            return []
        try:
            version = importlib.metadata.version(self.library)
        except importlib.metadata.PackageNotFoundError:
            return [f"{self.library} is not installed: {self.install}"]
        if _numbers(version) >= self.at_least:
            return []
        wanted = ".".join(map(str, self.at_least))
        return [f"{self.library} {version} is older than {wanted}: {self.install}"]

    def _forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **asked: Any):
        return self._attention(q, k, v, with_lse=False, **asked)[0]

    def _forward_with_lse(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **asked: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = self._attention(q, k, v, with_lse=True, **asked)
        if lse is None:
            raise RuntimeError(f"{self.library} gave no lse")
        return out, lse

    def _prepare(self, problem: Problem, device: str) -> Forward:
        call = self._call(problem, device, Wanted(scale_or_default(None, problem.d_h)))
        return lambda q, k, v: call(q, k, v)[0]

    def _attention(
        self,
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
    ) -> Given:
        problem = _problem_of(q, k, v, causal, window)
        is_differentiated = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        asked = {"mask": mask, "scale": scale, "softcap": softcap, "lse": with_lse or None}
        needs = {name for name, value in asked.items() if value is not None}
        needs |= {"backward"} if is_differentiated else set()
        if why := reasons_against(self.implementation(), problem, q.device.type, needs):
            raise Unsupported(*why)
        if problem.is_empty:
            lse = q.new_full(q.shape[:3], -torch.inf, dtype=torch.float32)
            return nothing_attended(q, k, v), lse
        wanted = Wanted(scale_or_default(scale, problem.d_h), softcap, with_lse)
        return self._call(problem, q.device.type, wanted)(q, k, v)

    def _call(self, problem: Problem, device: str, wanted: Wanted) -> Call:
        if wanted.scale <= 0.0:
            # They scale after masking, and hold the maximum of what is not scaled yet.
            raise Unsupported(f"scale={wanted.scale} is not above 0: masked scores are −∞ times it")
        if problem.lengths is not None and self.build_lengths is not None:
            return _of_whole_rows(self.build_lengths(problem, device, wanted))
        dead = problem.T_q - problem.T_kv if problem.causal else 0
        if dead <= 0:
            return _of_whole_rows(self.build(problem, device, wanted))
        # The first queries see no key, and the rest is square: libraries differ in what they give.
        square = _of_whole_rows(self.build(problem.with_(T_q=problem.T_kv), device, wanted))

        def with_dead_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
            out, lse = square(q[:, :, dead:], k, v)
            lse = None if lse is None else F.pad(lse, (dead, 0), value=-torch.inf)
            return F.pad(out, (0, 0, dead, 0)), lse

        return with_dead_rows


def _of_whole_rows(call: Call) -> Call:
    """The call, which refuses rows that are not contiguous: some libraries would copy them."""

    def refusing(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        if not (q.stride(-1) == k.stride(-1) == v.stride(-1) == 1):
            strides = [tensor.stride(-1) for tensor in (q, k, v)]
            raise Unsupported(f"last-dim stride: q, k, v have {strides}, this kernel needs 1")
        return call(q, k, v)

    return refusing


def _problem_of(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window: int | None
) -> Problem:
    (B, H, T_q, d_h), (_, H_kv, T_kv, d_v) = q.shape, v.shape
    known = {dtype: name for name, dtype in TORCH_DTYPES.items()}
    if q.dtype not in known:
        raise Unsupported(f"dtype {str(q.dtype).removeprefix('torch.')} is not supported")
    return Problem(
        B=B,
        T_q=T_q,
        T_kv=T_kv,
        H=H,
        H_kv=H_kv,
        d_h=d_h,
        d_v=d_v,
        dtype=known[q.dtype],
        causal=causal,
        window=window,
    )


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at the head of a version: "2.8.3.post2" is (2, 8, 3)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def through_bthd(attention: Callable[..., Any]) -> Call:
    """The call of a function of (B, T, H, d), handed views and no copies.

    It gives the output alone or a tuple that begins with the output and the LSE (B, H, T_q).
    """

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        given = attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        out, lse = given[:2] if isinstance(given, tuple) else (given, None)
        return out.transpose(1, 2), lse

    return call


def through_thd(attention: Callable[..., Any]) -> Call:
    """The call of a function of all tokens in a row, (Σ T, H, d), handed views."""

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        given = attention(*(tensor[0].transpose(0, 1) for tensor in (q, k, v)))
        out = given[0] if isinstance(given, tuple) else given
        return out.transpose(0, 1)[None], None

    return call


def cumulated(problem: Problem, device: str) -> dict[str, Any]:
    """The lengths as flash-attn's functions are told: where each begins, and the longest."""
    lengths = problem.lengths or ()
    return {
        "cu_seqlens_q": offsets(lengths, device),
        "cu_seqlens_k": offsets(problem.lengths_kv or lengths, device),
        "max_seqlen_q": problem.T_q,
        "max_seqlen_k": problem.T_kv,
    }


def demand(function: Callable[..., Any], parameter: str, install: str) -> None:
    """Refuse a function of an older signature than ours.

    Raises:
        Unsupported: it has no such parameter.
    """
    if parameter not in inspect.signature(function).parameters:
        where = f"{function.__module__}.{function.__name__}"
        raise Unsupported(f"{where} has no {parameter}=, it is an older one: {install}")


def compute_capability() -> tuple[int, int] | None:
    """That of the device; None without one."""
    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None


def against_capability(is_known: Callable[[tuple[int, int]], bool], known: str) -> list[str]:
    """The reason when the library has no kernel for this device's compute capability."""
    found = compute_capability()
    if found is None or is_known(found):
        return []
    return [f"needs compute capability {known}, this device has {found[0]}.{found[1]}"]


def against_multiples(problem: Problem, step: int) -> list[str]:
    """The reasons when d_h or d_v, where it differs, is not a multiple of `step`."""
    sizes = {"d_h": problem.d_h} | ({"d_v": problem.d_v} if problem.d_v != problem.d_h else {})
    return [f"{n}={size} is not a multiple of {step}" for n, size in sizes.items() if size % step]
