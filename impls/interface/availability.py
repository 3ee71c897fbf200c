"""Whether an implementation runs on this machine, decided by one real call, and which version."""

from __future__ import annotations

import functools
import importlib.metadata
from dataclasses import dataclass

import torch

from impls.interface import torch_state
from impls.interface.attention import Implementation, Unsupported, attend, reasons_against
from impls.interface.brought import is_brought
from impls.interface.failures import failures, message_of, told, where_in
from impls.interface.inputs import make_inputs
from impls.interface.named_object import file_of
from impls.interface.problem import Problem

# As torch and Triton say that there is no device for what was asked.
_NO_DRIVER = "active drivers"
_NO_DEVICE = (_NO_DRIVER, "nvidia driver", "not compiled with cuda", "no cuda gpus")


@dataclass(frozen=True)
class Inability:
    """Why an implementation cannot be measured here; `status` as a cell has it.

    "unavailable": something is lacking, a library or a device. "error": a kernel that was brought
    raised. What else its first call may come to, see `first_call`.
    """

    status: str
    reasons: tuple[str, ...]


def availability(implementation: Implementation, device: str) -> list[str]:
    """The reasons why it does not run on `device` ("cpu", "cuda"); empty when it does.

    An import that succeeds proves nothing: the implementation computes 16 tokens. What it computes
    is not judged here: a wrong result is "wrong", not "unavailable". Decided once per process; a
    compiled implementation compiles for it.
    """
    unable = inability(implementation, device)
    return list(unable.reasons) if unable else []


@functools.cache
def inability(implementation: Implementation, device: str) -> Inability | None:
    """Why it cannot be measured on `device`, as `availability`, and as what; None when it can."""
    if device == "cuda" and not torch.cuda.is_available():
        return _lacks("there is no CUDA device")
    if implementation.unavailable is not None and (why := implementation.unavailable(device)):
        return _lacks(*why)
    can = implementation.capabilities
    if device not in can.devices:
        return _lacks(f"does not run on {device} (only {', '.join(can.devices)})")
    problem = tiny_problem(implementation, device)
    if why := reasons_against(implementation, problem, device):
        return _lacks(*why)
    unable = _tried(implementation, problem, device)
    causal = problem.with_(causal=True)
    if unable and not reasons_against(implementation, causal, device):
        # A kernel that is causal alone has no word for it; one that fails at both fails.
        return unable if _tried(implementation, causal, device) else None
    return unable


def _lacks(*reasons: str) -> Inability:
    return Inability("unavailable", reasons)


def _tried(implementation: Implementation, problem: Problem, device: str) -> Inability | None:
    """Why one real call fails; None when it does not."""
    inputs = make_inputs(problem, device)
    try:
        # What it changes for all is told of its own cells, and must not hold for others.
        with torch_state.kept(), torch.no_grad():
            if (forward := implementation.prepared(problem, device)) is not None:
                forward(inputs.q, inputs.k, inputs.v)
            else:
                attend(implementation, inputs.q, inputs.k, inputs.v, causal=problem.causal)
            if implementation.synchronize is not None:
                implementation.synchronize()
            if device == "cuda":
                # An asynchronous failure shows here.
                torch.cuda.synchronize()
    except Unsupported as error:
        return _lacks(*error.reasons)
    except failures() as error:
        why = f"{told(error)} (tried with {problem.id})"
        if is_brought(implementation) and _NO_DRIVER in message_of(error):
            line = f"TRITON_INTERPRET=1 python -m impls check --impl {implementation.source}"
            return _lacks(why, f"a Triton kernel needs a GPU; `{line}` proves it without one")
        if not is_brought(implementation) or _tells_of_a_lack(error):
            return _lacks(why)
        return Inability("error", (f"{why} at {where_in(error, file_of(implementation.source))}",))
    return None


def _tells_of_a_lack(error: BaseException) -> bool:
    text = message_of(error).lower()
    return isinstance(error, ImportError) or any(words in text for words in _NO_DEVICE)


def tiny_problem(implementation: Implementation, device: str) -> Problem:
    """The first of some tiny problems that it has nothing against, else the very first."""
    can = implementation.capabilities
    step = can.d_h_multiple_of
    d_h = min(64, can.max_d_h or 64) // step * step or step
    plain = Problem(B=1, T_q=16, T_kv=16, H=2, d_h=d_h, operator=implementation.operator)
    if not can.dense:
        plain = Problem.of_lengths((16, 8), H=2, d_h=d_h)
    of_one_query = [] if plain.lengths else [plain.with_(T_q=1)]
    candidates = [
        tried.with_(dtype=dtype, causal=causal, layout=layout)
        for tried in (plain, *of_one_query)
        for dtype in can.dtypes
        for causal in (False, True)
        for layout in can.layouts
        if layout != "packed" or tried.T_q == tried.T_kv
    ]
    for problem in candidates:
        if not reasons_against(implementation, problem, device):
            return problem
    return candidates[0]


@functools.cache
def version_of(implementation: Implementation) -> str:
    """The library and its version, "torch 2.13.0+cpu"; "… not installed" without it."""
    if implementation.library == "torch":
        return f"torch {torch.__version__}"
    try:
        return f"{implementation.library} {importlib.metadata.version(implementation.library)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{implementation.library} not installed"
