"""The canary kernel: bfloat16 multiplied and rounded, does the interpreter do it right?"""

import triton
import triton.language as tl


@triton.jit
def bf16_dot_and_cast(p_ones, p_values, p_product, p_rounded):
    """ones·ones in float32, and float32 values rounded to bfloat16; all (16, 16), contiguous."""
    o_tile = 16 * tl.arange(0, 16)[:, None] + tl.arange(0, 16)[None, :]
    b_ones = tl.load(p_ones + o_tile)
    tl.store(p_product + o_tile, tl.dot(b_ones, b_ones, input_precision="ieee"))
    tl.store(p_rounded + o_tile, tl.load(p_values + o_tile).to(tl.bfloat16))
