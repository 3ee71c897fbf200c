"""Latency along T, at fixed heads: who is fastest, how near its bound, what does causal save?

A run's leading findings answer it, `results/findings.py`: this is the sweep they prefer.
"""

from impls.interface.problem import Problem
from suites.session.sweep import BRIEF, LONGER, TELLING, Series, masked_both_ways

AXIS = "sequence_length"


def series(device: str, dtype: str) -> list[Series]:
    """T doubles; on CUDA B·T = 16 384 and H·d_h = 2048 as published, and B = 1 beside it."""
    if device == "cpu":
        ladder = [
            Problem(B=1, T_q=T, T_kv=T, H=8, d_h=64, dtype=dtype) for T in _powers(128, 16384)
        ]
        causal = tuple(p.with_(causal=True) for p in ladder)
        return [
            Series("T, full", tuple(ladder), 4),
            Series("T, causal", causal, 4, BRIEF, TELLING),
            Series("T, causal", causal, 4, LONGER),
        ]
    Ts = _powers(512, 32768)
    lines = []
    for d_h in (64, 128):
        H = 2048 // d_h
        full_batch = [
            Problem(B=max(1, 16384 // T), T_q=T, T_kv=T, H=H, d_h=d_h, dtype=dtype) for T in Ts
        ]
        one = [p.with_(B=1) for p in full_batch if p.B > 1]
        lines += masked_both_ways(f"T at B·T = 16384, d_h {d_h}", full_batch, rungs_per_turn=(4, 4))
        lines += masked_both_ways(f"T at B = 1, d_h {d_h}", one)
    return lines


def bench_sequence_length(cell, measure):
    """Measure one cell."""
    measure(cell)


def _powers(first: int, last: int) -> list[int]:
    return [first << n for n in range((last // first).bit_length())]
