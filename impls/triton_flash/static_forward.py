"""The forward kernel as it is compiled ahead of time."""

from __future__ import annotations

from dataclasses import asdict, replace

from impls.interface.static_kernel import Build, StaticKernel, Target
from impls.triton_flash.blocks import blocks_for, head_constants, splits_heads
from impls.triton_flash.static_precision import AS_TF32X3, matrix_products, precision_of


def build(target: Target) -> Build | None:
    """The forward kernel, d_v = d_h, in (B, H, T, d_h) tensors that follow one another.

    None where float32 is not multiplied so.
    """
    precision = precision_of(target, "forward")
    if precision is None:
        return None
    n_products = matrix_products(target, precision)
    d = target.d_h
    blocks = blocks_for(target.capability, d, target.element_bytes, precision)
    blocks = replace(blocks, **target.block)
    heads = head_constants(d, d, splits_heads(target.capability))
    M, N = blocks.BLOCK_Q, blocks.BLOCK_KV
    chunks = [c for c in (heads["D_H_A"], heads["D_H_B"]) if c]
    return Build(
        block=asdict(blocks),
        constants={**heads, **target.variant, "PRECISION": precision},
        types={"p_lse": "*fp32", "scale": "fp32"},
        unaligned=() if d % 16 == 0 else ("stride_q_t", "stride_k_t", "stride_v_t", "stride_out_t"),
        products=(*((M, N, c) for c in chunks), *((M, c, N) for c in chunks)) * max(n_products, 1),
        uses_matrix_units=n_products > 0,
        useful_flop=4 * M * N * d,
        exponentials=M * N,
        # Without matrix units a row lies across threads, and finding its maximum selects; of three
        # products Triton selects what is not NaN.
        is_masked=n_products != 1,
    )


forward = StaticKernel(
    kernel="impls.triton_flash.forward:triton_flash_forward",
    build=build,
    variants=(
        {"IS_CAUSAL": True, "HAS_WINDOW": False},
        {"IS_CAUSAL": False, "HAS_WINDOW": False},
        {"IS_CAUSAL": True, "HAS_WINDOW": True},
        AS_TF32X3,
    ),
)
