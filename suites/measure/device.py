"""The device layer: answers for the CPU without torch.cuda, for a GPU from torch and NVML."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from suites.measure import nvml, processor

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Chosen:
    """The device to measure on, and a line to print loudly when a GPU is there but unusable."""

    device: str
    notice: str | None = None


@dataclass(frozen=True)
class DeviceFacts:
    """What a device is; None where unknown. Sizes in bytes, memory as of now."""

    device: str
    name: str
    memory_total_bytes: int | None
    memory_free_bytes: int | None
    l2_bytes: int | None
    llc_bytes: int | None
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    count: int | None = None
    uuid: str | None = None


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


def describe(device: str) -> DeviceFacts:
    """The facts of "cpu" or of the current CUDA device."""
    if device == "cpu":
        total, free = processor.memory_bytes()
        return DeviceFacts(
            device="cpu",
            name=processor.cpu_model(),
            memory_total_bytes=total,
            memory_free_bytes=free,
            l2_bytes=processor.l2_bytes(),
            llc_bytes=processor.llc_bytes(),
        )
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    free, total = torch.cuda.mem_get_info()
    return DeviceFacts(
        device="cuda",
        name=properties.name,
        memory_total_bytes=total,
        memory_free_bytes=free,
        l2_bytes=properties.L2_cache_size or None,
        llc_bytes=properties.L2_cache_size or None,
        compute_capability=(properties.major, properties.minor),
        sm_count=properties.multi_processor_count,
        count=torch.cuda.device_count(),
        uuid=str(properties.uuid) if hasattr(properties, "uuid") else None,
    )


def synchronize(device: str) -> None:
    """Wait until the device has done all it was given; a CPU already has."""
    if device == "cuda":
        torch.cuda.synchronize()


def empty_cache(device: str) -> None:
    """Give the allocator's unused memory back; on a CPU nothing is kept by torch."""
    if device == "cuda":
        torch.cuda.empty_cache()


def state(device: str) -> dict[str, float | None]:
    """The `device_state` record of a cell; each reading None where absent."""
    uuid = describe(device).uuid if device == "cuda" else None
    return nvml.state(uuid) if uuid else dict(nvml.NO_STATE)


def fixed_state(device: str) -> dict[str, Any]:
    """Driver, power cap, MIG and throttle reasons; empty on a CPU."""
    uuid = describe(device).uuid if device == "cuda" else None
    return nvml.fixed(uuid) if uuid else {}


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
        return "; ".join(lines) or "torch.cuda.is_available() is False"
    try:
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    return None


def _is_gpu_listed() -> bool:
    """Whether nvidia-smi lists a GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        listed = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and ("GPU" in listed.stdout or "NVIDIA" in listed.stdout)
