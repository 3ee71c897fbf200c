"""Whether an implementation's outputs are right: compared with float64, relative to plain error."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from impls.interface.inputs import TORCH_DTYPES
from impls.interface.reference import Expected, Reference

# err(implementation) ≤ K · err(plain formula at the dtype) + floor. The largest error of a few
# thousand values varies from one order of summation to another by up to a factor 2 (the bound
# FlashAttention's own tests use on top of an absolute term); 3 leaves room for an online softmax.
K = 3.0

# The floor is for rows where the plain formula is exact by luck (one key: out = v, error 0). In
# units of a typical term summed, or of the largest result. float32: 16 roundings of an accumulator.
# bfloat16 and float16: a quarter of an epsilon, half of one rounding of the result. float64: the
# reference's own error.
FLOORS = {
    "float64": 64 * torch.finfo(torch.float64).eps,
    "float32": 16 * torch.finfo(torch.float32).eps,
    "bfloat16": torch.finfo(torch.bfloat16).eps / 4,
    "float16": torch.finfo(torch.float16).eps / 4,
}

# A score s in float32 is off by about eps·|s|, and its weight exp(s) by that much relatively.
SCORE_FLOOR = 4 * torch.finfo(torch.float32).eps

# Where terms cancel to under this part of their size, a relative distance says nothing.
_CANCELLED = 1e-6


@dataclass(frozen=True)
class Comparison:
    """One output against what is expected; `reasons` is empty when it agrees.

    `max_error` is the largest absolute difference, `relative_error` the Frobenius norm of the
    difference over that of the expected (None where everything cancels); both are None when they
    cannot be computed.
    """

    ok: bool
    max_error: float | None
    relative_error: float | None
    allowed_max: float | None
    allowed_relative: float | None
    naive_max_error: float | None = None
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, float | None]:
        """The numbers, null where there is none."""
        numbers = {
            "max_error": self.max_error,
            "relative_error": self.relative_error,
            "allowed_max": self.allowed_max,
            "allowed_relative": self.allowed_relative,
            "naive_max_error": self.naive_max_error,
        }
        return {n: x if x is not None and math.isfinite(x) else None for n, x in numbers.items()}


@dataclass(frozen=True)
class Check:
    """The verdict on the outputs of one call; `reasons` tells, per output, what is wrong."""

    ok: bool
    rows: str
    outputs: dict[str, Comparison]
    reasons: tuple[str, ...] = ()
    after_timing: bool = False
    where: str = "device"
    against: str = field(default="float64")

    def to_json(self) -> dict[str, Any]:
        """The `check` of a cell's record."""
        return {
            "ok": self.ok,
            "against": self.against,
            "rows": self.rows,
            "outputs": {name: found.to_json() for name, found in self.outputs.items()},
            "after_timing": self.after_timing,
            "where": self.where,
        }


def compare(
    actual: torch.Tensor,
    expected: torch.Tensor,
    allowed_max: float,
    allowed_relative: float | None = None,
) -> Comparison:
    """Whether `actual` is within both distances of `expected`, element by element.

    NaN on either side never agrees, infinities agree only with their own sign, and nothing to
    compare is a failure. A distance that cannot be computed is not small.
    """

    def failed(reason: str) -> Comparison:
        return Comparison(False, None, None, allowed_max, allowed_relative, reasons=(reason,))

    if actual.shape != expected.shape:
        return failed(f"shape {tuple(actual.shape)} where {tuple(expected.shape)} is due")
    if actual.numel() == 0:
        return failed("nothing compared")
    actual, expected = actual.double(), expected.double()
    if bool(expected.isnan().any()):
        return failed("the reference is NaN")
    if count := int(actual.isnan().sum()):
        return failed(f"{count} of {actual.numel()} values are NaN")
    infinite = expected.isinf() | actual.isinf()
    if count := int((infinite & (actual != expected)).sum()):
        return failed(f"{count} of {actual.numel()} values are infinite where they should not be")
    error = (actual - expected).masked_fill(infinite, 0.0)
    largest = float(error.abs().max())
    size = float(torch.linalg.vector_norm(expected.masked_fill(infinite, 0.0)))
    relative = None
    if allowed_relative is not None:
        distance = float(torch.linalg.vector_norm(error))
        relative = distance / size if size else (0.0 if distance == 0.0 else math.inf)
    reasons = []
    if not largest <= allowed_max:
        reasons.append(f"off by {largest:.2e} where {allowed_max:.2e} is allowed")
    if relative is not None and allowed_relative is not None and not relative <= allowed_relative:
        reasons.append(f"off by {relative:.2e} of its size, {allowed_relative:.2e} is allowed")
    return Comparison(
        not reasons, largest, relative, allowed_max, allowed_relative, reasons=tuple(reasons)
    )


