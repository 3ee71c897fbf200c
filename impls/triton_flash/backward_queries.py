"""The backward kernel of queries: one program computes dq of a block of queries of one head."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LOG2_E
from impls.triton_flash.precision import named_by_precision
from impls.triton_flash.rows import load_rows, store_rows

# Names as in over_keys.py; d_ before a name is the gradient of what it names.


@triton.jit
def _over_keys(
    b_dq_a,
    b_dq_b,
    b_q_a,
    b_q_b,
    b_d_out_a,
    b_d_out_b,
    b_shift,
    b_delta,
    p_k,
    p_v,
    stride_k_t,
    stride_v_t,
    o_last,
    start,
    end,
    gap,
    gap_length,
    scale_log2,
    T_kv,
    window,
    D_H: tl.constexpr,
    D_H_A: tl.constexpr,
    D_H_B: tl.constexpr,
    D_V: tl.constexpr,
    D_V_A: tl.constexpr,
    D_V_B: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    IS_MASKED: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    SPARES_REGISTERS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Add dS·k, still without the scale, of keys start to end; from `gap` on, `gap_length` further.

    `o_last` is a query's last key. All others are multiples of BLOCK_KV.
    """
    # pyright takes tl.range and tl.constexpr for what they are outside kernels.
    for i_kv in tl.range(  # pyright: ignore[reportGeneralTypeIssues]
        start,
        end,
        BLOCK_KV,
        disable_licm=SPARES_REGISTERS,  # pyright: ignore[reportArgumentType]  # as above
    ):
        o_kv = i_kv + tl.arange(0, BLOCK_KV)
        if IS_MASKED:
            o_kv += tl.where(i_kv >= gap, gap_length, 0)
        b_k_a = load_rows(p_k, o_kv, stride_k_t, T_kv, D_H, 0, D_H_A, IS_MASKED)
        b_s = tl.dot(b_q_a, tl.trans(b_k_a), input_precision=PRECISION)  # (BLOCK_Q, BLOCK_KV)
        b_k_b = b_k_a
        if D_H_B > 0:
            b_k_b = load_rows(p_k, o_kv, stride_k_t, T_kv, D_H, D_H_A, D_H_B, IS_MASKED)
            b_s = tl.dot(b_q_b, tl.trans(b_k_b), b_s, input_precision=PRECISION)
        b_s = b_s * scale_log2 - b_shift[:, None]
        if IS_MASKED:
            # Keys beyond the last too: their score, 0, may be so far above the row's maximum
            # that P would be infinite, and infinite times a k of zeros is NaN.
            m_s = o_kv[None, :] < T_kv
            if IS_CAUSAL:
                m_s = m_s & (o_kv[None, :] <= o_last[:, None])
            if HAS_WINDOW:
                m_s = m_s & (o_kv[None, :] > o_last[:, None] - window)
            b_s = tl.where(m_s, b_s, -float("inf"))
        b_p = tl.exp2(b_s)  # (BLOCK_Q, BLOCK_KV)
        b_v = load_rows(p_v, o_kv, stride_v_t, T_kv, D_V, 0, D_V_A, IS_MASKED)
        b_dp = tl.dot(b_d_out_a, tl.trans(b_v), input_precision=PRECISION)  # (BLOCK_Q, BLOCK_KV)
        if D_V_B > 0:
            b_v = load_rows(p_v, o_kv, stride_v_t, T_kv, D_V, D_V_A, D_V_B, IS_MASKED)
            b_dp = tl.dot(b_d_out_b, tl.trans(b_v), b_dp, input_precision=PRECISION)
        b_ds = (b_p * (b_dp - b_delta[:, None])).to(b_k_a.dtype)  # (BLOCK_Q, BLOCK_KV)
        b_dq_a = tl.dot(b_ds, b_k_a, b_dq_a, input_precision=PRECISION)  # (BLOCK_Q, D_H_A)
        if D_H_B > 0:
            b_dq_b = tl.dot(b_ds, b_k_b, b_dq_b, input_precision=PRECISION)  # (BLOCK_Q, D_H_B)
    return b_dq_a, b_dq_b


