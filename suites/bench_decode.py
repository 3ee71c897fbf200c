"""Decoding: does it run at the speed of memory, and are fewer kv heads as much faster as smaller?

One query for each sequence reads the whole KV cache: few FLOP a byte, so bytes bind. Sharing kv
heads makes the cache smaller and never the arithmetic: time follows H_kv where each key is read
once for all the heads that share it, and stays where it is read anew for every one. T_kv shows
where the cache leaves the processor's own, B how many sequences it takes to fill the device, and a
few queries (guessed tokens to verify) what comes for free with the reading.
"""

from impls.interface.problem import Problem
from suites.session.sweep import BRIEF, LONGER, TELLING, Series

AXIS = "decode"
CPU_DTYPES = ("bfloat16", "float32")  # as caches are kept: the small budgets have the first alone
_TELLING = (*TELLING, "grouped_decode")


def series(device: str, dtype: str) -> list[Series]:
    """H_kv at one T_kv, the most telling first; then T_kv up to 128k, B up to 256, and T_q.

    On a CPU all implementations take part in the full budget alone, or where this file is named.
    """
    step = Problem(B=1, T_q=1, T_kv=8192, H=32, H_kv=8, d_h=128, dtype=dtype)
    batched = step.with_(T_kv=1024 if device == "cpu" else 8192)
    by_H_kv = [step.with_(H_kv=H_kv) for H_kv in (8, 32, 1, 4, 16, 2)]
    T_kv = 2048 if device == "cpu" else step.T_kv
    short = [step.with_(T_kv=T_kv, H_kv=H_kv) for H_kv in (8, 32)]
    by_T_q = [step.with_(T_q=T_q, causal=True) for T_q in (4, 16)]
    by_B = [batched.with_(B=B) for B in (4, 16, 64, 1, 256)]
    telling = None if device == "cuda" else _TELLING
    heads = f"H_kv at T_kv {step.T_kv}"
    return [
        Series(f"H_kv at T_kv {T_kv}", tuple(short), 3, budgets=BRIEF, implementations=telling),
        Series(heads, tuple(by_H_kv[:3]), 3, budgets=LONGER, implementations=telling),
        *(_lengthened(step.with_(H_kv=H_kv), telling) for H_kv in (8, 32, 1)),
        Series(heads, tuple(by_H_kv), 3, budgets=("full",)),
        Series(f"B at T_kv {batched.T_kv}", tuple(by_B), 1, LONGER, telling),
        Series(f"T_q at T_kv {step.T_kv}", tuple(by_T_q), 1, LONGER, telling),
    ]


def bench_decode(cell, measure):
    """Measure one cell."""
    measure(cell)


def _lengthened(step: Problem, telling: tuple[str, ...] | None) -> Series:
    """T_kv from 1k to 128k as far as budget and memory reach; 8k stands in the sweep over H_kv."""
    lengths = (2048, 16384, 4096, 1024, 32768, 65536, 131072)
    ladder = tuple(step.with_(T_kv=T_kv) for T_kv in lengths)
    return Series(f"T_kv at H_kv {step.H_kv}", ladder, 3, budgets=LONGER, implementations=telling)
