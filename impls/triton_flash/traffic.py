"""What the forward and backward kernels move and hold beyond what any implementation must."""

from __future__ import annotations

from impls.interface.cost import compulsory_bytes
from impls.interface.problem import DTYPE_BYTES, Problem

_LSE_BYTES = 4
# The shift and the delta of a row, which one backward kernel writes and the other two read.
_SHIFT_AND_DELTA_BYTES = 8


def algorithmic_bytes(problem: Problem, pass_: str) -> int:
    """The compulsory bytes; in a backward, which is three kernels, what they read again too.

    q, k and v are read twice and d_out three times. Of a row lse is read, shift and delta are
    written and twice read, where compulsory are 8 bytes. What of this an L2 cache catches is not
    known here.
    """
    compulsory = compulsory_bytes(problem, pass_)
    if pass_ == "forward":
        return compulsory
    p, rows = problem, problem.B * problem.H * problem.T_q
    again = rows * (p.d_h + 2 * p.d_v) + p.B * p.H_kv * p.T_kv * (p.d_h + p.d_v)
    of_rows = rows * (_LSE_BYTES + 3 * _SHIFT_AND_DELTA_BYTES - 8)
    return compulsory + again * DTYPE_BYTES[p.dtype] + of_rows


def scratch_bytes(problem: Problem, pass_: str) -> int:
    """The lse of every row; in a backward its shift and delta as well."""
    of_row = _LSE_BYTES + (0 if pass_ == "forward" else _SHIFT_AND_DELTA_BYTES)
    return problem.B * problem.H * problem.T_q * of_row
