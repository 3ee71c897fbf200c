"""The device layer: answers for the CPU without torch.cuda, for a GPU from torch and NVML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil
import torch

from suites.measure import nvml, processor


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


def held_bytes(device: str) -> int:
    """Bytes this process holds already, which another cell may be given."""
    if device == "cuda":
        return torch.cuda.memory_reserved()
    return psutil.Process().memory_info().rss


def reason_unusable(device: str) -> str | None:
    """Why nothing more can be computed by this process; None when a trivial call works.

    A kernel that reads beyond its memory spoils the CUDA context for all that follow it.
    """
    if device != "cuda":
        return None
    try:
        torch.ones(1, device=device).add_(1).item()
    except RuntimeError as error:
        return f"the device is lost to this process: {str(error).strip().splitlines()[0]}"
    return None


def state(device: str) -> dict[str, float | None]:
    """The `device_state` record of a cell; each reading None where absent."""
    uuid = describe(device).uuid if device == "cuda" else None
    return nvml.state(uuid) if uuid else dict(nvml.NO_STATE)


def trust_state(device: str) -> dict[str, Any]:
    """What slowed a GPU since its driver was loaded, and who else computes; empty on a CPU."""
    uuid = describe(device).uuid if device == "cuda" else None
    return nvml.trust(uuid) if uuid else {}


def fixed_state(device: str) -> dict[str, Any]:
    """Driver, power cap, MIG and throttle reasons; empty on a CPU."""
    uuid = describe(device).uuid if device == "cuda" else None
    return nvml.fixed(uuid) if uuid else {}
