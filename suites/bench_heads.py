"""Heads: what do more of them take at one d_model, and what does sharing keys and values save?

H at fixed d_model is the paper's split; H_kv at fixed H goes from MHA over GQA to MQA. Neither
changes the FLOP; of a prompt, unlike a step of decoding, bytes seldom bind.
"""

from impls.interface.problem import Problem
from suites.session.sweep import Series, briefly_then_whole

AXIS = "heads"


def series(device: str, dtype: str) -> list[Series]:
    """FLOP and bytes stay, exponentials grow with H; with fewer H_kv only K and V shrink."""
    if device == "cpu":
        sizes = {"B": 1, "T_q": 256, "T_kv": 256, "dtype": dtype}
        split = [Problem(H=H, d_h=1024 // H, **sizes) for H in (16, 4, 64, 8, 32)]
        shared = [Problem(H=12, H_kv=H_kv, d_h=64, **sizes) for H_kv in (12, 1, 4, 2, 6, 3)]
    else:
        sizes = {"B": 4, "T_q": 4096, "T_kv": 4096, "dtype": dtype}
        split = [Problem(H=H, d_h=3072 // H, **sizes) for H in (24, 12, 96, 48)]
        shared = [Problem(H=32, H_kv=H_kv, d_h=128, **sizes) for H_kv in (32, 1, 8, 4, 16, 2)]
    d_model = split[0].H * split[0].d_h
    return [
        *briefly_then_whole(f"H at d_model {d_model}", split, device),
        *briefly_then_whole(f"H_kv at H {shared[0].H}", shared, device),
    ]


def bench_heads(cell, measure):
    """Measure one cell."""
    measure(cell)
