"""flash-attn 2's own kernels (flash_attn.flash_attn_func), and their deterministic backward.

Signature and conventions are those of Dao-AILab/flash-attention v2.8.3, flash_attn_interface.py,
which are the same since v2.7: (B, T, H, d) by strides, without a copy unless d_h is no multiple of
8 (then the library pads q, k and v inside the clock); causal aligned to the bottom right (v2.1 on);
a window counts the keys to the left of the last one; the LSE is natural, (B, H, T_q).
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
    cumulated,
    through_bthd,
    through_thd,
)
from impls.interface.problem import Problem


def build(problem: Problem, device: str, wanted: Wanted, *, deterministic: bool) -> Call:
    """The call of one problem; see `Build`. `deterministic` changes its backward alone."""
    from flash_attn import flash_attn_func  # pyright: ignore[reportMissingImports]  # an optional library

    return through_bthd(partial(flash_attn_func, **_asked(problem, wanted, deterministic)))


def build_lengths(problem: Problem, device: str, wanted: Wanted, *, deterministic: bool) -> Call:
    """The call of one variable-length batch; see `Build`."""
    from flash_attn import (  # pyright: ignore[reportMissingImports]  # an optional library
        flash_attn_varlen_func,
    )

    asked = cumulated(problem, device) | _asked(problem, wanted, deterministic)
    return through_thd(partial(flash_attn_varlen_func, **asked))


def _asked(problem: Problem, wanted: Wanted, deterministic: bool) -> dict[str, Any]:
    left = -1 if problem.window is None else problem.window - 1
    return {
        "softmax_scale": wanted.scale,
        "causal": problem.causal,
        "window_size": (left, 0 if problem.causal else -1),
        "softcap": wanted.softcap or 0.0,
        "deterministic": deterministic,
        "return_attn_probs": wanted.with_lse,
    }


def _further(problem: Problem, device: str, needs: frozenset[str]) -> list[str]:
    return against_capability(lambda capability: capability >= (8, 0), "8.0")


def _kernel(name: str, summary: str, *, deterministic: bool) -> ForeignKernel:
    return ForeignKernel(
        name=name,
        summary=summary,
        capabilities=Capabilities(
            devices=("cuda",),
            dtypes=SIXTEEN_BIT,
            needs=("backward", "lse", "scale", "softcap"),
            max_d_h=256,
            d_v_may_differ=False,
            further=_further,
        ),
        library="flash-attn",
        runs=("flash_fwd",),
        build=partial(build, deterministic=deterministic),
        build_lengths=partial(build_lengths, deterministic=deterministic),
        install="pip install flash-attn --no-build-isolation",
        at_least=(2, 7),
    )


KERNEL = _kernel("flash_attn_2", "flash-attn 2, its own package", deterministic=False)
DETERMINISTIC = _kernel(
    "flash_attn_2_deterministic",
    "flash-attn 2, gradients summed in one order (deterministic=True)",
    deterministic=True,
)

flash_attn_2 = KERNEL.implementation()
flash_attn_2_deterministic = DETERMINISTIC.implementation()
