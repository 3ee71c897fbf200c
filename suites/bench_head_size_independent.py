"""Head size on its own: what does d_h cost where neither H nor d_model moves with it?

Published sweeps hold d_model = H·d_h, so that a wider head is a rarer one. Here H stays, d_model is
8192, and H·d_h passes it from below to above: first the core, then whole layers of that width
with their d_model → H·d_h → d_model projections. Several kernels refuse d_h above 256: a gap.
"""

from impls.interface.layer_problem import core_of, prefill_part
from impls.interface.layer_shape import LayerShape
from impls.interface.problem import Problem
from suites.session.sweep import Series

AXIS = "head_size_independent"
BUDGETS = ("default", "full")
CPU_DTYPES = ("float32",)
D_MODEL = 8192


def series(device: str, dtype: str) -> list[Series]:
    """d_h from 16 to 512: on a CPU few heads and tokens, whose layer is mostly its weights."""
    is_cpu = device == "cpu"
    H, T, T_layer, B = (32, 128, 16, 1) if is_cpu else (64, 2048, 2048, 4)
    for_core = ("naive", "chunked", "sdpa_flash") if is_cpu else None
    for_layer = ("naive", "sdpa_flash") if is_cpu else None
    in_layer = f"layer of d_model {D_MODEL}"

    def layer(d_h: int, length: int) -> Problem:
        shape = LayerShape(d_model=D_MODEL, H=H, d_h=d_h)
        return prefill_part(shape, "layer", B=B, T=length, dtype=dtype)

    widths = (128, 16, 256, 64, 32, 512)
    cores = [core_of(layer(d_h, T)) for d_h in widths]
    layers = [layer(d_h, T_layer) for d_h in widths]
    return [
        Series(f"d_h at H {H}, core, T {T}", tuple(cores), 3, implementations=for_core),
        Series(
            f"d_h at H {H}, {in_layer}, T {T_layer}",
            tuple(layers),
            implementations=for_layer,
            # Up to two gigabytes of weights, drawn anew for every look.
            is_looked_at_again=not is_cpu,
        ),
    ]


def bench_head_size_independent(cell, measure):
    """Measure one cell."""
    measure(cell)
