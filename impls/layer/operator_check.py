"""The conformance of what computes another operator: awkward problems, against its own formula."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import torch

from impls.interface.attention import Implementation, reasons_against
from impls.interface.availability import version_of
from impls.interface.check import check_output, poisoned_empty
from impls.interface.conformance import Conformance
from impls.interface.conformance_trial import Outcome
from impls.interface.failures import failures, told
from impls.interface.inputs import copy_of, make_inputs, put_back
from impls.interface.problem import LAYOUTS, Problem
from impls.layer.operator_reference import operator_reference

# (T_q, T_kv, d_h, d_v): one token, no multiple of a chunk, more keys, more queries, other values.
_SIZES = ((1, 1, 8, 8), (63, 63, 40, 40), (130, 130, 16, 16), (3, 70, 16, 24), (70, 3, 16, 16))


def operator_problems(implementation: Implementation) -> list[Problem]:
    """What it is tried on: awkward sizes, full and causal, in every dtype, and every layout."""
    dtypes = implementation.capabilities.dtypes
    found = [
        Problem(2, T_q, T_kv, 3, d_h, d_v=d_v, dtype=dtype, causal=causal)
        for (T_q, T_kv, d_h, d_v), dtype, causal in itertools.product(_SIZES, dtypes, (False, True))
    ]
    found += [Problem(2, 33, 33, 3, 16, causal=True, layout=layout) for layout in LAYOUTS]
    return [problem.with_(operator=implementation.operator) for problem in found]


def operator_conformance(
    implementation: Implementation,
    device: str,
    progress: Callable[[int, int], None] | None = None,
) -> Conformance:
    """Try the problems on one implementation that is available on `device`.

    `progress(done, all)` is called after each.
    """
    started = time.perf_counter()
    problems = operator_problems(implementation)
    outcomes = []
    for i, problem in enumerate(problems):
        outcomes.append(_outcome(implementation, problem, device))
        if progress is not None:
            progress(i + 1, len(problems))
    return Conformance(
        implementation.name,
        version_of(implementation),
        device,
        "device",
        tuple(outcomes),
        elapsed_s=time.perf_counter() - started,
    )


def _outcome(implementation: Implementation, problem: Problem, device: str) -> Outcome:
    if against := reasons_against(implementation, problem, device):
        return Outcome(problem.id, "output", "unsupported", tuple(against))
    inputs = make_inputs(problem, device)
    before = copy_of(inputs)
    try:
        with torch.no_grad(), poisoned_empty():
            assert implementation.prepare is not None
            out = implementation.prepare(problem, device)(inputs.q, inputs.k, inputs.v)
    except failures() as error:
        return Outcome(problem.id, "output", "wrong", (f"raised {told(error)}",))
    changed = put_back(inputs, before)
    check = check_output(out, None, None, operator_reference(inputs, problem))
    reasons = [f"it wrote into its inputs: {', '.join(changed)}"] if changed else []
    reasons += check.reasons
    status = "wrong" if reasons else "passed"
    return Outcome(problem.id, "output", status, tuple(reasons), check.to_json())
