"""The forward kernel: one program computes a block of queries of one head with online softmax."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LN_2, LOG2_E, over_keys
from impls.triton_flash.precision import named_by_precision
from impls.triton_flash.rows import load_rows, store_rows

# Names as in over_keys.py.


# Sizes are not specialised on: a sweep over T would compile anew for 1 and for multiples of 16,
# and gain nothing. Strides and pointers are: their divisibility decides how wide a load may be.
@triton.jit(
    repr=named_by_precision("triton_flash_forward"),
    do_not_specialize=["scale", "H", "group", "T_q", "T_kv", "window"],
)
def triton_flash_forward(
    p_q,
    p_k,
    p_v,
    p_out,
    p_lse,
    scale,
    stride_q_b,
    stride_q_h,
    stride_q_t,
    stride_k_b,
    stride_k_h,
    stride_k_t,
    stride_v_b,
    stride_v_h,
    stride_v_t,
    stride_out_b,
    stride_out_h,
    stride_out_t,
    H,
    group,
    T_q,
    T_kv,
    window,
    D_H: tl.constexpr,
    D_H_A: tl.constexpr,
    D_H_B: tl.constexpr,
    D_V: tl.constexpr,
    D_V_A: tl.constexpr,
    D_V_B: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Output (B, H, T_q, d_v) and lse (B, H, T_q), natural log, of one block of queries.

    The grid is one-dimensional, B·H·blocks: only x may pass 65535. `scale` is above zero; `group`
    is H / H_kv; causal is aligned bottom-right and `window` counts the keys a query keeps. The
    last dimension of every tensor has stride 1, lse is contiguous. A row that sees no key gets
    output 0 and lse −inf.
    """
    n_blocks = tl.cdiv(T_q, BLOCK_Q)
    i_bh = tl.program_id(0) // n_blocks
    # Under a causal mask the last block has the most keys: begun first, it does not end alone.
    i_block = n_blocks - 1 - tl.program_id(0) % n_blocks
    i_b = (i_bh // H).to(tl.int64)
    i_h = (i_bh % H).to(tl.int64)
    i_h_kv = i_h // group
    p_q += i_b * stride_q_b + i_h * stride_q_h
    p_k += i_b * stride_k_b + i_h_kv * stride_k_h
    p_v += i_b * stride_v_b + i_h_kv * stride_v_h
    p_out += i_b * stride_out_b + i_h * stride_out_h

    first = i_block * BLOCK_Q
    o_q = first + tl.arange(0, BLOCK_Q)
    b_q_a = load_rows(p_q, o_q, stride_q_t, T_q, D_H, 0, D_H_A, True)  # (BLOCK_Q, D_H_A)
    b_q_b = b_q_a
    if D_H_B > 0:
        b_q_b = load_rows(p_q, o_q, stride_q_t, T_q, D_H, D_H_A, D_H_B, True)  # (BLOCK_Q, D_H_B)
    b_max = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    b_sum = tl.zeros([BLOCK_Q], tl.float32)
    b_out_a = tl.zeros([BLOCK_Q, D_V_A], tl.float32)
    b_out_b = b_sum
    if D_V_B > 0:
        b_out_b = tl.zeros([BLOCK_Q, D_V_B], tl.float32)

    # Keys start to full_start are seen by some rows (window), those to full_end by all rows of
    # the block, those to end by some again (causal diagonal, tail): only the outer two are masked.
    scale_log2 = scale * LOG2_E
    shift = T_kv - T_q
    o_last = o_q + shift
    start = 0
    full_start = 0
    end = T_kv
    full_end = T_kv // BLOCK_KV * BLOCK_KV
    if IS_CAUSAL:
        end = tl.minimum(tl.maximum(first + BLOCK_Q + shift, 0), T_kv)
        full_end = tl.minimum(tl.maximum(first + shift + 1, 0), T_kv) // BLOCK_KV * BLOCK_KV
    if HAS_WINDOW:
        start = tl.maximum(first + shift - window + 1, 0) // BLOCK_KV * BLOCK_KV
        oldest = tl.maximum(first + BLOCK_Q + shift - window, 0)  # of the block's last row
        full_start = tl.minimum(tl.cdiv(oldest, BLOCK_KV) * BLOCK_KV, full_end)
        b_out_a, b_out_b, b_sum, b_max = over_keys(
            b_out_a, b_out_b, b_sum, b_max, b_q_a, b_q_b, p_k, p_v, stride_k_t, stride_v_t,
            o_last, start, full_start, scale_log2, T_kv, window, D_H, D_H_A, D_H_B, D_V, D_V_A,
            D_V_B, BLOCK_KV, True, IS_CAUSAL, HAS_WINDOW, PRECISION,
        )  # fmt: skip
    b_out_a, b_out_b, b_sum, b_max = over_keys(
        b_out_a, b_out_b, b_sum, b_max, b_q_a, b_q_b, p_k, p_v, stride_k_t, stride_v_t,
        o_last, full_start, full_end, scale_log2, T_kv, window, D_H, D_H_A, D_H_B, D_V, D_V_A,
        D_V_B, BLOCK_KV, False, IS_CAUSAL, HAS_WINDOW, PRECISION,
    )  # fmt: skip
    b_out_a, b_out_b, b_sum, b_max = over_keys(
        b_out_a, b_out_b, b_sum, b_max, b_q_a, b_q_b, p_k, p_v, stride_k_t, stride_v_t,
        o_last, full_end, end, scale_log2, T_kv, window, D_H, D_H_A, D_H_B, D_V, D_V_A,
        D_V_B, BLOCK_KV, True, IS_CAUSAL, HAS_WINDOW, PRECISION,
    )  # fmt: skip

    m_dead = b_sum == 0.0
    b_divisor = tl.where(m_dead, 1.0, b_sum)
    b_lse = tl.where(m_dead, -float("inf"), (b_max + tl.log2(b_divisor)) * LN_2)  # (BLOCK_Q,)
    tl.store(p_lse + i_bh.to(tl.int64) * T_q + o_q, b_lse, mask=o_q < T_q)
    store_rows(p_out, o_q, stride_out_t, T_q, b_out_a / b_divisor[:, None], D_V, 0, D_V_A)
    if D_V_B > 0:
        b_out_b = b_out_b / b_divisor[:, None]
        store_rows(p_out, o_q, stride_out_t, T_q, b_out_b, D_V, D_V_A, D_V_B)
