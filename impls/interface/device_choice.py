"""The device to measure on: what was asked for, or told loudly why a GPU cannot be it."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from dataclasses import dataclass

import torch

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Chosen:
    """The device to measure on, and a line to print loudly when a GPU is there but unusable."""

    device: str
    notice: str | None = None


def choose(wanted: str = "auto") -> Chosen:
    """The device that `wanted` means here.

    "cpu" asks nothing about GPUs. "auto" is cuda where one real operation works there.

    Raises:
        ValueError: `wanted` is cuda and it does not work, with the reason; or is not a device.
    """
    if wanted not in DEVICES:
        raise ValueError(f'device "{wanted}" is not known: one of {", ".join(DEVICES)}')
    if wanted == "cpu":
        return Chosen("cpu")
    reason = _reason_against_cuda()
    if reason is None:
        return Chosen("cuda")
    notice = f"GPU present but unusable: {reason}" if _is_gpu_listed() else None
    if wanted == "cuda":
        raise ValueError(notice or f"no CUDA device: {reason}")
    return Chosen("cpu", notice)


def _reason_against_cuda() -> str | None:
    """Why torch cannot use a GPU here, None when one real operation worked."""
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return "torch built without CUDA (torch.version.cuda is None)"
    with warnings.catch_warnings(record=True) as told:
        # torch tells of a driver that is too old by a warning, and then says False.
        warnings.simplefilter("always")
        is_available = torch.cuda.is_available()
    if not is_available:
        lines = [str(warning.message).strip().splitlines()[0] for warning in told]
        lines = lines or ["torch.cuda.is_available() is False"]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            lines.append(f'CUDA_VISIBLE_DEVICES="{visible}" hides all others from it: unset it')
        return "; ".join(lines)
    try:
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    return None


def _is_gpu_listed() -> bool:
    """Whether nvidia-smi lists a GPU, or tells of a driver that it does not fit."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        listed = subprocess.run(
            [program, "-L"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if listed.returncode:
        return "version mismatch" in listed.stdout
    return "GPU" in listed.stdout or "NVIDIA" in listed.stdout
