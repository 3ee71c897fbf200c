"""How the forward kernel is cut: block shapes for each device and head size, and head chunks.

The table comes from compiling ahead of time with Triton 3.7.1 (ptxas 12.8 for sm_80 and sm_90,
13.1 for sm_100), causal: the largest block that fits in shared memory and spills nothing inside
its loops (at d_h = 128 on sm_80, 9 stores before them). Nothing in it was tuned by timing.
"""

from __future__ import annotations

from dataclasses import dataclass

from impls.interface.attention import Unsupported
from impls.triton_flash.precision import IEEE, TF32X3


@dataclass(frozen=True)
class Blocks:
    """Queries and keys of one tile, and the warps and pipeline stages that work on it."""

    BLOCK_Q: int
    BLOCK_KV: int
    num_warps: int
    num_stages: int


# Small enough that short sequences meet every kind of loop, uneven so that no axis passes for
# the other: a tile costs the interpreter about 4 ms whatever its size.
INTERPRETED = Blocks(64, 32, 4, 2)

# (architecture, bytes of an element or else TF32X3) → (largest head size, its blocks), smallest
# first.
_TABLE: dict[tuple[str, int | str], tuple[tuple[int, Blocks], ...]] = {
    ("sm_80", 2): (
        (63, Blocks(128, 32, 4, 3)),
        (64, Blocks(128, 64, 4, 3)),
        (128, Blocks(128, 32, 4, 3)),
        (192, Blocks(64, 32, 4, 2)),
        (256, Blocks(64, 32, 8, 2)),
    ),
    ("sm_80", 4): (
        (128, Blocks(64, 32, 8, 2)),
        (192, Blocks(32, 32, 8, 2)),
        (256, Blocks(32, 16, 8, 2)),
    ),
    ("sm_90", 2): (
        (64, Blocks(128, 128, 8, 3)),
        (128, Blocks(128, 128, 8, 2)),
        (256, Blocks(128, 64, 8, 2)),
    ),
    ("sm_80", TF32X3): (
        (63, Blocks(128, 16, 8, 2)),
        (64, Blocks(128, 32, 8, 2)),
        (96, Blocks(64, 16, 4, 2)),
        (128, Blocks(32, 32, 4, 2)),
    ),
    ("sm_90", TF32X3): (
        (64, Blocks(128, 64, 8, 2)),
        (128, Blocks(128, 32, 8, 2)),
    ),
    ("sm_90", 4): (
        (80, Blocks(64, 32, 8, 2)),
        (128, Blocks(64, 16, 8, 2)),
        (256, Blocks(32, 16, 8, 2)),
    ),
    ("sm_100", 2): (
        (64, Blocks(128, 128, 8, 3)),
        (128, Blocks(128, 128, 8, 2)),
        (256, Blocks(128, 64, 8, 2)),
    ),
    ("sm_100", 4): (
        (64, Blocks(64, 32, 8, 2)),
        (256, Blocks(32, 16, 8, 2)),
    ),
}
SMALLEST_BLOCK_Q = min(b.BLOCK_Q for rows in _TABLE.values() for _, b in rows)


def blocks_for(capability: int | None, d: int, element_bytes: int, precision: str = IEEE) -> Blocks:
    """The blocks for head size `d`, the larger of d_h and d_v.

    `capability` is 90 for compute capability 9.0; None is the interpreter. `precision` is of
    products of float32.

    Raises:
        Unsupported: `reasons_against_tf32x3`.
    """
    if capability is None:
        return INTERPRETED
    rows = _TABLE[table_key(capability, element_bytes, precision)]
    return next(blocks for largest, blocks in rows if d <= largest)


def splits_heads(capability: int | None) -> bool:
    """Whether a head size is cut in two chunks there rather than padded to a power of two.

    Not where matrix products go through tensor memory: two of them into one accumulator are
    miscompiled there (https://github.com/triton-lang/triton/issues/10821).
    """
    return capability is None or architecture(capability) != "sm_100"


def reasons_against_tf32x3(capability: int | None) -> list[str]:
    """Why three products must not be summed there: none but for the bug `splits_heads` names."""
    if splits_heads(capability):
        return []
    return ["tf32x3 sums products in tensor memory, which this Triton miscompiles (triton #10821)"]


def table_key(capability: int, element_bytes: int, precision: str) -> tuple[str, int | str]:
    """Where a table has the blocks of a device.

    Raises:
        Unsupported: `reasons_against_tf32x3`.
    """
    if precision == TF32X3 and (reasons := reasons_against_tf32x3(capability)):
        raise Unsupported(*reasons)
    return architecture(capability), TF32X3 if precision == TF32X3 else element_bytes


def chunks(d: int, splits: bool) -> tuple[int, int]:
    """Columns of chunk A and chunk B, powers of two; B is 0 where one chunk holds all.

    Split, 96 → (64, 32) but 40 → (64, 0), as tl.dot takes no chunk under 16; else 96 → (128, 0).
    """
    larger = 1 << max(d.bit_length() - 1, 0)
    rest = d - larger
    if splits and rest >= 16 and rest & (rest - 1) == 0:
        return larger, rest
    return max(16, 1 << max(d - 1, 0).bit_length()), 0


def head_constants(d_h: int, d_v: int, splits: bool) -> dict[str, int]:
    """The compile-time arguments of a kernel that say how its head sizes are held, by name."""
    D_H_A, D_H_B = chunks(d_h, splits)
    D_V_A, D_V_B = chunks(d_v, splits)
    return {
        **{"D_H": d_h, "D_H_A": D_H_A, "D_H_B": D_H_B},
        **{"D_V": d_v, "D_V_A": D_V_A, "D_V_B": D_V_B},
    }


def architecture(capability: int) -> str:
    """Whose table a device uses: "sm_90" for 90, and "sm_80" for 120.

    sm_120 multiplies as sm_80 does, with as little shared memory as sm_86.
    """
    if 90 <= capability < 100:
        return "sm_90"
    return "sm_100" if 100 <= capability < 120 else "sm_80"
