"""Layer: where does the time of an attention layer go, and of the block around it?

Each part is measured apart: the projections to q, k and v, the core, the output projection, the
feed-forward part; and whole: the layer, and a block with its norms and residual sums, dropout off
and at the paper's 0.1. The core's FLOP pass those of the projections at T = 2·d_model (full); its
time may do so earlier. The shapes are the paper's base model (Vaswani et al. 2017, table 3) and
one with grouped heads as in Llama 3 8B, at a quarter of its width on a CPU; its feed-forward part
has four times its width, as the paper's has.
"""

from impls.interface.layer_problem import core_of, prefill_part
from impls.interface.layer_shape import LayerShape
from suites.session.sweep import TELLING, Series

AXIS = "layer"
PASSES = ("forward", "forward_backward")
BUDGETS = ("default", "full")
CPU_DTYPES = ("float32",)
DROPOUT = 0.1
# What no implementation of attention has a part in is measured once.
_ANY = ("naive",)


def series(device: str, dtype: str) -> list[Series]:
    """T for every part of both shapes; on CUDA B·T = 16 384."""
    base = LayerShape(d_model=512, H=8, is_causal=False)
    if device == "cpu":
        grouped, tokens = LayerShape(d_model=1024, H=8, H_kv=2), None
        lengths = {"base": (512, 1024, 2048, 128, 256), "grouped": (512, 2048, 1024)}
    else:
        grouped, tokens = LayerShape(d_model=4096, H=32, H_kv=8), 16384
        lengths = {"base": (1024, 4096, 512, 2048, 8192), "grouped": (4096, 16384, 1024, 8192)}
    with_core = TELLING if device == "cpu" else None
    found = []
    for name, shape in (("base", base), ("grouped", grouped)):
        sizes = [(tokens // T if tokens else 1, T) for T in lengths[name]]
        for label, part, more in _parts(shape):
            problems = tuple(
                prefill_part(shape, part, B=B, T=T, dtype=dtype, **more) for B, T in sizes
            )
            if label == "core":
                problems = tuple(map(core_of, problems))
            implementations = with_core if problems[0].has_core else _ANY
            # Parts are set against a whole that takes longest, and never ranked: one look each.
            again = device != "cpu"
            found.append(
                Series(
                    f"T, {name}, {label}",
                    problems,
                    implementations=implementations,
                    is_looked_at_again=again,
                )
            )
    return found


def bench_layer(cell, measure):
    """Measure one cell."""
    measure(cell)


def _parts(shape: LayerShape) -> list[tuple[str, str, dict]]:
    """Label, part and further sizes of all that is measured."""
    wide = {"d_ff": 4 * shape.d_model}
    return [
        ("projections", "projections", {}),
        ("core", "layer", {}),
        ("output", "output", {}),
        ("layer", "layer", {}),
        ("feed-forward", "feed_forward", wide),
        ("block", "block", wide),
        ("block with dropout", "block", wide | {"dropout": DROPOUT}),
    ]
