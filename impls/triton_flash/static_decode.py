"""The decode kernels as they are compiled ahead of time: one token, eight query heads a kv head."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from impls.interface.static_kernel import Build, StaticKernel, Target
from impls.triton_flash.blocks import head_constants, splits_heads
from impls.triton_flash.blocks_decode import decode_blocks_for
from impls.triton_flash.precision import IEEE

# Triton's own defaults, which the reduce kernel is launched with.
_DEFAULTS = {"num_warps": 4, "num_stages": 3}


def build_split(target: Target) -> Build:
    """The kernel of one split, d_v = d_h, writing partial outputs in float32.

    The variant's "rows" are the queries that share a kv head; it is no argument of the kernel.
    """
    d = target.d_h
    switches = dict(target.variant)
    blocks = asdict(
        decode_blocks_for(target.capability, d, target.element_bytes, switches.pop("rows"))
    )
    blocks.pop("least_keys")
    block = {**blocks, **target.block}
    heads = head_constants(d, d, splits_heads(target.capability))
    M, N = block["BLOCK_ROWS"], block["BLOCK_KV"]
    chunks = [c for c in (heads["D_H_A"], heads["D_H_B"]) if c]
    return Build(
        block=block,
        constants={**heads, **switches, "PRECISION": IEEE},
        types={"p_out": "*fp32", "p_lse": "*fp32", "scale": "fp32"},
        unaligned=() if d % 16 == 0 else _row_strides("q", "k", "v", "out"),
        products=(*((M, N, c) for c in chunks), *((M, c, N) for c in chunks)),
        uses_matrix_units=target.dtype != "fp32",
        exponentials=M * N,
        dram_bytes=2 * N * d * target.element_bytes,
    )


def build_reduce(target: Target) -> Build:
    """The kernel that merges the partial outputs of one row."""
    d = target.d_h
    block = {"BLOCK_SPLITS": 16, **_DEFAULTS, **target.block}
    return Build(
        block=block,
        constants={"D_V": d, "D_V_PADDED": 1 << max(d - 1, 0).bit_length()},
        types={"p_partial": "*fp32", "p_partial_lse": "*fp32", "p_lse": "*fp32"},
        unaligned=() if d % 16 == 0 else _row_strides("out"),
        is_masked=True,
        dram_bytes=block["BLOCK_SPLITS"] * (d + 1) * 4,
    )


def _row_strides(*tensors: str) -> tuple[str, ...]:
    """Of consecutive rows, which are d_h elements apart; queries and outputs have one a head."""
    return tuple(
        f"stride_{tensor}_{axis}"
        for tensor in tensors
        for axis in ("ht" if tensor in ("q", "out") else "t")
    )


def _switches(*, is_causal: bool, has_window: bool, rows: int) -> dict[str, Any]:
    return {"IS_CAUSAL": is_causal, "HAS_WINDOW": has_window, "rows": rows}


decode_split = StaticKernel(
    kernel="impls.triton_flash.decode:triton_decode_split",
    build=build_split,
    variants=(
        _switches(is_causal=True, has_window=False, rows=8),
        _switches(is_causal=True, has_window=True, rows=8),
        _switches(is_causal=True, has_window=False, rows=64),
    ),
)

decode_reduce = StaticKernel(
    kernel="impls.triton_flash.decode_reduce:triton_decode_reduce", build=build_reduce
)
