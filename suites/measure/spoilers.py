"""Environment variables that change what is measured, and nobody sees in the number."""

from __future__ import annotations

from collections.abc import Mapping

# By name: the value that does nothing, and what any other does.
_SPOILERS = {
    "CUDA_LAUNCH_BLOCKING": ("0", "every launch waits for the one before"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("0", "every tensor is a cudaMalloc, inside the clock"),
    "NVIDIA_TF32_OVERRIDE": (None, "float32 products are TF32, or never, whatever torch says"),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": ("0", "float32 products are TF32, whatever torch says"),
    "ONEDNN_DEFAULT_FPMATH_MODE": ("STRICT", "float32 products may be bfloat16, roofs among them"),
    "DNNL_DEFAULT_FPMATH_MODE": ("STRICT", "float32 products may be bfloat16, roofs among them"),
    "ONEDNN_VERBOSE": ("0", "every product prints a line, inside the clock"),
    "MKL_VERBOSE": ("0", "every product prints a line, inside the clock"),
    "PYTORCH_TUNABLEOP_ENABLED": ("0", "products are tuned at their first call, roofs among them"),
    "ATEN_CPU_CAPABILITY": (None, "torch takes kernels for an older processor"),
    "ONEDNN_MAX_CPU_ISA": (None, "oneDNN takes kernels for an older processor"),
    "MKL_ENABLE_INSTRUCTIONS": (None, "MKL takes kernels for an older processor"),
    "TORCH_COMPILE_DISABLE": ("0", "what is called compiled runs eagerly"),
    "TORCHDYNAMO_DISABLE": ("0", "what is called compiled runs eagerly"),
    "TRITON_INTERPRET": ("0", "Triton kernels run in the interpreter, a thousand times slower"),
    "MALLOC_PERTURB_": ("0", "every allocation is filled, inside the clock"),
}


def spoilers(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that are set, by name: "NAME=value: what it does"."""
    found = {}
    for name, (harmless, why) in _SPOILERS.items():
        text = environment.get(name)
        if text is not None and text not in ("", harmless):
            found[name] = f"{name}={text}: {why}"
    return found
