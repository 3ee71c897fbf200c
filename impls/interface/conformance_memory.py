"""Several calls in one memory: what one keeps from another, or takes back from it."""

from __future__ import annotations

from dataclasses import fields

import torch

from impls.interface.attention import Unsupported
from impls.interface.conformance_cases import ASKS, CORE_PROBLEMS, Case, asks_of
from impls.interface.conformance_trial import Given, Outcome, Trial, expected_of
from impls.interface.failures import failures, told
from impls.interface.inputs import Inputs, make_inputs
from impls.interface.problem import Problem

SUBJECT = "other values in the same memory"
_KEPT = (
    "it gave the result of values that were there before: what is kept by the address or shape of "
    "the inputs is not computed"
)
_TAKEN_BACK = (
    "{names} of an earlier call changed with the next call: each call must give memory of its own, "
    "not one buffer again"
)


def memory_outcomes(trial: Trial) -> list[Outcome]:
    """Whether what it gives follows its inputs' values, and stays what it was.

    Each is three calls in one memory: on some values, on others, on the first again. One that
    compiles for each problem is asked of one problem, which it may have at hand.
    """
    cases = [Case(SUBJECT, Problem.parse(text)) for text in CORE_PROBLEMS]
    asks = ASKS
    if trial.implementation.needs_compiler:
        asks = ("output", "gradients")
        cases = [case for case in cases if not trial.against(case, "output")][:1]
    return [
        _outcome(trial, case, ask) for case in cases for ask in asks if ask in asks_of(case.problem)
    ]


def _outcome(trial: Trial, case: Case, ask: str) -> Outcome:
    if against := trial.against(case, ask):
        return Outcome(case.id, ask, "unsupported", tuple(against))
    try:
        reasons = _three_calls(trial, case, ask)
    except Unsupported as error:
        return Outcome(case.id, ask, "unsupported", tuple(error.reasons))
    except failures() as error:
        reasons = [f"raised {told(error)}"]
    return Outcome(case.id, ask, "wrong" if reasons else "passed", tuple(reasons))


def _three_calls(trial: Trial, case: Case, ask: str) -> list[str]:
    """What is wrong with the second and third call, the first being the matrix's own."""
    some, _, of_some = expected_of(case, trial.device)
    others, _, of_others = expected_of(Case(case.subject, case.problem, "other seed"), trial.device)
    memory = make_inputs(case.problem, trial.device)
    earlier = trial.given(case, ask, memory)
    before = [tensor.clone() for tensor in _tensors(earlier).values()]
    for values, expected, of_before in ((others, of_others, of_some), (some, of_some, of_others)):
        _write(memory, values)
        given = trial.given(case, ask, memory)
        check = trial.check(given, expected)
        if not check.ok:
            return [_KEPT] if trial.check(given, of_before).ok else list(check.reasons)
        now = _tensors(earlier)
        if changed := [n for n, was in zip(now, before, strict=True) if not _same(now[n], was)]:
            return [_TAKEN_BACK.format(names=", ".join(changed))]
    return []


def _write(memory: Inputs, values: Inputs) -> None:
    """As a caller would write into its own tensors, so that autograd knows of it."""
    with torch.no_grad():
        for name in (field.name for field in fields(Inputs)):
            getattr(memory, name).copy_(getattr(values, name))


def _tensors(given: Given) -> dict[str, torch.Tensor]:
    """Those of a call's results that are tensors, by name: kernels return all sorts of things."""
    out, lse, gradients = given
    named = {"out": out, "lse": lse}
    named |= dict(zip(("dq", "dk", "dv"), gradients or (), strict=False))
    return {n: t.detach() for n, t in named.items() if isinstance(t, torch.Tensor)}


def _same(now: torch.Tensor, was: torch.Tensor) -> bool:
    return bool(((now == was) | (now.isnan() & was.isnan())).all())
