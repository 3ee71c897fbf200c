"""The forward kernel for Hopper: some warps copy tiles of keys and values, others compute."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LN_2, LOG2_E
from impls.triton_flash.rows import store_rows

# Names as in over_keys.py; t_ is a tensor descriptor, a matrix of T rows that the copy engine
# reads by tiles. What lies beyond its rows and columns is read as zero.


# Nothing is specialised on: descriptors need to know no divisibility, the launcher checks it.
@triton.jit(
    do_not_specialize=[
        "scale",
        *("stride_q_b", "stride_q_h", "stride_q_t", "stride_k_b", "stride_k_h", "stride_k_t"),
        *("stride_v_b", "stride_v_h", "stride_v_t", "stride_out_b", "stride_out_h"),
        *("stride_out_t", "H", "group", "T_q", "T_kv", "window"),
    ]
)
def triton_flash_forward_hopper(
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
    HAS_TAIL: tl.constexpr,
):
    """Output (B, H, T_q, d_v) and lse (B, H, T_q), as `triton_flash_forward` computes them.

    HAS_TAIL: the last block of keys is not full. Beside what `triton_flash_forward` asks, every
    base, row stride and head size is a multiple of 16 bytes.

    Triton (3.6 and 3.7) gives copying and computing to different warps only with 4 warps asked for,
    descriptors made in the kernel, and one loop without a branch: a loop of its own for the tiles
    that need a mask does not compile, a condition around the mask is not specialised. So every
    tile is masked, which the matrix unit hides at d_h = 128; see blocks_hopper.py.
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
    # Multiples of 8 as they are, which the compiler must see to store 16 bytes at a time.
    stride_out_t = stride_out_t // 8 * 8
    p_out += i_b * (stride_out_b // 8 * 8) + i_h * (stride_out_h // 8 * 8)

    t_q_a = tl.make_tensor_descriptor(p_q, [T_q, D_H], [stride_q_t, 1], [BLOCK_Q, D_H_A])
    t_k_a = tl.make_tensor_descriptor(p_k, [T_kv, D_H], [stride_k_t, 1], [BLOCK_KV, D_H_A])
    t_v_a = tl.make_tensor_descriptor(p_v, [T_kv, D_V], [stride_v_t, 1], [BLOCK_KV, D_V_A])
    t_k_b = t_k_a
    t_v_b = t_v_a
    first = i_block * BLOCK_Q
    b_q_a = t_q_a.load([first, 0])  # (BLOCK_Q, D_H_A)
    b_q_b = b_q_a
    if D_H_B > 0:
        t_q_b = tl.make_tensor_descriptor(p_q, [T_q, D_H], [stride_q_t, 1], [BLOCK_Q, D_H_B])
        t_k_b = tl.make_tensor_descriptor(p_k, [T_kv, D_H], [stride_k_t, 1], [BLOCK_KV, D_H_B])
        b_q_b = t_q_b.load([first, D_H_A])  # (BLOCK_Q, D_H_B)
    b_max = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    b_sum = tl.zeros([BLOCK_Q], tl.float32)
    b_out_a = tl.zeros([BLOCK_Q, D_V_A], tl.float32)
    b_out_b = b_sum
    if D_V_B > 0:
        t_v_b = tl.make_tensor_descriptor(p_v, [T_kv, D_V], [stride_v_t, 1], [BLOCK_KV, D_V_B])
        b_out_b = tl.zeros([BLOCK_Q, D_V_B], tl.float32)

    scale_log2 = scale * LOG2_E
    shift = T_kv - T_q
    o_q = first + tl.arange(0, BLOCK_Q)
    o_last = o_q + shift
    o_tile = tl.arange(0, BLOCK_KV)
    start = 0
    end = T_kv
    if IS_CAUSAL:
        end = tl.minimum(tl.maximum(first + BLOCK_Q + shift, 0), T_kv)
    if HAS_WINDOW:
        start = tl.maximum(first + shift - window + 1, 0) // BLOCK_KV * BLOCK_KV
    # Online softmax as in over_keys.py. pyright takes tl.range and offsets for what they are
    # outside kernels.
    for i_kv in tl.range(start, end, BLOCK_KV, warp_specialize=True):  # pyright: ignore[reportGeneralTypeIssues]
        # An offset that is a plain number: see above.
        b_k = t_k_a.load([i_kv, 0])  # pyright: ignore[reportArgumentType]
        b_s = tl.dot(b_q_a, tl.trans(b_k))  # (BLOCK_Q, BLOCK_KV)
        if D_H_B > 0:
            b_k = t_k_b.load([i_kv, D_H_A])
            b_s = tl.dot(b_q_b, tl.trans(b_k), b_s)
        # A query's last key is in the tail or before it: who masks by it masks the tail. Columns
        # compared with a row's own limit need no addition for each column.
        if HAS_WINDOW:
            o_kv = i_kv + o_tile
            m_s = (o_kv[None, :] <= o_last[:, None]) & (o_kv[None, :] > o_last[:, None] - window)
            b_s = tl.where(m_s, b_s, -float("inf"))
        elif IS_CAUSAL:
            b_s = tl.where(o_tile[None, :] <= (o_last - i_kv)[:, None], b_s, -float("inf"))
        elif HAS_TAIL:
            b_s = tl.where(o_tile[None, :] < T_kv - i_kv, b_s, -float("inf"))
        b_new_max = tl.maximum(b_max, tl.max(b_s, 1) * scale_log2)  # (BLOCK_Q,)
        b_shift = b_new_max
        if IS_CAUSAL:
            # A row that has seen no key yet has maximum −inf, and −inf − −inf would be NaN.
            b_shift = tl.where(b_new_max == -float("inf"), 0.0, b_new_max)
        b_p = tl.exp2(b_s * scale_log2 - b_shift[:, None])  # (BLOCK_Q, BLOCK_KV)
        b_rescale = tl.exp2(b_max - b_shift)  # (BLOCK_Q,)
        b_sum = b_sum * b_rescale + tl.sum(b_p, 1)
        b_max = b_new_max
        b_v = t_v_a.load([i_kv, 0])
        b_p = b_p.to(b_v.dtype)
        b_out_a = b_out_a * b_rescale[:, None]
        b_out_a = tl.dot(b_p, b_v, b_out_a)  # (BLOCK_Q, D_V_A)
        if D_V_B > 0:
            b_v = t_v_b.load([i_kv, D_V_A])
            b_out_b = b_out_b * b_rescale[:, None]
            b_out_b = tl.dot(b_p, b_v, b_out_b)  # (BLOCK_Q, D_V_B)

    m_dead = b_sum == 0.0
    b_divisor = tl.where(m_dead, 1.0, b_sum)
    b_lse = tl.where(m_dead, -float("inf"), (b_max + tl.log2(b_divisor)) * LN_2)  # (BLOCK_Q,)
    tl.store(p_lse + i_bh.to(tl.int64) * T_q + o_q, b_lse, mask=o_q < T_q)
    # Stored by pointers: a descriptor would take shared memory from the tiles.
    store_rows(p_out, o_q, stride_out_t, T_q, b_out_a / b_divisor[:, None], D_V, 0, D_V_A)
    if D_V_B > 0:
        b_out_b = b_out_b / b_divisor[:, None]
        store_rows(p_out, o_q, stride_out_t, T_q, b_out_b, D_V, D_V_A, D_V_B)
