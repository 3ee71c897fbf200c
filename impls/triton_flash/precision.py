"""How products of float32 are made: named by every launch, and by the kernel that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Words of tl.dot's `input_precision`, always given: Triton's default is TF32, in silence. 16-bit
# inputs know no other than their own.
IEEE = "ieee"
"""Full precision, without matrix units."""
TF32X3 = "tf32x3"
"""Three products of matrix units: of TF32 heads, and of each head with the other's rest.

What is left out, rest times rest, is some 2⁻²² of the product (Ootomo and Yokota 2022,
arXiv 2203.03341)."""

MAX_D_TF32X3 = {"forward": 128, "backward": 64}
"""Larger heads spill some forty registers in the loop at every block, and up to thousands."""


def named_by_precision(name: str) -> Callable[[Any], str]:
    """For `triton.jit(repr=…)`: on float32 the kernel's name ends in its precision.

    So that a profile shows how the products were made, and with it a row's `ran`.
    """

    def named(compilation: Any) -> str:
        if compilation.signature["p_q"] != "*fp32":
            return name
        return f"{name}_{compilation.constants['PRECISION']}"

    return named
