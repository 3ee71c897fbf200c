"""The settings of torch that hold for the whole process, and what a kernel changed of them."""

from __future__ import annotations

from typing import Any

import torch

_SETTINGS = {
    "CPU threads": (torch.get_num_threads, torch.set_num_threads),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "float32 matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
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
