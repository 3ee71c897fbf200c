"""Models: how near to its bound does attention come in the shapes of published models?

Every row of `impls/layer/models.csv`: its core and its whole layer, for a prompt (prefill) and for
one token more (decode, with a KV cache; an encoder has none). Each at full width and at the model's
own length; on a CPU the length is halved until the work is affordable, and the series says so,
"T 128 of 4096". A layer with more weights than a CPU has time for is one tensor-parallel rank of
it: d_model stays, the heads are divided, "8 of 64 heads". A model whose layers differ in their
window has a row for each kind.
"""

from collections.abc import Callable
from dataclasses import replace

from impls.interface import cost, layer_work
from impls.interface.layer_cost import weights
from impls.interface.layer_problem import core_of, decode_part, prefill_part
from impls.interface.layer_shape import LayerShape
from impls.interface.problem import Problem
from impls.layer.models import Model, models
from suites.session.sweep import Series

AXIS = "models"
BUDGETS = ("default", "full")
CPU_DTYPES = ("bfloat16",)
# FLOP a call of core and of layer at most: some hundredths of a second.
MOST_FLOP = {"cpu": (2e9, 5e9), "cuda": (1e14, 1e14)}
SHORTEST_T = 16
# Weights of a layer at most: drawn anew for every look, 100 MB a second or two.
MOST_WEIGHTS = {"cpu": 50_000_000, "cuda": None}
# What a GPU is filled with: tokens of a prompt, and sequences that each want one more.
TOKENS, SEQUENCES = 16384, 32


def series(device: str, dtype: str) -> list[Series]:
    """One problem a series, the cheapest first: cores, then layers by size.

    On a CPU each is measured with the implementation that does it best, which has room for most.
    """
    rows = [(model, layer) for model in models().values() for layer, _ in model.shape.layers]
    by_size = sorted(rows, key=lambda row: weights(row[1]))
    cores = [(*row, "core", make) for make in (_decode, _prefill) for row in rows]
    layers = [(*row, "layer", make) for row in by_size for make in (_decode, _prefill)]
    return [
        _series(device, dtype, model, layer, part, make)
        for model, layer, part, make in (*cores, *layers)
        if make is _prefill or layer.is_causal
    ]


def bench_models(cell, measure):
    """Measure one cell."""
    measure(cell)


def _series(
    device: str,
    dtype: str,
    model: Model,
    layer: LayerShape,
    part: str,
    make: Callable[[str, str, LayerShape, int], Problem],
) -> Series:
    own_T = T = model.typical_T
    rank = _rank(layer, MOST_WEIGHTS[device]) if part == "layer" else layer
    while T >= 2 * SHORTEST_T and not _is_affordable(make(device, dtype, rank, T), device, part):
        T //= 2
    problem = _part(make(device, dtype, rank, T), part)
    window = f" window {layer.window}" if layer.window else ""
    phase = make.__name__.lstrip("_")
    length = f"T {T}" if own_T == T else f"T {T} of {own_T}"
    heads = "" if rank.H == layer.H else f", {rank.H} of {layer.H} heads"
    label = f"{model.name} {layer.variant}{window}, {phase} {part}, {length}{heads}"
    return Series(
        label,
        (problem,),
        is_due=True,
        implementations=_best(device, problem),
        # A row each for a hundred problems, whose weights are drawn anew for every look.
        is_looked_at_again=device != "cpu",
    )


def _prefill(device: str, dtype: str, layer: LayerShape, T: int) -> Problem:
    B = 1 if device == "cpu" else max(1, TOKENS // T)
    return prefill_part(_seen(layer, T), "layer", B=B, T=T, dtype=dtype)


def _decode(device: str, dtype: str, layer: LayerShape, T: int) -> Problem:
    B = 1 if device == "cpu" else SEQUENCES
    return decode_part(_seen(layer, T), "layer", B=B, T_kv=T, dtype=dtype)


def _seen(layer: LayerShape, T: int) -> LayerShape:
    """The layer without a window that hides none of T keys."""
    return replace(layer, window=None) if layer.window and layer.window >= T else layer


def _part(layer: Problem, part: str) -> Problem:
    return core_of(layer) if part == "core" else layer


def _is_affordable(layer: Problem, device: str, part: str) -> bool:
    """Whether this part of the layer is; of a whole layer its core must be so too."""
    most_core, most_layer = MOST_FLOP[device]
    is_core_affordable = cost.flop(core_of(layer)) <= most_core
    return is_core_affordable and (part == "core" or layer_work.flop(layer) <= most_layer)


def _rank(layer: LayerShape, most_weights: int | None) -> LayerShape:
    """The layer with its heads halved until its weights are few enough: a tensor-parallel rank.

    Each rank has its share of query heads and of kv heads, a single kv head whole (Shoeybi et al.,
    2019, section 3; Pope et al., 2022, section 3.3); a latent is whole in each.
    """
    while most_weights and weights(layer) > most_weights and layer.H % 2 == 0:
        H = layer.H // 2
        H_kv = H if layer.latent else max(1, layer.H_kv // 2)
        if H % H_kv or (layer.H_kv > 1 and layer.H_kv % 2):
            break
        layer = replace(layer, H=H, H_kv=H_kv)
    return layer


def _best(device: str, problem: Problem) -> tuple[str, ...] | None:
    """Whom a CPU has time for; None: all."""
    if device != "cpu":
        return None
    if problem.T_q == 1:
        return ("grouped_decode",)
    return ("sdpa_flash",) if problem.d_v == problem.d_h and not problem.window else ("naive",)
