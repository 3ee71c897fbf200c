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
CPU_DTYPES = ("bfloat16",)  # as caches are kept
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
    by_T_q = [short[0].with_(T_q=T_q, causal=T_q > 1) for T_q in (1, 4, 16)]
    by_B = [batched.with_(B=B) for B in (1, 16, 4, 64, 256)]
    is_cpu = device == "cpu"
    telling = _TELLING if is_cpu else None
    heads = f"H_kv at T_kv {step.T_kv}"

    def along(label: str, problems: list[Problem], rungs: int) -> Series:
        # There are many: on a CPU they are looked at once.
        return Series(label, tuple(problems), rungs, LONGER, telling, not is_cpu)

    by_T_kv = [
        along(f"T_kv at H_kv {H_kv}", _lengthened(step.with_(H_kv=H_kv)), 3 if H_kv == 8 else 1)
        for H_kv in (8, 32, 1)
    ]
    return [
        Series(f"H_kv at T_kv {T_kv}", tuple(short), 3, BRIEF, telling),
        Series(heads, tuple(by_H_kv[:3]), 3, LONGER, telling),
        *by_T_kv,
        along(f"B at T_kv {batched.T_kv}", by_B, 2),
        along(f"T_q at T_kv {T_kv}", by_T_q, 2),
        Series(heads, tuple(by_H_kv), 3, budgets=("full",)),
    ]


def bench_decode(cell, measure):
    """Measure one cell."""
    measure(cell)


def _lengthened(step: Problem) -> list[Problem]:
    """T_kv from 1k to 128k as far as budget and memory reach; 8k stands in the sweep over H_kv."""
    return [step.with_(T_kv=T_kv) for T_kv in (2048, 16384, 1024, 32768, 4096, 65536, 131072)]
