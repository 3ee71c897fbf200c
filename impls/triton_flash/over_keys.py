"""What attending kernels share: online softmax of a tile of queries over a span of keys."""

import triton
import triton.language as tl

from impls.triton_flash.rows import load_rows

# NAMES: i_ index, o_ offsets, m_ mask, p_ pointer, b_ block held in registers. Head sizes are held
# as one or two chunks, A and B: see rows.py.

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def over_keys(
    b_out_a,
    b_out_b,
    b_sum,
    b_max,
    b_q_a,
    b_q_b,
    p_k,
    p_v,
    stride_k_t,
    stride_v_t,
    o_last,
    start,
    end,
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
    PRECISION: tl.constexpr,
):
    """Attend to keys start to end, a multiple of BLOCK_KV apart; `o_last` is a row's last key.

    Online softmax after Milakov and Gimelshein 2018 and Dao 2023 (FlashAttention-2, algorithm 1),
    in base 2: `b_max` holds max(s)·scale·log2 e and `b_sum` is relative to it.
    """
    # pyright takes tl.range for what it is outside kernels.
    for i_kv in tl.range(start, end, BLOCK_KV):  # pyright: ignore[reportGeneralTypeIssues]
        o_kv = i_kv + tl.arange(0, BLOCK_KV)
        b_k = load_rows(p_k, o_kv, stride_k_t, T_kv, D_H, 0, D_H_A, IS_MASKED)
        b_s = tl.dot(b_q_a, tl.trans(b_k), input_precision=PRECISION)  # (BLOCK_Q, BLOCK_KV)
        if D_H_B > 0:
            b_k = load_rows(p_k, o_kv, stride_k_t, T_kv, D_H, D_H_A, D_H_B, IS_MASKED)
            b_s = tl.dot(b_q_b, tl.trans(b_k), b_s, input_precision=PRECISION)
        # Raw scores are masked and the scale (above zero, the launcher sees to it) is applied
        # in exp2's argument: one fused multiply-add instead of two instructions a score.
        if IS_MASKED:
            m_s = o_kv[None, :] < T_kv
            if IS_CAUSAL:
                m_s = m_s & (o_kv[None, :] <= o_last[:, None])
            if HAS_WINDOW:
                m_s = m_s & (o_kv[None, :] > o_last[:, None] - window)
            b_s = tl.where(m_s, b_s, -float("inf"))
        b_new_max = tl.maximum(b_max, tl.max(b_s, 1) * scale_log2)  # (BLOCK_Q,)
        b_shift = b_new_max
        if IS_MASKED:
            # A row that has seen no key yet has maximum −inf, and −inf − −inf would be NaN.
            b_shift = tl.where(b_new_max == -float("inf"), 0.0, b_new_max)
        b_p = tl.exp2(b_s * scale_log2 - b_shift[:, None])  # (BLOCK_Q, BLOCK_KV)
        b_rescale = tl.exp2(b_max - b_shift)  # (BLOCK_Q,)
        b_sum = b_sum * b_rescale + tl.sum(b_p, 1)
        b_max = b_new_max
        b_v = load_rows(p_v, o_kv, stride_v_t, T_kv, D_V, 0, D_V_A, IS_MASKED)
        b_p = b_p.to(b_v.dtype)
        b_out_a = b_out_a * b_rescale[:, None]
        b_out_a = tl.dot(b_p, b_v, b_out_a, input_precision=PRECISION)  # (BLOCK_Q, D_V_A)
        if D_V_B > 0:
            b_v = load_rows(p_v, o_kv, stride_v_t, T_kv, D_V, D_V_A, D_V_B, IS_MASKED)
            b_out_b = b_out_b * b_rescale[:, None]
            b_out_b = tl.dot(b_p, b_v, b_out_b, input_precision=PRECISION)  # (BLOCK_Q, D_V_B)
    return b_out_a, b_out_b, b_sum, b_max
