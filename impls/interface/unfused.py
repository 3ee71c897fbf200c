"""What attention without fusion moves and holds: the score-sized matrices, float32."""

from __future__ import annotations

from impls.interface.cost import compulsory_bytes
from impls.interface.problem import Problem

SCORE_BYTES = 4
# Passes over a (T_q, T_kv) matrix. Forward: S written and read, P written and read. Backward, P
# saved: P read for dV, dP written and read, P read again, dS written, dS read for dQ and for dK.
MATRIX_PASSES = {"forward": 4, "backward": 7, "forward_backward": 11}
# Matrices alive at once. Forward: S and P. Backward: P, dP and dS.
_MATRICES_ALIVE = {"forward": 2, "backward": 3, "forward_backward": 3}


def algorithmic_bytes(problem: Problem, pass_: str) -> int:
    """The compulsory bytes and every pass over S, P, dP and dS, each float32.

    The best case: scale folded into q, no pass for the mask, for the softcap, or for rounding P
    to 16 bits. A causal mask saves nothing: the matrices are full.
    """
    return compulsory_bytes(problem, pass_) + MATRIX_PASSES[pass_] * _matrix_bytes(problem)


def scratch_bytes(problem: Problem, pass_: str) -> int:
    """The score-sized matrices alive at once."""
    return _MATRICES_ALIVE[pass_] * _matrix_bytes(problem)


def _matrix_bytes(problem: Problem) -> int:
    return problem.B * problem.H * problem.T_q * problem.T_kv * SCORE_BYTES
