"""One implementation on trial: a case is called as it asks, and what came out is judged."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from impls.interface import torch_state
from impls.interface.attention import Implementation, Unsupported, attend, reasons_against
from impls.interface.check import Check, check_output, poisoned_empty
from impls.interface.conformance_cases import Case
from impls.interface.conformance_mistakes import mistaken_for
from impls.interface.conformance_values import make_mask, make_values
from impls.interface.failures import failures, told
from impls.interface.inputs import Inputs, copy_of, put_back
from impls.interface.problem import Problem
from impls.interface.reference import Reference, reference


@dataclass(frozen=True)
class Outcome:
    """One check: `status` is "passed", "wrong" or "unsupported", the latter two with reasons."""

    case: str
    ask: str
    status: str
    reasons: tuple[str, ...] = ()
    check: dict[str, Any] | None = None


@functools.cache
def expected_of(case: Case, device: str) -> tuple[Inputs, torch.Tensor | None, Reference]:
    """Inputs, mask and reference of a case: one for all implementations and all asks."""
    inputs = make_values(case.values, case.problem, device)
    mask = make_mask(case.mask, case.problem, device) if case.mask else None
    found = reference(
        inputs,
        case.problem,
        mask=mask,
        scale=case.scale,
        softcap=case.softcap,
        gradients="gradients" in case.asks,
    )
    return inputs, mask, found


_Gave = tuple[torch.Tensor, torch.Tensor | None]
Given = tuple[torch.Tensor, torch.Tensor | None, tuple[torch.Tensor | None, ...] | None]
"""Output, lse and gradients of one call; None is what was not asked for."""


class Trial:
    """One implementation on one device, and what it prepared for the problem at hand."""

    def __init__(self, implementation: Implementation, device: str, where: str) -> None:
        self.implementation = implementation
        self.device = device
        self.where = where
        self._prepared: tuple[Problem, Callable[..., torch.Tensor] | None] | None = None

    def outcome(self, case: Case, ask: str) -> Outcome:
        """The verdict on one check: what it refuses is unsupported, what it raises is wrong."""
        if against := self.against(case, ask):
            return Outcome(case.id, ask, "unsupported", tuple(against))
        inputs, mask, expected = expected_of(case, self.device)
        if against := self.too_large(expected):
            return Outcome(case.id, ask, "unsupported", tuple(against))
        before, settings = copy_of(inputs), torch_state.read()
        try:
            with poisoned_empty() if case.poisoned else nullcontext():
                given = self.given(case, ask, inputs, mask)
                check = self.check(given, expected)
        except Unsupported as error:
            return Outcome(case.id, ask, "unsupported", tuple(error.reasons))
        except failures() as error:
            return Outcome(case.id, ask, "wrong", (f"raised {told(error)}",))
        finally:
            written, changed = put_back(inputs, before), torch_state.put_back(settings)
        reasons = [f"it wrote into its inputs: {', '.join(written)}"] * bool(written)
        reasons += [f"it changed for all: {', '.join(changed)}"] * bool(changed)
        if reasons:
            return Outcome(case.id, ask, "wrong", (*reasons, *check.reasons), check.to_json())
        if check.ok:
            return Outcome(case.id, ask, "passed", (), check.to_json())
        mistake = mistaken_for(case, inputs, mask, given[0])
        return Outcome(case.id, ask, "wrong", (*mistake, *check.reasons), check.to_json())

    def against(self, case: Case, ask: str) -> list[str]:
        """What it has against being asked this of the case; empty when nothing."""
        needs = {"output": set(), "lse": {"lse"}, "gradients": {"backward"}}[ask]
        needs |= {n for n in ("mask", "scale", "softcap") if getattr(case, n) is not None}
        return reasons_against(self.implementation, case.problem, self.device, needs)

    def too_large(self, expected: Reference) -> list[str]:
        """What it has against the scores of a case; empty when nothing."""
        limit = self.implementation.largest_score.get(expected.problem.dtype, math.inf)
        found = expected.largest_score
        return [f"scores of {found:.3g} are above {limit:g}"] if found > limit else []

    def given(
        self, case: Case, ask: str, inputs: Inputs, mask: torch.Tensor | None = None
    ) -> Given:
        """What one call gives of what is asked, computed to its end."""
        if ask != "gradients":
            with torch.no_grad():
                out, lse = self.call(case, inputs.q, inputs.k, inputs.v, mask, ask == "lse")
            self.wait()
            return out, lse, None
        q, k, v = (t.detach().requires_grad_() for t in (inputs.q, inputs.k, inputs.v))
        with torch.enable_grad():
            out, _ = self.call(case, q, k, v, mask, False)
            gradients = torch.autograd.grad(out, (q, k, v), inputs.d_out, allow_unused=True)
        self.wait()
        return out, None, gradients

    def check(self, given: Given, expected: Reference) -> Check:
        """What was given, against float64."""
        allowed = self.implementation.allowed_error
        return check_output(*given, expected, allowed_error=allowed, where=self.where)

    def call(
        self,
        case: Case,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        with_lse: bool,
    ) -> _Gave:
        """Output and lse of one call, by the prepared forward where there is one."""
        is_plain = mask is None and case.scale is None and case.softcap is None
        may_prepare = is_plain and not with_lse and not case.problem.is_empty
        if may_prepare and (forward := self._forward_of(case.problem)) is not None:
            return forward(q, k, v), None
        return attend(
            self.implementation,
            *(q, k, v),
            causal=case.problem.causal,
            window=case.problem.window,
            mask=mask,
            scale=case.scale,
            softcap=case.softcap,
            with_lse=with_lse,
        )

    def _forward_of(self, problem: Problem) -> Callable[..., torch.Tensor] | None:
        """What is prepared for the problem, once for calls that follow one another."""
        if self._prepared is None or self._prepared[0] != problem:
            self._prepared = (problem, self.implementation.prepared(problem, self.device))
        return self._prepared[1]

    def wait(self) -> None:
        """Until an asynchronous call has finished."""
        if self.implementation.synchronize is not None:
            self.implementation.synchronize()
