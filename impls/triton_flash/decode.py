"""The decode kernel: one program computes a few rows over one split of the keys."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LN_2, LOG2_E, over_keys
from impls.triton_flash.precision import named_by_precision
from impls.triton_flash.rows import load_rows, store_rows

# Names as in over_keys.py. A row is one query of one head; the rows of a kv head are those of its
# whole group, ordered by query, so that a tile reads its keys once for all heads of the group.


# The number of splits and their length change with every token of a growing cache: like sizes,
# they must not compile anew.
@triton.jit(
    repr=named_by_precision("triton_decode_split"),
    do_not_specialize=[
        *("scale", "H_kv", "group", "T_q", "T_kv", "window"),
        *("n_splits", "first_key", "split_keys"),
    ],
)
def triton_decode_split(
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
    stride_out_s,
    stride_out_b,
    stride_out_h,
    stride_out_t,
    stride_lse_s,
    H_kv,
    group,
    T_q,
    T_kv,
    window,
    n_splits,
    first_key,
    split_keys,
    D_H: tl.constexpr,
    D_H_A: tl.constexpr,
    D_H_B: tl.constexpr,
    D_V: tl.constexpr,
    D_V_A: tl.constexpr,
    D_V_B: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Output (n_splits, B, H, T_q, d_v) and lse (n_splits, B, H, T_q) of one split and tile.

    Split i holds keys first_key + i·split_keys and on, up to the next one's or T_kv; `split_keys`
    and `first_key` are multiples of BLOCK_KV. The softmax is over the split's keys alone: what it
    leaves is merged by `triton_decode_reduce`, and is the answer itself where n_splits is 1. A row
    that sees no key of its split gets output 0 and lse −inf, so every element is written.

    The grid is one-dimensional, B·H_kv·n_splits·tiles: only x may pass 65535. `scale` is above
    zero; `group` is H / H_kv; causal is aligned bottom-right and `window` counts the keys a query
    keeps. The last dimension of every tensor has stride 1; lse is contiguous within a split.
    """
    n_tiles = tl.cdiv(group * T_q, BLOCK_ROWS)
    i_tile = tl.program_id(0) % n_tiles  # innermost: tiles of one split share its keys in cache
    i_split = tl.program_id(0) // n_tiles % n_splits
    i_bh = tl.program_id(0) // n_tiles // n_splits
    i_b = (i_bh // H_kv).to(tl.int64)
    i_h_kv = (i_bh % H_kv).to(tl.int64)
    p_k += i_b * stride_k_b + i_h_kv * stride_k_h
    p_v += i_b * stride_v_b + i_h_kv * stride_v_h
    p_out += i_split.to(tl.int64) * stride_out_s + i_b * stride_out_b
    p_lse += i_split.to(tl.int64) * stride_lse_s

    o_rows = i_tile * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    o_q = o_rows // group  # past the last row it passes T_q, which is how such rows are known
    o_h = i_h_kv * group + o_rows % group
    p_q_rows = (p_q + i_b * stride_q_b + o_h * stride_q_h)[:, None]  # (BLOCK_ROWS, 1)
    b_q_a = load_rows(p_q_rows, o_q, stride_q_t, T_q, D_H, 0, D_H_A, True)  # (BLOCK_ROWS, D_H_A)
    b_q_b = b_q_a
    if D_H_B > 0:
        b_q_b = load_rows(p_q_rows, o_q, stride_q_t, T_q, D_H, D_H_A, D_H_B, True)
    b_max = tl.full([BLOCK_ROWS], -float("inf"), tl.float32)
    b_sum = tl.zeros([BLOCK_ROWS], tl.float32)
    b_out_a = tl.zeros([BLOCK_ROWS, D_V_A], tl.float32)
    b_out_b = b_sum
    if D_V_B > 0:
        b_out_b = tl.zeros([BLOCK_ROWS, D_V_B], tl.float32)

    # As in the forward kernel: keys start to full_start are seen by some rows of the tile
    # (window), those to full_end by all, those to end by some (causal diagonal, tail).
    scale_log2 = scale * LOG2_E
    shift = T_kv - T_q
    o_last = o_q + shift
    first_q = i_tile * BLOCK_ROWS // group
    last_q = (i_tile * BLOCK_ROWS + BLOCK_ROWS - 1) // group
    start = first_key
    full_start = first_key
    end = T_kv
    full_end = T_kv // BLOCK_KV * BLOCK_KV
    if IS_CAUSAL:
        end = tl.minimum(tl.maximum(last_q + shift + 1, 0), T_kv)
        full_end = tl.minimum(tl.maximum(first_q + shift + 1, 0), T_kv) // BLOCK_KV * BLOCK_KV
    # Of these, the split's own: where it has none, all four are equal and no loop is entered.
    low = tl.minimum(first_key + i_split * split_keys, T_kv)
    high = tl.minimum(low + split_keys, T_kv)
    if HAS_WINDOW:
        start = tl.maximum(first_q + shift - window + 1, 0) // BLOCK_KV * BLOCK_KV
        oldest = tl.maximum(last_q + shift - window + 1, 0)  # of the tile's last row
        full_start = tl.minimum(tl.cdiv(oldest, BLOCK_KV) * BLOCK_KV, full_end)
        full_start = tl.maximum(low, tl.minimum(full_start, high))
        b_out_a, b_out_b, b_sum, b_max = over_keys(
            b_out_a, b_out_b, b_sum, b_max, b_q_a, b_q_b, p_k, p_v, stride_k_t, stride_v_t,
            o_last, tl.maximum(low, tl.minimum(start, high)), full_start, scale_log2, T_kv, window,
            D_H, D_H_A, D_H_B, D_V, D_V_A, D_V_B, BLOCK_KV, True, IS_CAUSAL, HAS_WINDOW, PRECISION,
        )  # fmt: skip
    full_end = tl.maximum(low, tl.minimum(full_end, high))
    b_out_a, b_out_b, b_sum, b_max = over_keys(
        b_out_a, b_out_b, b_sum, b_max, b_q_a, b_q_b, p_k, p_v, stride_k_t, stride_v_t,
        o_last, tl.maximum(low, full_start), full_end, scale_log2, T_kv, window, D_H, D_H_A, D_H_B,
        D_V, D_V_A, D_V_B, BLOCK_KV, False, IS_CAUSAL, HAS_WINDOW, PRECISION,
    )  # fmt: skip
    b_out_a, b_out_b, b_sum, b_max = over_keys(
        b_out_a, b_out_b, b_sum, b_max, b_q_a, b_q_b, p_k, p_v, stride_k_t, stride_v_t,
        o_last, full_end, tl.minimum(end, high), scale_log2, T_kv, window, D_H, D_H_A, D_H_B, D_V,
        D_V_A, D_V_B, BLOCK_KV, True, IS_CAUSAL, HAS_WINDOW, PRECISION,
    )  # fmt: skip

    m_dead = b_sum == 0.0
    b_divisor = tl.where(m_dead, 1.0, b_sum)
    b_lse = tl.where(m_dead, -float("inf"), (b_max + tl.log2(b_divisor)) * LN_2)  # (BLOCK_ROWS,)
    o_lse = (i_b * H_kv * group + o_h) * T_q + o_q
    tl.store(p_lse + o_lse, b_lse, mask=o_q < T_q)
    p_out_rows = (p_out + o_h * stride_out_h)[:, None]  # (BLOCK_ROWS, 1)
    b_out_a = b_out_a / b_divisor[:, None]
    store_rows(p_out_rows, o_q, stride_out_t, T_q, b_out_a, D_V, 0, D_V_A)
    if D_V_B > 0:
        b_out_b = b_out_b / b_divisor[:, None]
        store_rows(p_out_rows, o_q, stride_out_t, T_q, b_out_b, D_V, D_V_A, D_V_B)
