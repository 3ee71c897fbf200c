"""Pruned heads: how much of a layer's time goes with the heads that are taken out of it?

Michel et al. 2019 (https://arxiv.org/abs/1905.10650) and Voita et al. 2019 take most heads out
after training; times are seldom told. A pruned layer has fewer heads of the same d_h and smaller
projections, as `impls.layer.head_pruning` makes it: H·d_h below d_model, nothing masked. If all its
time were theirs, a layer with half of its heads would take half as long.
"""

from impls.interface.layer_problem import decode_part, prefill_part
from impls.interface.layer_shape import LayerShape
from suites.session.sweep import Series

AXIS = "pruned_heads"
BUDGETS = ("default", "full")
CPU_DTYPES = ("float32",)
H, D_H = 32, 128


def series(device: str, dtype: str) -> list[Series]:
    """A layer as in LLaMA-2-7B, of 32 heads down to 4; the halves and the ends first."""
    B, T, T_kv = (1, 64, 1024) if device == "cpu" else (4, 4096, 4096)
    shapes = [LayerShape(d_model=H * D_H, H=kept, d_h=D_H) for kept in (32, 16, 8, 24, 4)]
    prefill = [prefill_part(shape, "layer", B=B, T=T, dtype=dtype) for shape in shapes]
    decode = [decode_part(shape, "layer", B=B, T_kv=T_kv, dtype=dtype) for shape in shapes]
    is_cpu, name = device == "cpu", f"kept of {H} heads"
    with_prefill = ("naive", "sdpa_flash") if is_cpu else None
    with_decode = ("naive", "grouped_decode") if is_cpu else None
    # Weights are drawn anew for every look, which takes longer than the layer: on a CPU one each.
    again = not is_cpu
    return [
        Series(f"{name}, {phase}", tuple(problems), 3, None, implementations, again)
        for phase, problems, implementations in (
            (f"prefill, T {T}", prefill, with_prefill),
            (f"decode, T_kv {T_kv}", decode, with_decode),
        )
    ]


def bench_pruned_heads(cell, measure):
    """Measure one cell."""
    measure(cell)
