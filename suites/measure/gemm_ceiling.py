"""How fast this CPU multiplies matrices: every library that is present, each by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from suites.measure import onnxruntime_product, processor
from suites.measure.windows import Rate, Work, by_provider

SIZES = (512, 1024)
# OpenBLAS's threads wait busily for the next product: torch's bfloat16 window after it read half.
_BLAS_SPINS_S = 0.2


def dtypes() -> tuple[str, ...]:
    """The dtypes worth a ceiling here: float16 only where the CPU computes in it.

    Elsewhere torch's float16 product is some 40 times slower than float32, and no roof.
    """
    flags = processor.instruction_sets().split()
    has_float16 = bool({"avx512_fp16", "amx_fp16", "asimdhp"} & set(flags))
    return ("float32", "bfloat16", "float16") if has_float16 else ("float32", "bfloat16")


def works(threads: int) -> list[Work]:
    """The square products (n, n)·(n, n), 2·n³ FLOP each, of normal data."""
    found: list[Work] = []
    for dtype in dtypes():
        for n in SIZES:
            found += _works_of(dtype, n, threads)
    return found


def records(rates: Sequence[Rate]) -> dict[str, Any]:
    """The `gemm` record of the ceilings: by dtype the best provider, and all beside it."""
    found: dict[str, Any] = {}
    for dtype in dtypes():
        providers = by_provider(rates, _group(dtype))
        best = next(iter(providers.values()))
        found[dtype] = {
            "flop_per_s": best.best,
            "median_flop_per_s": best.median,
            "provider": best.work.provider,
            "size": best.work.size,
            "providers": {
                name: {"flop_per_s": rate.best, "median_flop_per_s": rate.median}
                for name, rate in providers.items()
            },
        }
    return found


def _works_of(dtype_name: str, n: int, threads: int) -> list[Work]:
    dtype = getattr(torch, dtype_name)
    a, b = (torch.randn(n, n).to(dtype) for _ in range(2))
    out = torch.empty(n, n, dtype=dtype)
    flop, group = 2.0 * n**3, _group(dtype_name)
    found = [Work(group, "torch.mm", lambda: torch.mm(a, b, out=out), flop, n)]
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        # What torch.compile calls for a linear layer: oneDNN, past MKL. On some CPUs twice as fast.
        linear = torch.ops.mkldnn._linear_pointwise
        found.append(
            Work(group, "mkldnn linear", lambda: linear(a, b, None, "none", [], ""), flop, n)
        )
    if dtype_name != "float32":
        return found
    x, y, z = a.numpy(), b.numpy(), np.empty((n, n), np.float32)
    # numpy's BLAS has threads of its own: CPU time at one thread counts them all, a wall does not.
    if threads in (1, processor.cpu_count()):
        found.append(
            Work(group, "numpy", lambda: np.matmul(x, y, out=z), flop, n, settle_s=_BLAS_SPINS_S)
        )
    if onnxruntime_product.is_installed():
        product = onnxruntime_product.product(x, y, z, threads)
        found.append(Work(group, "onnxruntime", product, flop, n))
    return found


def _group(dtype: str) -> str:
    return f"gemm {dtype}"
