"""flash-attn 3, for Hopper (flash_attn_interface.flash_attn_func).

Signature and conventions are those of Dao-AILab/flash-attention, hopper/flash_attn_interface.py at
01afd16 (3.0.0): (B, T, H, d) by strides, without a copy; causal aligned to the bottom right; a
window counts the keys to the left of the last one; the LSE is natural, (B, H, T_q). An older one
gave (out, lse) always and had no return_attn_probs.
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
    cumulated,
    demand,
    through_bthd,
    through_thd,
)
from impls.interface.problem import Problem

INSTALL = "pip install ./hopper, in a checkout of github.com/Dao-AILab/flash-attention"


def build(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one problem; see `Build`."""
    from flash_attn_interface import (  # pyright: ignore[reportMissingImports]  # an optional library
        flash_attn_func,
    )

    demand(flash_attn_func, "return_attn_probs", INSTALL)
    return through_bthd(partial(flash_attn_func, **_asked(problem, wanted)))


def build_lengths(problem: Problem, device: str, wanted: Wanted) -> Call:
    """The call of one variable-length batch; see `Build`."""
    from flash_attn_interface import (  # pyright: ignore[reportMissingImports]  # an optional library
        flash_attn_varlen_func,
    )

    demand(flash_attn_varlen_func, "return_attn_probs", INSTALL)
    asked = cumulated(problem, device) | _asked(problem, wanted)
    return through_thd(partial(flash_attn_varlen_func, **asked))


def _asked(problem: Problem, wanted: Wanted) -> dict[str, Any]:
    left = -1 if problem.window is None else problem.window - 1
    return {
        "softmax_scale": wanted.scale,
        "causal": problem.causal,
        "window_size": (left, 0 if problem.causal else -1),
        "softcap": wanted.softcap or 0.0,
        # 0 is its own choice, which splits the keys where few queries would leave SMs idle.
        "num_splits": 0,
        "return_attn_probs": wanted.with_lse,
    }


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    """What its C++ checks (hopper/flash_api.cpp, mha_fwd)."""
    reasons = against_capability(lambda capability: capability == (9, 0), "9.0")
    reasons += against_multiples(problem, 8)
    d_h, d_v = problem.d_h, problem.d_v
    if d_h > 256:
        reasons.append(f"d_h={d_h} is above 256")
    is_pair = (128 < d_h <= 192 and 96 < d_v <= 128) or (d_h <= 64 and d_v <= 512)
    if d_v != d_h and not is_pair:
        reasons.append(
            f"d_v={d_v} with d_h={d_h}: where they differ, d_h is 129 to 192 with d_v 97 to 128, "
            "or d_h to 64 with d_v to 512"
        )
    return reasons


KERNEL = ForeignKernel(
    name="flash_attn_3",
    summary="flash-attn 3, for Hopper",
    capabilities=Capabilities(
        devices=("cuda",),
        dtypes=SIXTEEN_BIT,
        needs=("backward", "lse", "scale", "softcap"),
        further=_further,
    ),
    library="flash-attn-3",
    runs=("flash_attn_3::", "FlashAttnFwd"),
    build=build,
    build_lengths=build_lengths,
    install=INSTALL,
    at_least=(3, 0),
)

flash_attn_3 = KERNEL.implementation()
