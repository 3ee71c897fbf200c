"""The kernel that merges partial outputs: one program sums one row over all splits."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LN_2, LOG2_E

# Names as in over_keys.py.


@triton.jit(do_not_specialize=["H", "T_q", "n_splits"])
def triton_decode_reduce(
    p_partial,
    p_partial_lse,
    p_out,
    p_lse,
    stride_partial_s,
    stride_partial_lse_s,
    stride_out_b,
    stride_out_h,
    stride_out_t,
    H,
    T_q,
    n_splits,
    D_V: tl.constexpr,
    D_V_PADDED: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
):
    """Output (B, H, T_q, d_v) and lse (B, H, T_q), natural log, from those of every split.

    partial (n_splits, B, H, T_q, d_v) and its lse (n_splits, B, H, T_q), natural log, contiguous
    within a split → the partial outputs averaged with weights exp(lse) (Dao et al. 2023,
    Flash-Decoding). A partial with lse −inf counts for nothing; a row that has only such gets
    output 0 and lse −inf. The grid is one program a row; the last dimension of out has stride 1.
    """
    i_row = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, D_V_PADDED)
    b_max = tl.full([1], -float("inf"), tl.float32)
    b_sum = tl.zeros([1], tl.float32)
    b_out = tl.zeros([D_V_PADDED], tl.float32)
    # pyright takes tl.range for what it is outside kernels.
    for i_split in tl.range(0, n_splits, BLOCK_SPLITS):  # pyright: ignore[reportGeneralTypeIssues]
        o_split = i_split + tl.arange(0, BLOCK_SPLITS)
        m_split = o_split < n_splits
        p_column = p_partial_lse + o_split.to(tl.int64) * stride_partial_lse_s + i_row
        b_lse = tl.load(p_column, mask=m_split, other=-float("inf"))  # (BLOCK_SPLITS,)
        p_rows = p_partial + o_split.to(tl.int64) * stride_partial_s + i_row * D_V
        m_tile = m_split[:, None] & (o_d[None, :] < D_V)
        b_partial = tl.load(p_rows[:, None] + o_d[None, :], mask=m_tile, other=0.0)
        b_new_max = tl.maximum(b_max, tl.max(b_lse, 0))
        # Nothing but empty splits so far has maximum −inf, and −inf − −inf would be NaN.
        b_shift = tl.where(b_new_max == -float("inf"), 0.0, b_new_max)
        # The difference first: then one split alone keeps its output and its lse to the bit.
        b_weight = tl.exp2((b_lse - b_shift) * LOG2_E)
        b_rescale = tl.exp2((b_max - b_shift) * LOG2_E)
        b_sum = b_sum * b_rescale + tl.sum(b_weight, 0)
        b_out = b_out * b_rescale + tl.sum(b_weight[:, None] * b_partial, 0)
        b_max = b_new_max

    m_dead = b_sum == 0.0
    b_divisor = tl.where(m_dead, 1.0, b_sum)
    b_lse = tl.where(m_dead, -float("inf"), b_max + tl.log2(b_divisor) * LN_2)  # (1,)
    tl.store(p_lse + i_row + tl.arange(0, 1), b_lse)
    i_bh = i_row // T_q
    p_out += i_bh // H * stride_out_b + i_bh % H * stride_out_h + i_row % T_q * stride_out_t
    tl.store(p_out + o_d, (b_out / b_divisor).to(p_out.dtype.element_ty), mask=o_d < D_V)
