"""triton_flash compiled ahead of time for real GPUs, on any CPU: what shipped blocks cost there."""

import re
import subprocess
from pathlib import Path

import pytest

from impls.triton_flash.blocks import blocks_for, chunks, splits_heads
from impls.triton_flash.launch import PRECISION

triton = pytest.importorskip("triton")

# Shared memory a block may have, CUDA C++ Programming Guide 13.0, table of compute capabilities.
SHARED_LIMIT = {80: 163 * 1024, 86: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 120: 99 * 1024}
# Tensor memory columns of an SM, PTX ISA 8.7, tcgen05.
TENSOR_MEMORY_LIMIT = 512
MATRIX = {80: "HMMA", 86: "HMMA", 90: "HGMMA", 100: "UTCHMMA", 120: "HMMA"}
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
# Outside the loops: see blocks.py.
SPILLS_KNOWN = {
    (80, 128, 2): 9,
    (100, 160, 2): 1,
    (100, 192, 2): 1,
    (100, 160, 4): 2,
    (100, 192, 4): 2,
    (100, 256, 4): 2,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(capability, d_h, dtype, *, causal=True, window=False):
    """The forward kernel as the launcher would have it compiled for contiguous tensors."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from impls.triton_flash.forward import triton_flash_forward as kernel

    blocks = blocks_for(capability, d_h, ELEMENT_BYTES[dtype])
    A, B = chunks(d_h, splits_heads(capability))
    constants = {
        "D_H": d_h, "D_H_A": A, "D_H_B": B, "D_V": d_h, "D_V_A": A, "D_V_B": B,
        "BLOCK_Q": blocks.BLOCK_Q, "BLOCK_KV": blocks.BLOCK_KV,
        "IS_CAUSAL": causal, "HAS_WINDOW": window, "PRECISION": PRECISION,
    }  # fmt: skip
    signature, attributes = {}, {}
    for i, name in enumerate(kernel.arg_names):
        is_pointer, is_stride = name.startswith("p_"), name.startswith("stride_")
        if name in constants:
            signature[name] = "constexpr"
        elif is_pointer:
            signature[name] = "*fp32" if name == "p_lse" else f"*{dtype}"
        else:
            signature[name] = "fp32" if name == "scale" else "i32"
        if is_pointer or is_stride:
            attributes[(i,)] = [["tt.divisibility", 16]]
    return triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": blocks.num_warps, "num_stages": blocks.num_stages},
    )


def assert_fits(binary, capability, d_h, dtype, tmp_path):
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(binary.asm["cubin"])
    sass = subprocess.run(
        [tools / "nvdisasm", "-c", cubin], capture_output=True, text=True, check=True
    ).stdout
    element_bytes = ELEMENT_BYTES[dtype]
    multiply = MATRIX[capability] if element_bytes == 2 else "FFMA2?"
    # A hopeless tile "compiles" to a stub without a multiplication: nothing counts before this.
    assert re.search(rf"\b{multiply}\b", sass), f"no {multiply} in the code"
    assert binary.metadata.shared <= SHARED_LIMIT[capability]
    assert (getattr(binary.metadata, "tmem_size", 0) or 0) <= TENSOR_MEMORY_LIMIT
    spills = len(re.findall(r"\bSTL\b", sass))
    assert spills <= SPILLS_KNOWN.get((capability, d_h, element_bytes), 0)


def test_the_kernel_compiles_for_sm_90_without_spills(tmp_path):
    assert_fits(compiled(90, 128, "bf16"), 90, 128, "bf16", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("d_h", [40, 64, 80, 96, 128, 160, 192, 256])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_shipped_blocks_compile_without_spills(capability, d_h, dtype, tmp_path):
    assert_fits(compiled(capability, d_h, dtype), capability, d_h, dtype, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_float16_and_windows_compile_too(capability, tmp_path):
    assert_fits(compiled(capability, 128, "fp16"), capability, 128, "fp16", tmp_path)
    assert compiled(capability, 64, "bf16", window=True).metadata.shared


@pytest.mark.slow
@pytest.mark.parametrize(("capability", "d_h", "dtype"), [(86, 256, "fp32"), (120, 256, "bf16")])
def test_blocks_fit_devices_of_little_shared_memory(capability, d_h, dtype):
    binary = compiled(capability, d_h, dtype)
    assert binary.metadata.shared <= SHARED_LIMIT[capability]
