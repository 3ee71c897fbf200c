"""flash-attn 4, in the CuTe DSL, for Hopper and Blackwell (flash_attn.cute.flash_attn_func).

Signature and conventions are those of flash-attn-4 4.0.0b36, flash_attn/cute/interface.py:
(B, T, H, d) by strides, without a copy where rows are aligned to 16 bytes; causal aligned to the
bottom right; a window counts the keys to the left of the last one, None is all; it always gives
(out, lse), the LSE natural, (B, H, T_q), or None. The first call of a kind compiles, in seconds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from impls.interface.attention import Capabilities
from impls.interface.foreign_kernel import (
    SIXTEEN_BIT,
    Call,
    ForeignKernel,
    Wanted,
    against_capability,
    against_multiples,
    compute_capability,
    cumulated,
    demand,
    through_bthd,
    through_thd,
)
from impls.interface.problem import Problem

INSTALL = "pip install flash-attn-4, on CUDA 13 'flash-attn-4[cu13]'"
_SPLITTING = (10, 11)
"""Compute capabilities, major, whose kernels can split the keys."""


def build(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem; see `Build`."""
    from flash_attn.cute import (  # pyright: ignore[reportMissingImports]  # an optional library
        flash_attn_func,
    )

    demand(flash_attn_func, "return_lse", INSTALL)
    return through_bthd(partial(flash_attn_func, **_asked(problem, wanted)))


def build_lengths(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one variable-length batch; see `Build`."""
    from flash_attn.cute import (  # pyright: ignore[reportMissingImports]  # an optional library
        flash_attn_varlen_func,
    )

    demand(flash_attn_varlen_func, "return_lse", INSTALL)
    asked = cumulated(problem, device) | _asked(problem, wanted)
    return through_thd(partial(flash_attn_varlen_func, **asked))


def _asked(problem: Problem, wanted: Wanted) -> dict[str, Any]:
    capability = compute_capability()
    may_split = capability is not None and capability[0] in _SPLITTING
    left = None if problem.window is None else problem.window - 1
    return {
        "softmax_scale": wanted.scale,
        "causal": problem.causal,
        "window_size": (left, 0 if problem.causal else None),
        "softcap": wanted.softcap or 0.0,
        # 0 is its own choice, which splits the keys where few queries would leave SMs idle.
        "num_splits": 0 if may_split else 1,
        "return_lse": wanted.with_lse,
    }


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What it asserts (`_flash_attn_fwd`, `_validate_head_dims` and `_flash_attn_bwd`)."""
    reasons = against_capability(lambda capability: 8 <= capability[0] <= 12, "8.0 to 12.x")
    reasons += against_multiples(problem, 8)
    capability, d_h, d_v = compute_capability(), problem.d_h, problem.d_v
    if capability is None or capability[0] not in _SPLITTING:
        if max(d_h, d_v) > 256:
            reasons.append(f"d_h={max(d_h, d_v)} is above 256")
        return reasons
    if max(d_h, d_v) > 128 and (d_h, d_v) not in ((192, 128), (256, 256)):
        reasons.append(f"d_h={d_h} with d_v={d_v}: above 128 only 192 with 128, and 256 with 256")
    if d_h == 256 and {"backward", "softcap"} <= needs:
        reasons.append("softcap with a backward is not supported at d_h=256")
    return reasons


KERNEL = ForeignKernel(
    name="flash_attn_4",
    summary="flash-attn 4 in the CuTe DSL, for Hopper and Blackwell",
    capabilities=Capabilities(
        devices=("cuda",),
        dtypes=SIXTEEN_BIT,
        needs=("backward", "lse", "scale", "softcap"),
        further=_further,
    ),
    library="flash-attn-4",
    runs=("flash_attncute",),
    build=build,
    build_lengths=build_lengths,
    install=INSTALL,
    at_least=(4, 0),
)

flash_attn_4 = KERNEL.implementation()
