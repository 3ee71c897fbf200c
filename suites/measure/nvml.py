"""Readings of NVIDIA's management library, matched to torch's device by UUID; None where absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

NO_STATE: dict[str, float | None] = {
    "sm_clock_mhz": None,
    "power_w": None,
    "temperature_c": None,
    "energy_j": None,
}


def state(uuid: str) -> dict[str, float | None]:
    """Clock, power, temperature and the energy counter of one GPU now."""
    nvml, handle = _open(uuid)
    if nvml is None:
        return dict(NO_STATE)
    return {
        "sm_clock_mhz": _read(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        "power_w": _scaled(_read(nvml, nvml.nvmlDeviceGetPowerUsage, handle), 1e-3),
        "temperature_c": _read(
            nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
        ),
        "energy_j": _scaled(_read(nvml, nvml.nvmlDeviceGetTotalEnergyConsumption, handle), 1e-3),
    }


def fixed(uuid: str) -> dict[str, Any]:
    """What does not change while measuring: driver, power cap, MIG; and the throttle reasons."""
    nvml, handle = _open(uuid)
    names = ("driver", "power_cap_w", "is_mig", "throttle_reasons")
    if nvml is None:
        return dict.fromkeys(names)
    driver = _read(nvml, nvml.nvmlSystemGetDriverVersion)
    mig = _read(nvml, nvml.nvmlDeviceGetMigMode, handle)
    throttle = _read(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return {
        "driver": driver.decode() if isinstance(driver, bytes) else driver,
        "power_cap_w": _scaled(_read(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle), 1e-3),
        "is_mig": None if mig is None else bool(mig[0]),
        "throttle_reasons": throttle,
    }


def trust(uuid: str) -> dict[str, Any]:
    """Seconds slowed since the driver was loaded, and the other processes that compute there."""
    nvml, handle = _open(uuid)
    if nvml is None:
        return {}
    found: dict[str, Any] = {}
    for name, policy in (
        ("thermal_s", nvml.NVML_PERF_POLICY_THERMAL),
        ("power_s", nvml.NVML_PERF_POLICY_POWER),
    ):
        told = _read(nvml, nvml.nvmlDeviceGetViolationStatus, handle, policy)
        found[name] = None if told is None else told.violationTime * 1e-9
    processes = _read(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    mine = os.getpid()
    found["others"] = None if processes is None else sum(p.pid != mine for p in processes)
    return found


def _open(uuid: str) -> tuple[Any, Any]:
    """The library and the handle of one GPU; (None, None) where either is missing.

    Never by index: NVML counts all GPUs, torch only those of CUDA_VISIBLE_DEVICES.
    """
    try:
        import pynvml as nvml  # pyright: ignore[reportMissingImports]  # an extra, often absent
    except ImportError:
        return None, None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None, None
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
    for prefix in ("GPU-", "MIG-"):
        handle = _read(nvml, nvml.nvmlDeviceGetHandleByUUID, prefix + bare)
        if handle is not None:
            return nvml, handle
    return None, None


def _read(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """One reading; None where this GPU, driver or container does not give it."""
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
