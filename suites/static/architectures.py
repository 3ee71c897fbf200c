"""What NVIDIA publishes of its architectures: the limits of one SM, and its throughputs.

Limits: CUDA Programming Guide 13.1, section 5.1, tables 30 and 31
(https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html);
tensor memory: PTX ISA 9.0, "Tensor Memory" (512 columns, allocated in powers of two from 32).
"""

from __future__ import annotations

from dataclasses import dataclass

_KIB = 1024
# The gate's set; sm_120 is compiled with `--all`.
GATED = (80, 90, 100)
# Shared memory of every block that the system keeps for itself, compute capability 8.0 and newer
# (CUDA Programming Guide, "Shared Memory" of compute capability 8.x). On 9.0 and newer ptxas
# counts it as static shared memory of kernels that use any.
RESERVED_SHARED_BYTES = 1 * _KIB
MOST_THREADS = 1024


@dataclass(frozen=True)
class Limits:
    """What one SM holds and what one block may take of it.

    Attributes:
        tensor_memory_columns: 0 where products do not go through tensor memory.
    """

    shared_bytes: int
    block_shared_bytes: int
    warps: int
    blocks: int
    tensor_memory_columns: int = 0
    registers: int = 64 * _KIB
    block_registers: int = 64 * _KIB
    thread_registers: int = 255


_LARGE = Limits(228 * _KIB, 227 * _KIB, warps=64, blocks=32)
_BLACKWELL = Limits(228 * _KIB, 227 * _KIB, warps=64, blocks=32, tensor_memory_columns=512)
_A100 = Limits(164 * _KIB, 163 * _KIB, warps=64, blocks=32)
_LIMITS = {
    80: _A100,
    86: Limits(100 * _KIB, 99 * _KIB, warps=48, blocks=16),
    87: Limits(164 * _KIB, 163 * _KIB, warps=48, blocks=16),
    89: Limits(100 * _KIB, 99 * _KIB, warps=48, blocks=24),
    90: _LARGE,
    100: _BLACKWELL,
    103: _BLACKWELL,
    120: Limits(100 * _KIB, 99 * _KIB, warps=48, blocks=24),
    121: Limits(100 * _KIB, 99 * _KIB, warps=48, blocks=24),
}


@dataclass(frozen=True)
class Rates:
    """Peak throughputs of one SM in one clock; where sources differ the highest is taken.

    A bound may be too high and never too low: an uncertain rate is the largest that was published.

    Attributes:
        device: whose clock and memory `dram_bytes` is of.
        mma_flop: dense 16-bit products summed in float32; TF32 has half of it, 8-bit twice.
        mufu: exponentials, reciprocals and the like, one a lane.
        fp32: float32 additions, products, fused ones, and integer products, one a lane.
        alu: integers, logic, selects, comparisons, minimum and maximum, conversions to 16 bits.
        shuffle: one a lane.
        shared_bytes: to and from shared memory.
        issue: instructions of a warp.
        dram_bytes: data sheet bandwidth over SMs and the clock that `mma_flop` is quoted at.
    """

    device: str
    mma_flop: int
    mufu: int
    fp32: int
    alu: int
    shuffle: int
    shared_bytes: int
    issue: int
    dram_bytes: float


# mma_flop: NVIDIA A100, H100 and Blackwell architecture papers, 312, 989 and 2250 TFLOP/s over
# 108, 132 and 148 SMs at 1.410, 1.830 and 1.850 GHz; the same per SM in XLA's
# stream_executor/cuda/cuda_core_info_table.cc. mufu, fp32, alu, shuffle: CUDA C++ Best Practices
# Guide 13, 12.1.1, "Throughput of Native Arithmetic Instructions". alu on sm_100: minimum and
# maximum have 128 there, logic 64. Packing to bfloat16 is listed with 16 or 64: taken as alu.
# mufu on all three also in FlashAttention-3 (2024), section 3.2, and FlashAttention-4 (2026).
# shared_bytes: 32 banks of 4 bytes, CUDA Programming Guide. dram_bytes: data sheets, 2039, 3350
# and 8000 GB/s.
_RATES = {
    80: Rates("A100 SXM 80 GB", 2048, 16, 64, 64, 32, 128, 4, 2039 / (108 * 1.410)),
    90: Rates("H100 SXM", 4096, 16, 128, 64, 32, 128, 4, 3350 / (132 * 1.830)),
    100: Rates("B200", 8192, 16, 128, 128, 32, 128, 4, 8000 / (148 * 1.850)),
}

# What people have: https://developer.nvidia.com/cuda-gpus, "CUDA GPU Compute Capability".
_CHIPS = {"a100": 80, "h100": 90, "h200": 90, "b200": 100}


def limits_of(capability: int) -> Limits:
    """The limits of an SM of compute capability 9.0, given as 90.

    Raises:
        ValueError: they are not known here.
    """
    if capability not in _LIMITS:
        raise ValueError(
            f"sm_{capability} is not known: one of {', '.join(f'sm_{c}' for c in _LIMITS)}"
        )
    return _LIMITS[capability]


def rates_of(capability: int) -> Rates | None:
    """The throughputs of an SM; None where they differ between products, or are not published."""
    return _RATES.get(capability)


def capability_of(arch: str) -> int:
    """90 for "sm_90", "sm90", "90" or a chip that has it, "h100".

    Raises:
        ValueError: it is none that is known here.
    """
    if (chip := arch.lower()) in _CHIPS:
        return _CHIPS[chip]
    number = arch.removeprefix("sm_").removeprefix("sm")
    if not number.isdecimal():
        raise ValueError(f'"{arch}" is no architecture: write sm_90, or {", ".join(_CHIPS)}')
    limits_of(int(number))
    return int(number)
