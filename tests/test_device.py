"""The device layer: a CPU run reaches nothing of torch.cuda; an unusable GPU is told loudly."""

import os
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from impls.interface import device_choice
from suites.measure import device, nvml

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def one_gpu_listed(tmp_path, monkeypatch):
    """An nvidia-smi on PATH that lists one GPU."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1234)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.fixture
def no_gpu_listed(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.fixture
def built_without_cuda(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None, raising=False)


def old_driver():
    warnings.warn(
        "The NVIDIA driver on your system is too old (found version 11040).\nPlease update",
        stacklevel=2,
    )
    return False


def test_a_gpu_that_torch_cannot_use_is_told(one_gpu_listed, built_without_cuda):
    """pytorch#131117: nvidia-smi shows a GPU and the CPU is benchmarked in silence."""
    chosen = device_choice.choose("auto")
    assert chosen.device == "cpu"
    assert chosen.notice == (
        "GPU present but unusable: torch built without CUDA (torch.version.cuda is None)"
    )


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("printf 'GPU 0: NVIDIA \\351\\377 (UUID: GPU-1)'", True),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18", True),
        ("echo 'NVIDIA-SMI has failed: it could not reach the NVIDIA driver'; exit 9", False),
    ],
    ids=["no UTF-8", "another driver", "no driver"],
)
def test_what_nvidia_smi_says_is_never_in_the_way(tmp_path, monkeypatch, lines, is_told):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    chosen = device_choice.choose("auto")
    assert chosen.device == "cpu" and bool(chosen.notice) == is_told


def test_cuda_is_refused_with_the_same_line(one_gpu_listed, built_without_cuda):
    with pytest.raises(ValueError, match="GPU present but unusable: torch built without CUDA"):
        device_choice.choose("cuda")


def test_the_drivers_own_words_are_told(one_gpu_listed, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", old_driver)
    notice = device_choice.choose("auto").notice
    assert notice == (
        "GPU present but unusable: "
        "The NVIDIA driver on your system is too old (found version 11040)."
    )


@pytest.mark.parametrize("visible", ["", "-1", "7"])
def test_a_variable_that_hides_every_gpu_is_named(one_gpu_listed, monkeypatch, visible):
    """Torch says no more than False, as of a machine without one."""
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "CUDA_VISIBLE_DEVICES" not in (device_choice.choose("auto").notice or "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(ValueError, match="GPU present but unusable") as refused:
        device_choice.choose("cuda")
    assert f'CUDA_VISIBLE_DEVICES="{visible}" hides all others' in str(refused.value)


def test_a_device_that_fails_its_first_operation_is_unusable(one_gpu_listed, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available\nCompile with …")

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "zeros", fail)
    assert device_choice.choose("auto").notice == (
        "GPU present but unusable: CUDA error: no kernel image is available"
    )


def test_without_a_gpu_there_is_nothing_to_tell(no_gpu_listed, built_without_cuda):
    assert device_choice.choose("auto") == device_choice.Chosen("cpu")
    with pytest.raises(ValueError, match="no CUDA device: torch built without CUDA"):
        device_choice.choose("cuda")


def test_a_cpu_that_was_asked_for_needs_no_answer_about_gpus(monkeypatch):
    monkeypatch.setattr(device_choice, "_reason_against_cuda", None)
    monkeypatch.setattr(device_choice, "_is_gpu_listed", None)
    assert device_choice.choose("cpu") == device_choice.Chosen("cpu")


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match='device "tpu" is not known'):
        device_choice.choose("tpu")


def test_the_cpu_is_described():
    facts = device.describe("cpu")
    assert facts.name
    assert facts.compute_capability is None
    assert facts.memory_total_bytes is None or facts.memory_total_bytes > 1 << 28
    assert set(device.state("cpu").values()) == {None}
    assert device.fixed_state("cpu") == {}


FORBIDDEN = """
import sys, types, torch

class Forbidden(types.ModuleType):
    def __getattr__(self, name):
        raise AssertionError(f"torch.cuda.{name} was reached")

reached = []
for name in ("synchronize", "Event", "get_device_name", "reset_peak_memory_stats", "_sleep",
             "max_memory_allocated", "device_count", "current_device", "empty_cache",
             "get_device_properties", "mem_get_info", "Stream", "CUDAGraph", "is_available"):
    def forbidden(*_, name=name, **__):
        raise AssertionError(f"torch.cuda.{name} was reached")
    setattr(torch.cuda, name, forbidden)

from impls.interface import device_choice
from impls.interface.check import poisoned_empty
from suites.measure import clocks, device, environment
from suites.measure.executed import executed

assert device_choice.choose("cpu").device == "cpu"
device.describe("cpu"), device.state("cpu"), device.synchronize("cpu"), device.empty_cache("cpu")
environment.machine_key(environment.read_environment("cpu"))
q = torch.randn(1, 2, 63, 40)
call = lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)
settings = clocks.Settings(budget_s=0.1, min_span_s=0.0)
for cache in ("hot", "cold"):
    timing = clocks.measure(
        call, device="cpu", clock="cpu_time", cache=cache, settings=settings
    ).timing()
    assert timing["median_s"] > 0
assert executed(call, "cpu").memory.peak_bytes
with poisoned_empty():
    call()
assert "torch._inductor" not in sys.modules, "its import takes two seconds"
"""


def test_nothing_of_torch_cuda_nor_of_a_compiler_is_reached_on_a_cpu():
    """Case N08: a CPU-only torch answers with AssertionError, RuntimeError or a silent 0."""
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDEN],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the profiler's own lines are silenced"


