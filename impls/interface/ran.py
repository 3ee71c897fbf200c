"""Which operators and kernels really ran in a call, and whether it fell back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from impls.interface.attention import Implementation


def profiled_names(call: Callable[[], Any], device: str) -> list[str]:
    """The names in a profile of one call, each once, in order of appearance.

    On a GPU, kernels beside the operators that launched them. Slow: not inside a clock.
    """
    # Read when the first profile starts; without it the profiler's library writes to stderr.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        call()
        if device == "cuda":
            torch.cuda.synchronize()
    return list(dict.fromkeys(event.name for event in profile.events() or ()))


def fell_back(implementation: Implementation, names: Sequence[str]) -> list[str]:
    """The reason when none of what it claims to run is among `names`; empty when one is."""
    claimed = implementation.runs
    if not claimed or any(part in name for part in claimed for name in names):
        return []
    shown = [name for name in names if "attention" in name or "flash" in name] or list(names)
    return [f"fell back: none of {', '.join(claimed)} ran, but {', '.join(shown[:4]) or 'nothing'}"]
