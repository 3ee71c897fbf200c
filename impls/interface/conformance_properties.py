"""What is measured of an implementation beside right and wrong, and whether it fell back."""

from __future__ import annotations

import torch

from impls.interface.attention import Unsupported, reasons_against
from impls.interface.check import compare
from impls.interface.conformance_cases import CORE_PROBLEMS, Case
from impls.interface.conformance_trial import Outcome, Trial, expected_of
from impls.interface.failures import failures, told
from impls.interface.inputs import make_inputs
from impls.interface.problem import Problem
from impls.interface.ran import fell_back, profiled_names

FALLBACK = "silent fallback"
UNKNOWN = "unknown"
_GARBAGE = "NaN in a key that is masked out"


def fallback(trial: Trial) -> tuple[list[Outcome], str]:
    """Whether one of the names it claims to run is in a profile of a call, and what ran."""
    if trial.where == "interpreter":
        why = ("the interpreter runs no kernel that a profile could show",)
        return [Outcome(FALLBACK, "profile", "unsupported", why)], UNKNOWN
    case = _probe(trial)
    if case is None:
        return [], UNKNOWN
    inputs = make_inputs(case.problem, trial.device)

    def call() -> None:
        with torch.no_grad():
            trial.call(case, inputs.q, inputs.k, inputs.v, None, False)
        trial.wait()

    try:
        call()
        names = profiled_names(call, trial.device)
    except Unsupported as error:
        return [Outcome(FALLBACK, "profile", "unsupported", tuple(error.reasons))], UNKNOWN
    except failures() as error:
        return [Outcome(FALLBACK, "profile", "wrong", (f"raised {told(error)}",))], UNKNOWN
    claimed = trial.implementation.runs
    shown = [name for name in names if any(part in name for part in claimed)] or names[:3]
    if not claimed:
        return [], ", ".join(shown)
    reasons = tuple(fell_back(trial.implementation, names))
    return [Outcome(FALLBACK, "profile", "wrong" if reasons else "passed", reasons)], ", ".join(
        shown
    )


def masked_garbage_safe(trial: Trial) -> str:
    """ "yes" when NaN in the last key and value leaves the rows that must not see it right.

    The last key of a causal problem is seen by the last query alone. "unknown" when it is not
    causal, or the call fails or gives what is no tensor.
    """
    case = Case(_GARBAGE, Problem.parse(CORE_PROBLEMS[0]))
    if reasons_against(trial.implementation, case.problem, trial.device):
        return UNKNOWN
    inputs, _, expected = expected_of(case, trial.device)
    k, v = inputs.k.clone(), inputs.v.clone()
    k[:, :, -1], v[:, :, -1] = torch.nan, torch.nan
    try:
        with torch.no_grad():
            out, _ = trial.call(case, inputs.q, k, v, None, False)
        trial.wait()
        value = expected.outputs["out"].value[:, :-1]
        rows = expected.rows_of("out", out)[:, :-1]
        # A wide tolerance: whether it is right to the last digit is judged elsewhere.
        return "yes" if compare(rows, value, allowed_max=1e-2).ok else "no"
    except failures():
        return UNKNOWN


def bitwise_repeatable(trial: Trial) -> str:
    """ "yes" when two calls on the same inputs give the same bits, gradients included."""
    case = _probe(trial)
    if case is None:
        return UNKNOWN
    inputs = make_inputs(case.problem, trial.device)
    has_backward = "backward" in trial.implementation.capabilities.passes
    q, k, v = (t.requires_grad_(has_backward) for t in (inputs.q, inputs.k, inputs.v))
    given = []
    try:
        for _ in range(2):
            with torch.set_grad_enabled(has_backward):
                out, _ = trial.call(case, q, k, v, None, False)
            gradients = torch.autograd.grad(out, (q, k, v), inputs.d_out) if has_backward else ()
            trial.wait()
            given.append((out.detach(), *gradients))
        return "yes" if all(map(torch.equal, *given)) else "no"
    except failures():
        return UNKNOWN


def _probe(trial: Trial) -> Case | None:
    """The first core problem it has nothing against."""
    for text in CORE_PROBLEMS:
        problem = Problem.parse(text)
        if not reasons_against(trial.implementation, problem, trial.device):
            return Case("property", problem)
    return None
