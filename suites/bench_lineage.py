"""Lineage: what does the scoring function cost, and where does linear attention overtake T²?

Additive (Bahdanau 2015), multiplicative (Luong 2015) and linear attention (Katharopoulos 2020) on
the lengths and heads of dot-product attention, which `naive` and `sdpa_flash` stand for. They are
other operators, each held to its own formula: their times are costs, no places in a ranking.
"""

from impls.interface.problem import SOFTMAX, Problem
from suites.session.sweep import Series, masked_both_ways

AXIS = "lineage"
PASSES = ("forward",)
BUDGETS = ("default", "full")
CPU_DTYPES = ("float32",)
BESIDE = ("naive", "sdpa_flash")
OPERATORS = (SOFTMAX, "linear", "multiplicative", "additive")


def series(device: str, dtype: str) -> list[Series]:
    """T doubles at H 4, and on CUDA as published: B·T = 16 384, H·d_h = 2048."""
    if device == "cpu":
        ladder = [
            Problem(B=1, T_q=T, T_kv=T, H=4, d_h=64, dtype=dtype)
            for T in (128, 256, 512, 1024, 2048, 4096, 8192)
        ]
    else:
        ladder = [
            Problem(B=16384 // T, T_q=T, T_kv=T, H=32, d_h=64, dtype=dtype)
            for T in (512, 1024, 2048, 4096, 8192, 16384)
        ]
    return [
        line
        for operator in OPERATORS
        for line in masked_both_ways(
            f"T, {operator}", [p.with_(operator=operator) for p in ladder], rungs_per_turn=(4, 1)
        )
    ]


def bench_lineage(cell, measure):
    """Measure one cell."""
    measure(cell)
