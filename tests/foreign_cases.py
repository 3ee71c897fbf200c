"""What adapters of 16-bit kernels are checked on, as by `python -m impls check`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from impls.interface.conformance_cases import ASKS, Case
from impls.interface.conformance_trial import Outcome, Trial
from impls.interface.problem import Problem

HALF = {"dtype": "float16"}
FULL = Case("full, grouped", Problem.parse("B=2,T=33,H=4,H_kv=2,d_h=64", **HALF))
APPENDED = Case(
    "causal, T_q < T_kv", Problem.parse("B=2,T_q=17,T_kv=48,H=4,H_kv=1,d_h=64,causal,bthd", **HALF)
)
BLIND = Case("causal, T_q > T_kv", Problem.parse("T_q=48,T_kv=16,H=2,d_h=64,causal", **HALF))
WINDOW = Case("window", Problem.parse("T=65,H=2,d_h=64,causal,window=17,bfloat16"))
APPENDED_WINDOW = Case(
    "window, T_q < T_kv", Problem.parse("T_q=5,T_kv=64,H=2,d_h=64,causal,window=3", **HALF)
)
PACKED = Case("packed", Problem.parse("B=2,T=16,H=3,d_h=40,packed,causal", **HALF))
DECODE = Case("decode", Problem.parse("B=2,T_q=1,T_kv=64,H=8,H_kv=2,d_h=128,causal,bfloat16"))
PLAIN = Problem.parse("B=2,T=16,H=2,d_h=64", **HALF)
SCALED = Case("scale", PLAIN, scale=0.03)
CAPPED = Case("softcap", PLAIN, "large logits", softcap=20.0)
STRIDED = Case("strides", PLAIN, "every second element")
MATRIX = [FULL, APPENDED, BLIND, WINDOW, APPENDED_WINDOW, PACKED, DECODE, SCALED, CAPPED, STRIDED]


def outcomes(implementation, matrix=MATRIX) -> dict[tuple[str, str], Outcome]:
    """Every check of the matrix by (subject, ask)."""
    trial = Trial(implementation, "cpu", "device")
    return {(case.subject, ask): trial.outcome(case, ask) for case in matrix for ask in case.asks}


def passes_all_but(
    implementation, *unsupported: tuple[str, str], matrix: Sequence[Case] = MATRIX
) -> None:
    """Every check passed but these, which it says it does not support."""
    found = outcomes(implementation, matrix)
    assert not {of: o.reasons for of, o in found.items() if o.status == "wrong"}
    assert {of for of, o in found.items() if o.status == "unsupported"} == set(unsupported)


def wrong(implementation, *matrix: Case) -> set[tuple[str, str]]:
    return {of for of, o in outcomes(implementation, matrix).items() if o.status == "wrong"}


def on_a_device(monkeypatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)


STRIDED_ASKS = [("strides", ask) for ask in ASKS]

LENGTHS = [
    Case(text, Problem.parse(f"{text},d_h=64", **HALF), asks=("output", "gradients"))
    for text in (
        "lengths=0+17+1+33,H=2",
        "lengths=16+5+33,H=4,H_kv=2,causal,bthd",
        "lengths=16+33,H=2,causal,packed",
        "lengths=1+1+1,lengths_kv=33+1+64,H=4,H_kv=1,causal",
        "lengths=9+20,lengths_kv=5+64,H=2,causal,window=7",
    )
]
