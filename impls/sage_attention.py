"""SageAttention 2: scores from 8-bit integers, values in 16 or 8 bits; approximate by design.

Signature and conventions are those of thu-ml/SageAttention, sageattention/core.py at 0116592
(2.2): (B, H, T, d) by strides; causal is aligned to the top left, so that it is asked for at
T_q = T_kv alone; the LSE is natural, (B, H, T_q). Keys are smoothed and q, k and v quantised inside
the clock; other d_h than 64 and 128 is padded there. `sageattn` takes the kernel for the device:
scores are int8 everywhere, P·V is 16-bit on 8.0 and 8.6, float8 (e4m3) on 8.9, 9.0 and 12.0. It
ignores keywords that it does not know. Version 1 is refused: it takes the mean of k from k itself.

Scores of about 100 are too coarse in int8: single results are then further off than it may be.
"""

from __future__ import annotations

import torch

from impls.interface.attention import Capabilities
from impls.interface.foreign_kernel import (
    SIXTEEN_BIT,
    Call,
    ForeignKernel,
    Given,
    Wanted,
    against_capability,
)
from impls.interface.problem import Problem

ALLOWED_ERROR = 0.1
"""Three times the rounding of two float8 factors. e4m3 has 3 bits after the first: its relative
error is even within ±2⁻⁴ / m for a mantissa m in [1, 2), 2.6 % in the mean square, P and V together
3.6 %; that of int8 scores is smaller. Wrong masks and scales are further off than this."""
_CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (12, 0))


def build(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem; see `Build`."""
    from sageattention import sageattn  # pyright: ignore[reportMissingImports]  # an optional library

    is_causal = problem.causal and problem.T_q > 1

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Given:
        given = sageattn(
            *(q, k, v),
            tensor_layout="HND",
            is_causal=is_causal,
            sm_scale=wanted.scale,
            return_lse=wanted.with_lse,
        )
        return given if wanted.with_lse else (given, None)

    return call


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    known = ", ".join(f"{major}.{minor}" for major, minor in _CAPABILITIES)
    reasons = against_capability(lambda capability: capability in _CAPABILITIES, known)
    if problem.causal and 1 < problem.T_q < problem.T_kv:
        reasons.append(
            f"causal with T_q={problem.T_q} and T_kv={problem.T_kv}: only T_q = T_kv, or one query"
        )
    if "lse" in needs and problem.H_kv not in (1, problem.H):
        # It adds q · mean(k) to it, a product of H with H_kv heads.
        reasons.append(f"lse with H={problem.H} and H_kv={problem.H_kv}: only one kv head, or H")
    if problem.around is not None:
        reasons.append("an approximation is measured by itself, not within a layer")
    return reasons


KERNEL = ForeignKernel(
    name="sageattention",
    summary="SageAttention 2, 8-bit: approximate, its error stands beside its speed",
    capabilities=Capabilities(
        devices=("cuda",),
        dtypes=SIXTEEN_BIT,
        passes=("forward",),
        needs=("lse", "scale"),
        max_d_h=128,
        d_v_may_differ=False,
        window=False,
        further=_further,
    ),
    library="sageattention",
    runs=("qk_int", "_attn_fwd"),
    build=build,
    install="pip install git+https://github.com/thu-ml/SageAttention --no-build-isolation",
    at_least=(2, 0),
    allowed_error=ALLOWED_ERROR,
)

sageattention = KERNEL.implementation()
