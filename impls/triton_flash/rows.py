"""How kernels read and write tiles: some rows of one head and one chunk of their columns."""

import triton
import triton.language as tl

# A head size is held as one or two chunks, A and B, each a power of two: d_h = 96 is 64 + 32
# rather than 128, which saves the matrix unit a quarter of its work. Where d_h is no such sum,
# chunk A is padded.


@triton.jit
def load_rows(
    p_base,
    o_rows,
    stride,
    T,
    D: tl.constexpr,
    FROM: tl.constexpr,
    CHUNK: tl.constexpr,
    CHECKS_ROWS: tl.constexpr,
):
    """Columns FROM to FROM + CHUNK of some rows; zero beyond row T and beyond column D."""
    o_d = FROM + tl.arange(0, CHUNK)
    # A row offset may pass 2³¹ elements even where T is short: the stride is free.
    p_tile = p_base + o_rows[:, None].to(tl.int64) * stride + o_d[None, :]  # (rows, CHUNK)
    if FROM + CHUNK > D:
        if CHECKS_ROWS:
            b_rows = tl.load(p_tile, mask=(o_rows[:, None] < T) & (o_d[None, :] < D), other=0.0)
        else:
            b_rows = tl.load(p_tile, mask=o_d[None, :] < D, other=0.0)
    elif CHECKS_ROWS:
        b_rows = tl.load(p_tile, mask=o_rows[:, None] < T, other=0.0)
    else:
        b_rows = tl.load(p_tile)
    return b_rows


@triton.jit
def store_rows(
    p_base,
    o_rows,
    stride,
    T,
    b_rows,
    D: tl.constexpr,
    FROM: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Write columns FROM to FROM + CHUNK of some rows, rounded; none beyond row T or column D."""
    o_d = FROM + tl.arange(0, CHUNK)
    p_tile = p_base + o_rows[:, None].to(tl.int64) * stride + o_d[None, :]  # (rows, CHUNK)
    m_tile = o_rows[:, None] < T
    if FROM + CHUNK > D:
        m_tile = m_tile & (o_d[None, :] < D)
    tl.store(p_tile, b_rows.to(p_base.dtype.element_ty), mask=m_tile)
