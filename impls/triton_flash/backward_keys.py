"""The backward kernel of keys and values: one program computes dk and dv of a block of keys."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LOG2_E
from impls.triton_flash.precision import named_by_precision
from impls.triton_flash.rows import load_rows, store_rows

# Names as in over_keys.py; d_ before a name is the gradient of what it names. Scores are held
# transposed, (keys, queries): P and dS then go into the second products from registers.


@triton.jit
def _over_queries(
    b_dk_a,
    b_dk_b,
    b_dv_a,
    b_dv_b,
    b_k_a,
    b_k_b,
    b_v_a,
    b_v_b,
    p_q,
    p_d_out,
    p_shift,
    p_delta,
    stride_q_t,
    stride_d_out_t,
    o_first,
    start,
    end,
    gap,
    gap_length,
    scale_log2,
    T_q,
    window,
    D_H: tl.constexpr,
    D_H_A: tl.constexpr,
    D_H_B: tl.constexpr,
    D_V: tl.constexpr,
    D_V_A: tl.constexpr,
    D_V_B: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    IS_MASKED: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    SPARES_REGISTERS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Add what queries start to end give; from `gap` on, those `gap_length` further.

    `o_first` is the first query that sees a key. All are multiples of BLOCK_Q but `o_first`. dv
    gains Pᵀ·d_out and dk, still without the scale, dSᵀ·q (Dao 2023, FlashAttention-2, algorithm 2).
    """
    # pyright takes tl.range and tl.constexpr for what they are outside kernels.
    for i_q in tl.range(  # pyright: ignore[reportGeneralTypeIssues]
        start,
        end,
        BLOCK_Q,
        disable_licm=SPARES_REGISTERS,  # pyright: ignore[reportArgumentType]  # as above
    ):
        o_q = i_q + tl.arange(0, BLOCK_Q)
        if IS_MASKED:
            o_q += tl.where(i_q >= gap, gap_length, 0)
        b_q_a = load_rows(p_q, o_q, stride_q_t, T_q, D_H, 0, D_H_A, IS_MASKED)
        b_s = tl.dot(b_k_a, tl.trans(b_q_a), input_precision=PRECISION)  # (BLOCK_KV, BLOCK_Q)
        b_q_b = b_q_a
        if D_H_B > 0:
            b_q_b = load_rows(p_q, o_q, stride_q_t, T_q, D_H, D_H_A, D_H_B, IS_MASKED)
            b_s = tl.dot(b_k_b, tl.trans(b_q_b), b_s, input_precision=PRECISION)
        if IS_MASKED:
            # Beyond the last query P is 0 as the shift is infinite, so no mask is needed there.
            b_shift = tl.load(p_shift + o_q, mask=o_q < T_q, other=float("inf"))
            b_delta = tl.load(p_delta + o_q, mask=o_q < T_q, other=0.0)
        else:
            b_shift = tl.load(p_shift + o_q)
            b_delta = tl.load(p_delta + o_q)
        b_s = b_s * scale_log2 - b_shift[None, :]
        if IS_MASKED and IS_CAUSAL:
            m_s = o_q[None, :] >= o_first[:, None]
            if HAS_WINDOW:
                m_s = m_s & (o_q[None, :] < o_first[:, None] + window)
            b_s = tl.where(m_s, b_s, -float("inf"))
        b_p = tl.exp2(b_s)  # (BLOCK_KV, BLOCK_Q)
        b_d_out_a = load_rows(p_d_out, o_q, stride_d_out_t, T_q, D_V, 0, D_V_A, IS_MASKED)
        b_p_rounded = b_p.to(b_d_out_a.dtype)
        b_dv_a = tl.dot(b_p_rounded, b_d_out_a, b_dv_a, input_precision=PRECISION)
        b_dp = tl.dot(b_v_a, tl.trans(b_d_out_a), input_precision=PRECISION)
        if D_V_B > 0:
            b_d_out_b = load_rows(p_d_out, o_q, stride_d_out_t, T_q, D_V, D_V_A, D_V_B, IS_MASKED)
            b_dv_b = tl.dot(b_p_rounded, b_d_out_b, b_dv_b, input_precision=PRECISION)
            b_dp = tl.dot(b_v_b, tl.trans(b_d_out_b), b_dp, input_precision=PRECISION)
        b_ds = (b_p * (b_dp - b_delta[None, :])).to(b_q_a.dtype)  # (BLOCK_KV, BLOCK_Q)
        b_dk_a = tl.dot(b_ds, b_q_a, b_dk_a, input_precision=PRECISION)
        if D_H_B > 0:
            b_dk_b = tl.dot(b_ds, b_q_b, b_dk_b, input_precision=PRECISION)
    return b_dk_a, b_dk_b, b_dv_a, b_dv_b