@dataclass(frozen=True)
class Due:
    """What one output is held to: its form, and what is expected of its sampled part.

    Attributes:
        sampled: the part of a tensor of this shape that `expected` has.
        floor: what is allowed beside K times the plain formula's error; see `floor_at`.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    expected: Expected
    sampled: Callable[[torch.Tensor], torch.Tensor]
    floor: float


def floor_at(dtype: str, largest_score: float = 0.0) -> float:
    """The floor of a dtype where scores as large as this are rounded to float32."""
    return FLOORS[dtype] + SCORE_FLOOR * largest_score


def check_output(
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    grads: Sequence[torch.Tensor | None] | None,
    reference: Reference,
    *,
    allowed_error: float | None = None,
    after_timing: bool = False,
    where: str = "device",
) -> Check:
    """Check what a call gave: out (B, H, T_q, d_v), lse (B, H, T_q), grads (dq, dk, dv).

    What is None was not asked of it; all None fails, as nothing was compared. Shapes and dtypes
    must be the interface's, and every element finite over the whole output, not only in the sampled
    rows (lse may be −inf). `allowed_error` is that of an implementation that approximates.
    """
    given = {n: t for n, t in (("out", out), ("lse", lse)) if t is not None}
    if grads is not None:
        # A gradient that autograd did not return is missing, not left out.
        given |= dict(zip(("dq", "dk", "dv"), grads, strict=True))
    return check_each(
        given,
        {name: _due(name, reference, allowed_error or 0.0) for name in given},
        rows=reference.sample.words,
        after_timing=after_timing,
        where=where,
    )


def check_each(
    given: Mapping[str, torch.Tensor | None],
    due: Mapping[str, Due],
    *,
    rows: str,
    after_timing: bool = False,
    where: str = "device",
) -> Check:
    """Check outputs by name against what is due under the same name.

    None is one that is missing. `rows` says which part was compared, "all" or a sample in words.
    """
    outputs = {n: _checked(n, t, due[n]) for n, t in given.items() if t is not None}
    reasons = [f"{n}: no gradient arrived" for n, t in given.items() if t is None]
    reasons += [f"{n}: {why}" for n, found in outputs.items() for why in found.reasons]
    if not outputs:
        reasons.append("no tensor was returned: nothing compared")
    return Check(not reasons, rows, outputs, tuple(reasons), after_timing, where)


def _due(name: str, reference: Reference, at_least: float) -> Due:
    p = reference.problem
    shape = {
        "out": (p.B, p.H, p.T_q, p.d_v),
        "lse": (p.B, p.H, p.T_q),
        "dq": (p.B, p.H, p.T_q, p.d_h),
        "dk": (p.B, p.H_kv, p.T_kv, p.d_h),
        "dv": (p.B, p.H_kv, p.T_kv, p.d_v),
    }[name]
    is_lse = name == "lse"
    return Due(
        shape,
        torch.float32 if is_lse and p.dtype != "float64" else TORCH_DTYPES[p.dtype],
        reference.sample.rows.device,
        reference.outputs[name],
        sampled=partial(reference.rows_of, name),
        floor=max(at_least, floor_at(p.dtype, 0.0 if is_lse else reference.largest_score)),
    )


def _checked(name: str, tensor: torch.Tensor, due: Due) -> Comparison:
    reasons = _not_as_due(tensor, due.shape, due.dtype, due.device)
    if reasons:
        return Comparison(False, None, None, None, None, reasons=tuple(reasons))
    if tensor.numel() == 0:
        # An empty problem: the right shape is the whole answer.
        return Comparison(True, 0.0, None, 0.0, None, 0.0)
    tensor, expected = tensor.detach(), due.expected
    naive = compare(expected.naive, expected.value, math.inf, math.inf)
    found = compare(due.sampled(tensor), expected.value, *_allowed(expected, naive, due.floor))
    found = replace(found, naive_max_error=naive.max_error)
    fine = tensor.isfinite() if name != "lse" else tensor.isfinite() | (tensor == -torch.inf)
    if count := tensor.numel() - int(fine.sum()):
        reason = f"{count} of {tensor.numel()} values are not finite"
        found = replace(found, ok=False, reasons=(reason, *found.reasons))
    return found


def _not_as_due(
    given: Any, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> list[str]:
    """In what `given` is not the dense tensor that is due; kernels return all sorts of things."""
    if not isinstance(given, torch.Tensor):
        return [f"a {type(given).__name__} where a tensor is due"]
    found = {
        "shape": (tuple(given.shape), shape),
        "dtype": (given.dtype, dtype),
        "device": (given.device, device),
        "layout": (given.layout, torch.strided),
    }
    return [f"{what} {has} where {due} is due" for what, (has, due) in found.items() if has != due]


def _allowed(expected: Expected, naive: Comparison, floor: float) -> tuple[float, float | None]:
    """The largest absolute and relative distances allowed."""
    finite = expected.value[expected.value.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    rms = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    if naive.max_error is None or naive.relative_error is None:
        # The plain formula itself overflows at this dtype: the floor alone is allowed.
        return floor * max(expected.magnitude, largest), floor
    allowed_max = K * naive.max_error + floor * max(expected.magnitude, largest)
    if rms <= _CANCELLED * expected.magnitude:
        return allowed_max, None
    return allowed_max, K * naive.relative_error + floor


@contextmanager
def poisoned_empty() -> Iterator[None]:
    """Within it, uninitialised memory is NaN: what nobody wrote cannot look right.

    torch's own switch does the filling: `torch.empty` and its kin, and the C++ operators' outputs,
    are filled while deterministic algorithms are asked for. Outputs that compiled code allocates
    by itself escape it. Not for timing; what was set before is set again afterwards.
    """
    # `torch.use_deterministic_algorithms` would import Inductor: two seconds, for nothing here.
    was = torch.get_deterministic_debug_mode()
    # The module is there and in torch's documentation, but torch.utils does not declare it.
    deterministic: Any = torch.utils.deterministic  # pyright: ignore[reportAttributeAccessIssue]
    was_filling = deterministic.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("warn")
    deterministic.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            # Of operators without a deterministic form: they are not what is tested here.
            warnings.filterwarnings("ignore", message=".*deterministic.*")
            yield
    finally:
        torch.set_deterministic_debug_mode(was)
        deterministic.fill_uninitialized_memory = was_filling
