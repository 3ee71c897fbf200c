"""The first backward kernel: two numbers of every query row, which the other two kernels read."""

import triton
import triton.language as tl

from impls.triton_flash.over_keys import LOG2_E
from impls.triton_flash.rows import load_rows

# Names as in over_keys.py; d_ before a name is the gradient of what it names.


@triton.jit(do_not_specialize=["H", "T_q"])
def triton_flash_backward_rows(
    p_out,
    p_d_out,
    p_lse,
    p_d_lse,
    p_shift,
    p_delta,
    stride_out_b,
    stride_out_h,
    stride_out_t,
    stride_d_out_b,
    stride_d_out_h,
    stride_d_out_t,
    H,
    T_q,
    D_V: tl.constexpr,
    D_V_A: tl.constexpr,
    D_V_B: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    HAS_D_LSE: tl.constexpr,
):
    """Shift and delta of every row, (B, H, T_q), float32.

    With them P = exp2(s·scale·log2 e − shift) and dS = P ∘ (dP − delta).

    `shift` is lse in base 2, and +inf where a row sees no key: its P is then 0 without a mask.
    `delta` is rowsum(d_out ∘ out) (Dao et al. 2022, appendix B.4); as dlse/ds = P, a gradient of
    lse is subtracted from it. torch's own sum would write d_out ∘ out in float32 and read it back.
    """
    n_blocks = tl.cdiv(T_q, BLOCK_Q)
    i_bh = tl.program_id(0) // n_blocks
    i_b = (i_bh // H).to(tl.int64)
    i_h = (i_bh % H).to(tl.int64)
    p_out += i_b * stride_out_b + i_h * stride_out_h
    p_d_out += i_b * stride_d_out_b + i_h * stride_d_out_h
    o_q = tl.program_id(0) % n_blocks * BLOCK_Q + tl.arange(0, BLOCK_Q)
    o_row = i_bh.to(tl.int64) * T_q + o_q
    m_q = o_q < T_q

    b_out = load_rows(p_out, o_q, stride_out_t, T_q, D_V, 0, D_V_A, True)
    b_d_out = load_rows(p_d_out, o_q, stride_d_out_t, T_q, D_V, 0, D_V_A, True)
    b_delta = tl.sum(b_out.to(tl.float32) * b_d_out.to(tl.float32), 1)  # (BLOCK_Q,)
    if D_V_B > 0:
        b_out = load_rows(p_out, o_q, stride_out_t, T_q, D_V, D_V_A, D_V_B, True)
        b_d_out = load_rows(p_d_out, o_q, stride_d_out_t, T_q, D_V, D_V_A, D_V_B, True)
        b_delta += tl.sum(b_out.to(tl.float32) * b_d_out.to(tl.float32), 1)
    if HAS_D_LSE:
        b_delta -= tl.load(p_d_lse + o_row, mask=m_q, other=0.0)
    b_lse = tl.load(p_lse + o_row, mask=m_q, other=0.0)
    m_dead = b_lse == -float("inf")
    tl.store(p_shift + o_row, tl.where(m_dead, float("inf"), b_lse * LOG2_E), mask=m_q)
    # Of a row without keys lse is constant; what arrives for it may be NaN, as from logaddexp.
    tl.store(p_delta + o_row, tl.where(m_dead, 0.0, b_delta), mask=m_q)