@triton.jit(
    repr=named_by_precision("triton_flash_backward_keys"),
    do_not_specialize=["scale", "H_kv", "group", "T_q", "T_kv", "window"],
)
def triton_flash_backward_keys(
    p_q,
    p_k,
    p_v,
    p_d_out,
    p_shift,
    p_delta,
    p_dk,
    p_dv,
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
    stride_dk_b,
    stride_dk_h,
    stride_dk_t,
    stride_dv_b,
    stride_dv_h,
    stride_dv_t,
    H_kv,
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
    """The gradients dk (B, H_kv, T_kv, d_h) and dv (B, H_kv, T_kv, d_v) of one block of keys.

    The grid is one-dimensional, B·H_kv·blocks. A program goes through the `group` query heads that
    read its kv head, in order: nobody else adds to its rows, so no atomics, and every run gives the
    same bits. `scale` may be any number. `shift` and `delta` are those of `backward_rows`. Causal
    is aligned bottom-right. The last dimension of every tensor has stride 1. Where it
    SPARES_REGISTERS, offsets are computed anew in every iteration rather than kept.
    """
    n_blocks = tl.cdiv(T_kv, BLOCK_KV)
    i_bh = tl.program_id(0) // n_blocks
    # Under a causal mask the first block is seen by the most queries: begun first, as it is.
    first = tl.program_id(0) % n_blocks * BLOCK_KV
    i_b = (i_bh // H_kv).to(tl.int64)
    i_h_kv = (i_bh % H_kv).to(tl.int64)
    p_k += i_b * stride_k_b + i_h_kv * stride_k_h
    p_v += i_b * stride_v_b + i_h_kv * stride_v_h
    p_dk += i_b * stride_dk_b + i_h_kv * stride_dk_h
    p_dv += i_b * stride_dv_b + i_h_kv * stride_dv_h

    # Beyond the last key it is repeated, which keeps every score finite without a mask in the
    # loop; the rows of dk and dv that come of it are not stored.
    o_kv = first + tl.arange(0, BLOCK_KV)
    o_row_kv = tl.minimum(o_kv, T_kv - 1)
    b_k_a = load_rows(p_k, o_row_kv, stride_k_t, T_kv, D_H, 0, D_H_A, False)  # (BLOCK_KV, D_H_A)
    b_v_a = load_rows(p_v, o_row_kv, stride_v_t, T_kv, D_V, 0, D_V_A, False)  # (BLOCK_KV, D_V_A)
    b_dk_a = tl.zeros([BLOCK_KV, D_H_A], tl.float32)
    b_dv_a = tl.zeros([BLOCK_KV, D_V_A], tl.float32)
    b_k_b = b_k_a
    b_v_b = b_v_a
    b_dk_b = tl.zeros([BLOCK_KV], tl.float32)  # a mere placeholder without chunk B, as above
    b_dv_b = b_dk_b
    if D_H_B > 0:
        b_k_b = load_rows(p_k, o_row_kv, stride_k_t, T_kv, D_H, D_H_A, D_H_B, False)
        b_dk_b = tl.zeros([BLOCK_KV, D_H_B], tl.float32)
    if D_V_B > 0:
        b_v_b = load_rows(p_v, o_row_kv, stride_v_t, T_kv, D_V, D_V_A, D_V_B, False)
        b_dv_b = tl.zeros([BLOCK_KV, D_V_B], tl.float32)

    # Queries start to full_start see some keys of the block (diagonal), those to full_end see all
    # of it, those to end some again (window, tail): the outer two share the masked loop.
    scale_log2 = scale * LOG2_E
    o_first = o_kv - (T_kv - T_q)
    start = 0
    full_start = 0
    full_end = T_q // BLOCK_Q * BLOCK_Q
    end = T_q
    if IS_CAUSAL:
        seen_by = first - (T_kv - T_q)  # the first query that sees the block's first key
        start = tl.minimum(tl.maximum(seen_by, 0), T_q) // BLOCK_Q * BLOCK_Q
        seen_whole_by = tl.maximum(seen_by + BLOCK_KV - 1, 0)
        full_start = tl.minimum(tl.cdiv(seen_whole_by, BLOCK_Q) * BLOCK_Q, end)
        if HAS_WINDOW:
            end = tl.minimum(tl.maximum(seen_by + BLOCK_KV - 1 + window, 0), T_q)
            full_end = tl.minimum(tl.maximum(seen_by + window, 0), T_q) // BLOCK_Q * BLOCK_Q
        full_end = tl.maximum(full_end, full_start)
    # Offsets and masks of the loops within are not computed ahead of this one: kept through it,
    # they would spill 50 to 250 values, and save a few instructions a head.
    for i_member in tl.range(0, group, disable_licm=True):  # pyright: ignore[reportGeneralTypeIssues]  # as above
        i_h = i_h_kv * group + i_member
        p_q_h = p_q + i_b * stride_q_b + i_h * stride_q_h
        p_d_out_h = p_d_out + i_b * stride_d_out_b + i_h * stride_d_out_h
        o_row = (i_b * H_kv * group + i_h) * T_q
        b_dk_a, b_dk_b, b_dv_a, b_dv_b = _over_queries(
            b_dk_a, b_dk_b, b_dv_a, b_dv_b, b_k_a, b_k_b, b_v_a, b_v_b, p_q_h, p_d_out_h,
            p_shift + o_row, p_delta + o_row, stride_q_t, stride_d_out_t, o_first, start,
            end - (full_end - full_start), full_start, full_end - full_start, scale_log2, T_q,
            window, D_H, D_H_A, D_H_B, D_V, D_V_A, D_V_B, BLOCK_Q, True, IS_CAUSAL, HAS_WINDOW,
            SPARES_REGISTERS, PRECISION,
        )  # fmt: skip
        b_dk_a, b_dk_b, b_dv_a, b_dv_b = _over_queries(
            b_dk_a, b_dk_b, b_dv_a, b_dv_b, b_k_a, b_k_b, b_v_a, b_v_b, p_q_h, p_d_out_h,
            p_shift + o_row, p_delta + o_row, stride_q_t, stride_d_out_t, o_first, full_start,
            full_end, 0, 0, scale_log2, T_q, window, D_H, D_H_A, D_H_B, D_V, D_V_A, D_V_B,
            BLOCK_Q, False, IS_CAUSAL, HAS_WINDOW, SPARES_REGISTERS, PRECISION,
        )  # fmt: skip

    store_rows(p_dk, o_kv, stride_dk_t, T_kv, b_dk_a * scale, D_H, 0, D_H_A)
    store_rows(p_dv, o_kv, stride_dv_t, T_kv, b_dv_a, D_V, 0, D_V_A)
    if D_H_B > 0:
        store_rows(p_dk, o_kv, stride_dk_t, T_kv, b_dk_b * scale, D_H, D_H_A, D_H_B)
    if D_V_B > 0:
        store_rows(p_dv, o_kv, stride_dv_t, T_kv, b_dv_b, D_V, D_V_A, D_V_B)
