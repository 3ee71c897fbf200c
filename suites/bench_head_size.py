"""Head size: does time follow d_h at fixed H, where FLOP grow, and at fixed d_model, where not?

At fixed d_model wider heads are fewer, and so are the exponentials; some kernels bound d_h.
"""

from impls.interface.problem import Problem
from suites.session.sweep import LONGER, Series, briefly_then_whole, masked_both_ways

AXIS = "head_size"


def series(device: str, dtype: str) -> list[Series]:
    """Powers of two and the sizes between them that real models use (40, 80, 96)."""
    if device == "cpu":
        sizes = {"B": 1, "T_q": 384, "T_kv": 384, "dtype": dtype}
        H, d_model = 4, 768
        widths = (64, 16, 256, 128, 32, 80, 96, 40)
    else:
        sizes = {"B": 8, "T_q": 2048, "T_kv": 2048, "dtype": dtype}
        H, d_model = 16, 1536
        widths = (64, 128, 256, 32, 80, 96, 192, 40)
    fixed_H = [Problem(H=H, d_h=d_h, **sizes) for d_h in widths]
    fixed_width = [
        Problem(H=d_model // d_h, d_h=d_h, **sizes) for d_h in (64, 32, 192, 96, 128, 48)
    ]
    return [
        *briefly_then_whole(f"d_h at H {H}", fixed_H, device),
        # With little time H at d_model, of the sweep over heads, answers the same question.
        *masked_both_ways(f"d_h at d_model {d_model}", fixed_width, (3, 1), LONGER),
    ]


def bench_head_size(cell, measure):
    """Measure one cell."""
    measure(cell)
