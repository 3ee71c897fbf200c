"""How float32 is multiplied in kernels compiled ahead of time: what static_….py modules share."""

from __future__ import annotations

from typing import Any

from impls.interface.static_kernel import Target
from impls.triton_flash.blocks import reasons_against_tf32x3
from impls.triton_flash.precision import IEEE, MAX_D_TF32X3, TF32X3

AS_TF32X3: dict[str, Any] = {"IS_CAUSAL": True, "HAS_WINDOW": False, "PRECISION": TF32X3}
"""The variant of float32 on matrix units."""


def precision_of(target: Target, pass_: str) -> str | None:
    """Of the variant, "ieee" where it names none; None where `pass_` is not shipped so."""
    precision = target.variant.get("PRECISION", IEEE)
    if precision == IEEE:
        return IEEE
    is_taken = target.dtype == "fp32" and target.d_h <= MAX_D_TF32X3[pass_]
    return precision if is_taken and not reasons_against_tf32x3(target.capability) else None


def matrix_products(target: Target, precision: str) -> int:
    """How many products of matrix units one product of tensors takes; 0 where it takes none."""
    if target.dtype != "fp32":
        return 1
    return 3 if precision == TF32X3 else 0