class FakeNvml:
    """NVML with one GPU that has no energy counter."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    class NVMLError(Exception):
        """What NVML raises."""

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid) -> Any:
        if uuid != "GPU-42":
            raise self.NVMLError("not found")
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, clock):
        return 1980

    def nvmlDeviceGetPowerUsage(self, handle):
        return 350_500

    def nvmlDeviceGetTemperature(self, handle, sensor) -> Any:
        return 61

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        raise self.NVMLError("not supported")

    def nvmlSystemGetDriverVersion(self):
        return b"570.86.10"

    def nvmlDeviceGetMigMode(self, handle):
        return [0, 0]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 4

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000


def test_readings_are_matched_by_uuid_and_absent_ones_are_null(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert nvml.state("42") == {
        "sm_clock_mhz": 1980,
        "power_w": pytest.approx(350.5),
        "temperature_c": 61,
        "energy_j": None,
    }
    assert nvml.fixed("GPU-42") == {
        "driver": "570.86.10",
        "power_cap_w": pytest.approx(700),
        "is_mig": False,
        "throttle_reasons": 4,
    }
    assert nvml.state("43") == nvml.NO_STATE


class TwoGpus(FakeNvml):
    """NVML's order is the bus's: GPU-41 has 41 °C, GPU-42 has 42."""

    def nvmlDeviceGetHandleByUUID(self, uuid) -> Any:
        if uuid not in ("GPU-41", "GPU-42"):
            raise self.NVMLError("not found")
        return int(uuid.removeprefix("GPU-"))

    def nvmlDeviceGetHandleByIndex(self, index):
        return (41, 42)[index]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return handle


@pytest.mark.parametrize("order", [("41", "42"), ("42", "41"), ("42",)])
def test_readings_are_of_torchs_gpu_however_visible_devices_are_ordered(monkeypatch, order):
    """CUDA_VISIBLE_DEVICES=1,0 makes torch's first GPU NVML's second."""
    properties = [
        types.SimpleNamespace(
            name="GPU", L2_cache_size=1, major=9, minor=0, multi_processor_count=1, uuid=uuid
        )
        for uuid in order
    ]
    monkeypatch.setitem(sys.modules, "pynvml", TwoGpus())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1, 1))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(order))
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    for index, uuid in enumerate(order):
        monkeypatch.setattr(torch.cuda, "current_device", lambda index=index: index)
        assert device.state("cuda")["temperature_c"] == int(uuid)


def test_without_nvml_every_reading_is_null(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert set(nvml.state("42").values()) == {None}
    assert set(nvml.fixed("42").values()) == {None}
