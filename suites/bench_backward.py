"""Backward: what does training cost beyond the forward pass, and do the gradients repeat?

The backward alone and both passes together, on sizes of the sweep over T, where the forward alone
is measured. Gradients start from nothing in every call. The backward is counted as 2.5 times the
forward's FLOP: what it takes beyond that, an implementation pays for recomputing the weights or
for keeping them. With fewer kv heads the gradients of the query heads that share one are added
up: a sum in an order of its own each time does not repeat bit by bit.
"""

from impls.interface.problem import Problem
from suites.session.sweep import BRIEF, LONGER, TELLING, Series

AXIS = "backward"
PASSES = ("backward", "forward_backward")


def series(device: str, dtype: str) -> list[Series]:
    """T doubles, full and causal, then H_kv at one T; small budgets have one T, full."""
    if device == "cpu":
        ladder = [_square(T, B=1, H=8, d_h=64, dtype=dtype) for T in (512, 1024, 2048, 4096)]
    else:
        # B·T = 16 384 and H·d_h = 2048, as published.
        sizes = {"H": 16, "d_h": 128, "dtype": dtype}
        Ts = (2048, 4096, 8192, 16384, 512, 1024)
        ladder = [_square(T, B=16384 // T, **sizes) for T in Ts]
    first = ladder[0]
    brief = _square(256, B=1, H=8, d_h=64, dtype=dtype) if device == "cpu" else first
    shared = [first.with_(H_kv=first.H // group) for group in (4, first.H, 2)]
    causal = [p.with_(causal=True) for p in ladder]
    telling = None if device == "cuda" else TELLING
    return [
        Series("T, full", (brief,), 3, budgets=BRIEF, implementations=telling),
        Series("T, full", tuple(ladder), budgets=LONGER),
        Series("T, causal", tuple(causal), budgets=LONGER),
        Series(f"H_kv at T {first.T_q}, full", tuple(shared), budgets=LONGER),
    ]


def bench_backward(cell, measure):
    """Measure one cell."""
    measure(cell)


def _square(T: int, **sizes) -> Problem:
    return Problem(T_q=T, T_kv=T, **sizes)
