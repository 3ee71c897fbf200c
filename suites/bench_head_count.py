"""Head count: what does splitting d_model = 512 into 1, 4, 8, 16 or 32 heads cost in time?

Vaswani et al. 2017, Table 3, row (A): H·d_h stays 512, and so do FLOP, weights and bytes; what
grows with H are the exponentials, and what shrinks is d_h, which some kernels bound. The core
alone, then the whole layer, as in the paper's encoder. What the paper's models of these H were
worth is drawn beside it: the fastest H is not the best one.
"""

from impls.interface.layer_problem import core_of, prefill_part
from impls.interface.layer_shape import LayerShape
from suites.session.sweep import Series

AXIS = "head_count"
BUDGETS = ("default", "full")
CPU_DTYPES = ("float32",)
D_MODEL = 512


def series(device: str, dtype: str) -> list[Series]:
    """The paper's five H, its own and the ends first, for the core and for the layer."""
    is_cpu = device == "cpu"
    sizes = {"B": 1 if is_cpu else 32, "T": 512, "dtype": dtype}
    layers = [
        prefill_part(LayerShape(d_model=D_MODEL, H=H, is_causal=False), "layer", **sizes)
        for H in (8, 1, 32, 4, 16)
    ]
    # What compiles, or pins another of torch's kernels, would take a CPU longer than it tells.
    for_core = ("naive", "chunked", "sdpa_flash", "sdpa_math") if is_cpu else None
    for_layer = ("naive", "sdpa_flash") if is_cpu else None
    name = f"H at d_model {D_MODEL}"
    return [
        Series(f"{name}, core", tuple(map(core_of, layers)), 5, implementations=for_core),
        Series(f"{name}, layer", tuple(layers), 5, implementations=for_layer),
    ]


def bench_head_count(cell, measure):
    """Measure one cell."""
    measure(cell)
