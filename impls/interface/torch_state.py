"""Torch's settings, the folder and the process itself, and what a kernel changed of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.backends import cuda, mkldnn


def _set_mkldnn(is_on: bool) -> None:
    mkldnn.set_flags(_enabled=is_on)


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "a folder that is gone"


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    # A kernel that forks may return twice: the copy, which would go on as we do, ends here.
    "process": (os.getpid, lambda _: os._exit(1)),
    "CPU threads": (torch.get_num_threads, torch.set_num_threads),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    # Nobody here sets one, and a device that is set costs time in every call.
    "default device": (torch.get_default_device, lambda _: torch.set_default_device(None)),
    "float32 matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "deterministic algorithms": (
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    ),
    "anomaly detection": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "CPU autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda is_on: torch.set_autocast_enabled("cpu", is_on),
    ),
    "oneDNN": (lambda: mkldnn.enabled, _set_mkldnn),
    "SDPA flash": (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    "SDPA efficient": (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    "SDPA math": (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    "SDPA cuDNN": (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
    # Kernels that were brought are found from it.
    "current folder": (_folder, os.chdir),
}


def read() -> dict[str, Any]:
    """The settings that a kernel could change under every later cell."""
    return {name: get() for name, (get, _) in _SETTINGS.items()}


def put_back(before: dict[str, Any]) -> list[str]:
    """Restore `before`; → what had been changed, as "CPU threads from 1 to 2"."""
    changed = []
    for name, now in read().items():
        if now != before[name]:
            changed.append(f"{name} from {before[name]} to {now}")
            _SETTINGS[name][1](before[name])
    return changed


@contextmanager
def kept() -> Iterator[None]:
    """Within it settings may change; afterwards they are as before."""
    before = read()
    try:
        yield
    finally:
        put_back(before)