@triton.jit(
    repr=named_by_precision("triton_flash_backward_queries"),
    do_not_specialize=["scale", "H", "group", "T_q", "T_kv", "window"],
)
def triton_flash_backward_queries(
    p_q,
    p_k,
    p_v,
    p_d_out,
    p_shift,
    p_delta,
    p_dq,
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
    stride_d_out_b,
    stride_d_out_h,
    stride_d_out_t,
    stride_dq_b,
    stride_dq_h,
    stride_dq_t,
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
    SPARES_REGISTERS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradient dq (B, H, T_q, d_h) of one block of queries; 0 where a query sees no key.

    The grid is one-dimensional, B·H·blocks. `scale` may be any number; `group` is H / H_kv.
    Where it SPARES_REGISTERS, offsets are computed anew in every iteration rather than kept.
    `shift` and `delta` are those of `backward_rows`. Causal is aligned bottom-right. The last
    dimension of every tensor has stride 1.
    """
    n_blocks = tl.cdiv(T_q, BLOCK_Q)
    i_bh = tl.program_id(0) // n_blocks
    # Under a causal mask the last block has the most keys: begun first, it does not end alone.
    first = (n_blocks - 1 - tl.program_id(0) % n_blocks) * BLOCK_Q
    i_b = (i_bh // H).to(tl.int64)
    i_h = (i_bh % H).to(tl.int64)
    i_h_kv = i_h // group
    p_q += i_b * stride_q_b + i_h * stride_q_h
    p_k += i_b * stride_k_b + i_h_kv * stride_k_h
    p_v += i_b * stride_v_b + i_h_kv * stride_v_h
    p_d_out += i_b * stride_d_out_b + i_h * stride_d_out_h
    p_dq += i_b * stride_dq_b + i_h * stride_dq_h

    o_q = first + tl.arange(0, BLOCK_Q)
    o_row = i_bh.to(tl.int64) * T_q + o_q
    b_q_a = load_rows(p_q, o_q, stride_q_t, T_q, D_H, 0, D_H_A, True)  # (BLOCK_Q, D_H_A)
    b_d_out_a = load_rows(p_d_out, o_q, stride_d_out_t, T_q, D_V, 0, D_V_A, True)
    b_shift = tl.load(p_shift + o_row, mask=o_q < T_q, other=float("inf"))  # (BLOCK_Q,)
    b_delta = tl.load(p_delta + o_row, mask=o_q < T_q, other=0.0)
    b_dq_a = tl.zeros([BLOCK_Q, D_H_A], tl.float32)
    b_q_b = b_q_a
    b_d_out_b = b_d_out_a
    b_dq_b = b_delta  # a mere placeholder without chunk B, as above
    if D_H_B > 0:
        b_q_b = load_rows(p_q, o_q, stride_q_t, T_q, D_H, D_H_A, D_H_B, True)
        b_dq_b = tl.zeros([BLOCK_Q, D_H_B], tl.float32)
    if D_V_B > 0:
        b_d_out_b = load_rows(p_d_out, o_q, stride_d_out_t, T_q, D_V, D_V_A, D_V_B, True)

    # As in the forward kernel, but the outer two spans of keys share the masked loop.
    scale_log2 = scale * LOG2_E
    shift = T_kv - T_q
    o_last = o_q + shift
    start = 0
    full_start = 0
    full_end = T_kv // BLOCK_KV * BLOCK_KV
    end = T_kv
    if IS_CAUSAL:
        full_end = tl.minimum(tl.maximum(first + shift + 1, 0), T_kv) // BLOCK_KV * BLOCK_KV
        end = tl.minimum(tl.maximum(first + BLOCK_Q + shift, 0), T_kv)
    if HAS_WINDOW:
        start = tl.maximum(first + shift - window + 1, 0) // BLOCK_KV * BLOCK_KV
        oldest = tl.maximum(first + BLOCK_Q + shift - window, 0)  # of the block's last row
        full_start = tl.minimum(tl.cdiv(oldest, BLOCK_KV) * BLOCK_KV, full_end)
    b_dq_a, b_dq_b = _over_keys(
        b_dq_a, b_dq_b, b_q_a, b_q_b, b_d_out_a, b_d_out_b, b_shift, b_delta, p_k, p_v, stride_k_t,
        stride_v_t, o_last, start, end - (full_end - full_start), full_start,
        full_end - full_start, scale_log2, T_kv, window, D_H, D_H_A, D_H_B, D_V, D_V_A, D_V_B,
        BLOCK_KV, True, IS_CAUSAL, HAS_WINDOW, SPARES_REGISTERS, PRECISION,
    )  # fmt: skip
    b_dq_a, b_dq_b = _over_keys(
        b_dq_a, b_dq_b, b_q_a, b_q_b, b_d_out_a, b_d_out_b, b_shift, b_delta, p_k, p_v, stride_k_t,
        stride_v_t, o_last, full_start, full_end, 0, 0, scale_log2, T_kv, window, D_H, D_H_A,
        D_H_B, D_V, D_V_A, D_V_B, BLOCK_KV, False, IS_CAUSAL, HAS_WINDOW, SPARES_REGISTERS,
        PRECISION,
    )  # fmt: skip

    store_rows(p_dq, o_q, stride_dq_t, T_q, b_dq_a * scale, D_H, 0, D_H_A)
    if D_H_B > 0:
        store_rows(p_dq, o_q, stride_dq_t, T_q, b_dq_b * scale, D_H, D_H_A, D_H_B)
