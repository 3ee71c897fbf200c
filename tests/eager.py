"""The implementations that run eagerly on any CPU, as test parameters, and inputs for them."""

from __future__ import annotations

import math

import pytest
import torch

from impls.chunked import chunked
from impls.interface.attention import Implementation
from impls.naive import naive
from impls.sdpa import sdpa_flash, sdpa_math


def name(implementation: Implementation) -> str:
    return implementation.name


every = pytest.mark.parametrize("implementation", [naive, chunked, sdpa_math, sdpa_flash], ids=name)
every_lse = pytest.mark.parametrize("implementation", [naive, chunked, sdpa_flash], ids=name)


def det(factor: float, *shape: int) -> torch.Tensor:
    """sin(factor·n + 0.3) over the flat index n, as float32 of this shape."""
    index = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(factor * index + 0.3).float().reshape(shape)


def random_qkv(B, H, T_q, T_kv, d_h, *, H_kv=None, d_v=None, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    H_kv, d_v = H_kv or H, d_v or d_h
    shapes = ((B, H, T_q, d_h), (B, H_kv, T_kv, d_h), (B, H_kv, T_kv, d_v))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
