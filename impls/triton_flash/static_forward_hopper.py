"""The Hopper kernel as it is compiled ahead of time."""

from __future__ import annotations

from dataclasses import asdict, replace

from impls.interface.static_kernel import Build, StaticKernel, Target
from impls.triton_flash.blocks import head_constants
from impls.triton_flash.blocks_hopper import hopper_blocks_for, reasons_against_device


def build(target: Target) -> Build | None:
    """The Hopper kernel, d_v = d_h; None for other devices."""
    if reasons_against_device(target.capability):
        return None
    d = target.d_h
    blocks = replace(hopper_blocks_for(target.capability, d), **target.block)
    heads = head_constants(d, d, splits=True)
    M, N = blocks.BLOCK_Q, blocks.BLOCK_KV
    chunks = [c for c in (heads["D_H_A"], heads["D_H_B"]) if c]
    return Build(
        block=asdict(blocks),
        constants={**heads, **target.variant},
        types={"p_lse": "*fp32", "scale": "fp32"},
        # The kernel is not specialised on strides, whatever they are.
        unaligned=tuple(
            f"stride_{tensor}_{axis}" for tensor in ("q", "k", "v", "out") for axis in "bht"
        ),
        products=(*((M, N, c) for c in chunks), *((M, c, N) for c in chunks)),
        useful_flop=4 * M * N * d,
        exponentials=M * N,
        is_masked=any(target.variant.values()),
        bulk_bytes=2 * N * sum(chunks) * target.element_bytes,
    )


forward_hopper = StaticKernel(
    kernel="impls.triton_flash.forward_hopper:triton_flash_forward_hopper",
    build=build,
    variants=(
        {"IS_CAUSAL": True, "HAS_WINDOW": False, "HAS_TAIL": False},
        {"IS_CAUSAL": False, "HAS_WINDOW": False, "HAS_TAIL": False},
        {"IS_CAUSAL": False, "HAS_WINDOW": False, "HAS_TAIL": True},
        {"IS_CAUSAL": True, "HAS_WINDOW": True, "HAS_TAIL": False},
    ),
    dtypes=("bf16", "fp16"),
)
