"""What a part of a layer is given: tokens, weights, a filled cache and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from impls.interface.around import Around
from impls.interface.inputs import TORCH_DTYPES
from impls.interface.problem import Problem
from impls.layer.attention_layer import chosen
from impls.layer.kv_cache import KVCache, LatentCache
from impls.layer.part import Cache, module_of, output_names, weight_names

# Of LayerNorm's scale about 1 and shift about 0.
_NORM_DEVIATION = 0.1


@dataclass(frozen=True)
class PartInputs:
    """The tensors of one problem with something around its core.

    x (B, T_q, d_model), of an output projection the heads (B, H, T_q, d_v); `weights` by their
    names in the module; `d_out` the gradient that arrives at each output. `cache` holds `n_cached`
    tokens and has room for the T_q new ones; None where no tokens stand before.
    """

    problem: Problem
    around: Around
    x: torch.Tensor
    weights: Mapping[str, torch.Tensor]
    d_out: tuple[torch.Tensor, ...]
    cache: Cache | None
    n_cached: int

    @property
    def given(self) -> dict[str, torch.Tensor]:
        """What a core's implementation could write into: weights never reach it."""
        names = [f"d_{name}" for name in output_names(self.around)] if self.d_out else []
        return {"x": self.x} | dict(zip(names, self.d_out, strict=True)) | self.cached

    @property
    def cached(self) -> dict[str, torch.Tensor]:
        """The tokens that stand in the cache before a call, as views by name."""
        if self.cache is None:
            return {}
        self.cache.truncate(self.n_cached)
        if isinstance(self.cache, KVCache):
            return {"cached k": self.cache.k, "cached v": self.cache.v}
        return {"cached latents": self.cache.latent}

    @property
    def room(self) -> list[torch.Tensor]:
        """Where a call keeps its new tokens, as views."""
        return [] if self.cache is None else self.cache.room(self.n_cached)


def output_shapes(problem: Problem) -> list[tuple[int, ...]]:
    """The shapes of what the part gives, in the order of `output_names`."""
    p, around = problem, problem.around
    assert around is not None
    if around.part != "projections":
        return [(p.B, p.T_q, around.shape.d_model)]
    kv = (p.B, p.H_kv, p.T_kv)
    return [(p.B, p.H, p.T_q, p.d_h), (*kv, p.d_h), (*kv, p.d_v)]


def make_part_inputs(
    problem: Problem, device: str, *, gradients: bool, seed: int = 0
) -> PartInputs:
    """Normal data, each tensor from a seed of its own, the same on every device.

    x, what is cached and d_out have deviation 1; a matrix has 1/√(its input's width), which keeps
    it. The values are drawn in float32 and cast. d_out is empty where no gradients are asked for.

    Raises:
        ValueError: nothing is around the core, or T_q tokens are more than T_kv.
    """
    p, around = problem, problem.around
    if around is None or p.T_q > p.T_kv:
        raise ValueError(f"{p} is no part of a layer whose tokens see themselves: T_q ≤ T_kv")
    dtype = TORCH_DTYPES[p.dtype]
    drawn = 0

    def normal(*shape: int) -> torch.Tensor:
        nonlocal drawn
        drawn += 1
        generator = torch.Generator().manual_seed(1000 * seed + drawn)
        return torch.randn(shape, generator=generator)

    def placed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype).to(device)

    module = module_of(around, chosen("naive"))
    shapes = {name: weight.shape for name, weight in module.named_parameters()}
    if around.part == "output":
        x = placed(normal(p.B, p.T_q, p.H, p.d_v)).transpose(1, 2)
        x = x if p.layout == "bthd" else x.contiguous()
    else:
        x = placed(normal(p.B, p.T_q, around.shape.d_model))
    weights = {
        name: placed(_weight(name, normal(*shapes[name]))) for name in weight_names(around, module)
    }
    d_out = tuple(placed(normal(*shape)) for shape in output_shapes(p) if gradients)
    cache, n_cached = None, p.T_kv - p.T_q
    if n_cached and (around.has_core or around.part == "projections"):
        cache = cache_like(p, dtype, device)
        with torch.no_grad():
            cache.append(*(placed(normal(*shape)) for shape in _kept_shapes(p, n_cached)))
    return PartInputs(p, around, x, weights, d_out, cache, n_cached if cache else 0)


def _weight(name: str, drawn: torch.Tensor) -> torch.Tensor:
    if drawn.ndim == 1:
        return drawn.mul_(_NORM_DEVIATION).add_(1.0 if name.endswith("weight") else 0.0)
    return drawn.mul_(drawn.shape[1] ** -0.5)


def _kept_shapes(problem: Problem, tokens: int) -> list[tuple[int, ...]]:
    """What a cache keeps of so many tokens: keys and values, or latents."""
    assert problem.around is not None
    shape, of = problem.around.shape, problem.around.shape.latent
    if of is not None:
        return [(problem.B, 1, tokens, of.d_c + of.d_R)]
    return [(problem.B, shape.H_kv, tokens, shape.d_h)] * 2


def cache_like(
    problem: Problem, dtype: torch.dtype, device: torch.device | str, B: int | None = None
) -> Cache:
    """An empty cache for the T_kv tokens of the problem, of all its sequences or of B."""
    p, around = problem, problem.around
    assert around is not None
    shape, of, B = around.shape, around.shape.latent, p.B if B is None else B
    if of is None:
        return KVCache(
            B=B, H_kv=shape.H_kv, T_max=p.T_kv, d_h=shape.d_h, dtype=dtype, device=device
        )
    return LatentCache(B=B, T_max=p.T_kv, d_c=of.d_c, d_R=of.d_R, dtype=dtype, device=device)
