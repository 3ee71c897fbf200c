"""Launching the Hopper kernel: what it asks of tensors, its compilation, its scratch memory."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Hashable
from typing import Any

import torch

from impls.interface.attention import Unsupported
from impls.interface.failures import told
from impls.triton_flash.blocks import Blocks, head_constants
from impls.triton_flash.blocks_hopper import hopper_blocks_for, reasons_against_device
from impls.triton_flash.interpreter import is_interpreting, mend_bf16
from impls.triton_flash.launch import (
    MAX_D_H,
    capability_of,
    empty_like_q,
    grid,
    with_scale_above_zero,
)

DTYPES = (torch.bfloat16, torch.float16)
# Base address and strides of a tensor map, CUDA driver API 13.0, cuTensorMapEncodeTiled.
ALIGNMENT_BYTES = 16

# Why a compilation is of no use, nothing where it is, by all that it depends on.
_compilations: dict[Hashable, list[str]] = {}


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    blocks: Blocks | None = None,
    splits: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (B, H, T_q, d_v), laid out as q, and lse (B, H, T_q), float32, of one launch.

    `blocks` default to what suits the head size; `splits`: head sizes in two chunks, not padded.

    Raises:
        Unsupported: the device is no Hopper, descriptors cannot describe a tensor, or the kernel
            does not compile to specialised warps with this Triton.
    """
    capability = capability_of(q.device)
    if reasons := [*reasons_against_device(capability), *reasons_against_tensors(q, k, v)]:
        raise Unsupported(*reasons)
    B, H, T_q, d_h = q.shape
    T_kv, d_v = v.shape[2:]
    if blocks is None:
        blocks = hopper_blocks_for(capability, max(d_h, d_v))
    out = empty_like_q(q, d_v)
    lse = q.new_empty(B, H, T_q, dtype=torch.float32)
    if lse.numel() == 0:
        return out, lse
    q, scale = with_scale_above_zero(q, scale)
    if window is not None and window >= T_kv:
        window = None  # it hides no key, and small numbers cannot overflow

    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3])
    sizes = (H, H // k.shape[1], T_q, T_kv, window or 0)
    constants = {
        **head_constants(d_h, d_v, splits),
        "BLOCK_Q": blocks.BLOCK_Q,
        "BLOCK_KV": blocks.BLOCK_KV,
        "IS_CAUSAL": causal,
        "HAS_WINDOW": window is not None,
        "HAS_TAIL": not causal and T_kv % blocks.BLOCK_KV != 0,
        "num_warps": blocks.num_warps,
        "num_stages": blocks.num_stages,
    }
    programs = grid(B, H, T_q, blocks.BLOCK_Q)
    arguments = (q, k, v, out, lse, scale, *strides, *sizes)
    kernel = _kernel()
    if is_interpreting():
        kernel[programs](*arguments, **constants)
        return out, lse
    # Triton looks up the device that is current, not the one the tensors are on.
    with torch.cuda.device(q.device):
        key = (q.device, q.dtype, *constants.values(), *(stride >= 2**31 for stride in strides))
        if key not in _compilations:
            _compilations[key] = _reasons_against_compiling(kernel, arguments, constants)
        if _compilations[key]:
            raise Unsupported(*_compilations[key])
        _with_scratch(lambda: kernel[programs](*arguments, **constants))
    return out, lse


def reasons_against_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[str]:
    """All reasons why descriptors cannot describe these tensors, or the kernel not read them."""
    reasons = []
    if q.dtype not in DTYPES:
        reasons.append(f"dtype {str(q.dtype).removeprefix('torch.')} is not supported")
    step = ALIGNMENT_BYTES // q.element_size()
    for name, d in (("d_h", q.shape[3]), ("d_v", v.shape[3])):
        if d == 0 or d % step:
            reasons.append(f"{name}={d} is not a multiple of {step}")
        if d > MAX_D_H:
            reasons.append(f"{name}={d} is above {MAX_D_H}")
    if k.shape[2] == 0:
        reasons.append("T_kv=0: a descriptor has one row at least")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.data_ptr() % ALIGNMENT_BYTES:
            reasons.append(f"{name} begins at no multiple of {ALIGNMENT_BYTES} bytes")
        if tensor.stride(3) != 1:
            reasons.append(f"last-dim stride of {name} is {tensor.stride(3)}: it must be 1")
        if tensor.stride(2) < tensor.shape[3]:
            reasons.append(f"rows of {name} overlap: they are {tensor.stride(2)} elements apart")
        # A dimension of one element is never stepped along.
        strides = [s for n, s in zip(tensor.shape[:2], tensor.stride(), strict=False) if n > 1]
        if any(stride % step for stride in (*strides, tensor.stride(2))):
            found = ", ".join(str(stride) for stride in tensor.stride())
            reasons.append(
                f"strides of {name} are {found}: all but the last must be multiples of {step}"
            )
    return reasons


def _reasons_against_compiling(
    kernel: Any, arguments: tuple[Any, ...], constants: dict[str, Any]
) -> list[str]:
    """Compile for the current device; the reasons why the result is none, or not specialised."""
    from triton.errors import TritonError

    try:
        compiled = kernel.warmup(*arguments, grid=(1,), **constants)
    except (RuntimeError, TritonError) as error:
        # A line of the kernel is told first, and what is wrong with it is its cause.
        return [f"does not compile: {told(error.__cause__ or error)}"]
    # The warps that copy and the second half of those that compute are counted in.
    if compiled.metadata.num_warps <= constants["num_warps"]:
        return ["compiles without specialised warps"]
    return []


def _with_scratch(launch: Callable[[], object]) -> None:
    """Launch with memory for the descriptors, and leave the caller's own Triton allocator be."""
    import triton

    def run() -> None:
        triton.set_allocator(_scratch)
        launch()

    contextvars.copy_context().run(run)


def _scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    # torch aligns to 512 bytes, and reuses the memory only after what this stream does now.
    return torch.empty(size, dtype=torch.int8, device="cuda")


def _kernel() -> Any:
    if is_interpreting():
        mend_bf16()
    from impls.triton_flash.forward_hopper import triton_flash_forward_hopper

    return triton_flash_forward_hopper
