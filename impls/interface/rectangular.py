"""Whether a brought kernel's causal is right where T_q ≠ T_kv: what square problems never show."""

from __future__ import annotations

from impls.interface.attention import Implementation, reasons_against
from impls.interface.availability import tiny_problem
from impls.interface.conformance_cases import Case
from impls.interface.conformance_trial import Trial

T_Q, T_KV = 5, 9


def rectangular_fault(implementation: Implementation, device: str) -> str | None:
    """What is wrong with causal at 5 queries and 9 keys; None where right or not claimed.

    Of an implementation that is available on `device`. The usual fault is another alignment of the
    mask than to the bottom right. One that raises has refused, and measured nothing else instead.
    """
    problem = tiny_problem(implementation, device).with_(T_q=T_Q, T_kv=T_KV, causal=True)
    if reasons_against(implementation, problem, device):
        return None
    case = Case("causal T_q ≠ T_kv", problem, asks=("output",))
    found = Trial(implementation, device, "device").outcome(case, "output")
    is_wrong = found.check is not None and not found.check["ok"]
    return found.reasons[0] if is_wrong else None
