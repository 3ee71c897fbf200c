"""How fast a CUDA device multiplies, moves bytes and takes exponentials: sustained and spaced."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from suites.measure.cuda_api import Cuda, TorchCuda
from suites.measure.cuda_clock import measure_cuda
from suites.measure.samples import Settings

GEMM_SIZES = (4096, 8192)
DTYPES = ("float32", "bfloat16", "float16")
_WINDOW_S = 0.08
_WINDOWS = 5
# The clocks need this long to settle once the device is busy.
_RAMP_S = 0.3
_SPACED = Settings(target=0.01, min_samples=10, max_samples=60, budget_s=0.15, warmup_s=0.1)


@dataclass(frozen=True)
class CudaRate:
    """Amounts a second: back to back, and alone behind a flush as a cell is."""

    sustained: float
    median_sustained: float
    spaced: float
    median_spaced: float
    size: int


def gemm_records(cuda: Cuda | None = None) -> dict[str, Any]:
    """The `gemm` record: torch.mm (cuBLAS) per dtype.

    Of two sizes the one with the better spaced rate. float32 is what torch makes of it by its
    settings; TF32 only where the user turned it on.
    """
    cuda = cuda or TorchCuda()
    found: dict[str, Any] = {}
    for dtype in DTYPES:
        rate = max((_gemm(cuda, dtype, n) for n in GEMM_SIZES), key=lambda rate: rate.spaced)
        figures = {
            "flop_per_s": rate.sustained,
            "median_flop_per_s": rate.median_sustained,
            "spaced_flop_per_s": rate.spaced,
            "median_spaced_flop_per_s": rate.median_spaced,
        }
        found[dtype] = {
            **figures,
            "provider": "torch.mm",
            "size": rate.size,
            "providers": {"torch.mm": figures},
        }
    return found


def bandwidth_records(cuda: Cuda | None = None) -> dict[str, Any]:
    """The `bandwidth` record of "l2" (hot, half of it) and "hbm" (cold, 2 GiB or what fits)."""
    cuda = cuda or TorchCuda()
    free_bytes = torch.cuda.mem_get_info()[0]
    sizes = {
        "l2": (cuda.l2_bytes // 2, cuda.l2_bytes, "hot"),
        "hbm": (min(2 << 30, free_bytes // 4), None, "cold"),
    }
    found: dict[str, Any] = {}
    for name, (n_bytes, capacity_bytes, cache) in sizes.items():
        n_bytes = n_bytes // 8 * 8
        source = torch.randn(n_bytes // 8, device="cuda")
        target = torch.empty_like(source)
        copy = _rate(cuda, lambda t=target, s=source: t.copy_(s), n_bytes, cache)
        whole = torch.randn(n_bytes // 4, device="cuda")
        largest = torch.empty((), device="cuda")
        read = _rate(
            cuda, lambda w=whole, o=largest: torch.amax(w, dim=(0,), out=o), n_bytes, cache
        )
        best = max(copy, read, key=lambda rate: rate.spaced)
        found[name] = {
            "bytes_per_s": best.sustained,
            "median_bytes_per_s": best.median_sustained,
            "spaced_bytes_per_s": best.spaced,
            "median_spaced_bytes_per_s": best.median_spaced,
            "provider": "copy" if best is copy else "read",
            "copy_bytes_per_s": copy.sustained,
            "read_bytes_per_s": read.sustained,
            "spaced_copy_bytes_per_s": copy.spaced,
            "spaced_read_bytes_per_s": read.spaced,
            "working_set_bytes": n_bytes,
            "capacity_bytes": capacity_bytes,
        }
    return found


def exp_records(cuda: Cuda | None = None) -> dict[str, Any]:
    """The `exp` record: torch.exp over an array that fits into half of the L2."""
    cuda = cuda or TorchCuda()
    n = cuda.l2_bytes // 16
    x = -10 * torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    rate = _rate(cuda, lambda: torch.exp(x, out=out), n, "hot")
    return {
        "float32": {
            "exp_per_s": rate.sustained,
            "median_exp_per_s": rate.median_sustained,
            "spaced_exp_per_s": rate.spaced,
        }
    }


def _gemm(cuda: Cuda, dtype_name: str, n: int) -> CudaRate:
    dtype = getattr(torch, dtype_name)
    # Normal data: zeros switch fewer transistors, draw less power and run faster.
    a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty(n, n, dtype=dtype, device="cuda")
    return _rate(cuda, lambda: torch.mm(a, b, out=out), 2.0 * n**3, "cold", n)


def _rate(
    cuda: Cuda, call: Callable[[], object], amount: float, cache: str, size: int = 0
) -> CudaRate:
    spaced = measure_cuda(call, cuda=cuda, cache=cache, settings=_SPACED)
    windows_s = _sustained(cuda, call, statistics.median(spaced.samples_s))
    return CudaRate(
        sustained=amount / min(windows_s),
        median_sustained=amount / statistics.median(windows_s),
        spaced=amount / min(spaced.samples_s),
        median_spaced=amount / statistics.median(spaced.samples_s),
        size=size,
    )


def _sustained(cuda: Cuda, call: Callable[[], object], call_s: float) -> list[float]:
    """Seconds per call in windows of back-to-back launches, after the clocks have settled."""
    calls = max(1, round(_WINDOW_S / max(call_s, 1e-7)))
    began = time.perf_counter()
    while time.perf_counter() - began < _RAMP_S:
        call()
        cuda.synchronize()
    windows_s = []
    for _ in range(_WINDOWS):
        start, end = cuda.event(), cuda.event()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        cuda.synchronize()
        windows_s.append(start.seconds_to(end) / calls)
    return windows_s
