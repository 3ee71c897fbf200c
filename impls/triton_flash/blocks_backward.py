"""How the backward kernels are cut: block shapes for each kernel, device and head size.

The table comes from compiling some 150 shapes ahead of time with Triton 3.7.1 (ptxas 12.8 for sm_80
and sm_90, 13.1 for sm_100), causal, and counting the hot loop's instructions. Taken is, of those
that fit in shared memory and make no product twice, the one with the highest share of the matrix
peak that its fullest pipe allows, of those that spill nothing in the loop through full tiles.
Declared as an exception (`static_backward.py`) is the kernel of keys on sm_90 at d_h = 192 (a store
and two loads) and 256 (a load): what spills nothing there has half the tile and two thirds of the
share, or no second stage to fetch ahead in. Nothing was tuned by timing.

In 16 bits to d_h = 128 that share, keys and queries, is 100 and 100 % at 64 and 83 and 100 % at 128
on sm_80, 88 and 100 %, 99 and 100 % on sm_90: what limits the kernel of keys is shared memory.
Larger tiles would read less and spill: dk, dv, P and dS are alive at once. On sm_100, where matrix
products are twice as fast, shared memory limits the kernel of keys, to 66 and 66 %, exponentials
and shared memory that of queries, to 75 and 86 %: docs/static-profile.md has the arithmetic.
Outside the loop up to 32 registers are stored, once a program; 96 on sm_80 at d_h = 40, whose rows
come in short pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

from impls.triton_flash.blocks import Blocks, table_key
from impls.triton_flash.precision import IEEE, TF32X3


@dataclass(frozen=True)
class Tile(Blocks):
    """Queries and keys of one tile, its warps and stages, and whether it spares registers.

    Where it does, offsets are computed anew in every iteration of the loop: kept through it, they
    would spill.
    """

    SPARES_REGISTERS: bool = False


@dataclass(frozen=True)
class BackwardBlocks:
    """The tiles of the kernel of keys (dk, dv) and of the kernel of queries (dq)."""

    keys: Tile
    queries: Tile


# Of the kernel that reads out and d_out once, row by row: 16 to 64 elements a thread.
ROWS = Blocks(32, 32, 4, 1)

# Uneven and small, as INTERPRETED of the forward kernel, and the other way round.
INTERPRETED = BackwardBlocks(Tile(32, 64, 4, 2), Tile(64, 32, 4, 2))

_FLOAT32 = (
    (64, BackwardBlocks(Tile(32, 64, 8, 2), Tile(64, 32, 8, 2))),
    (128, BackwardBlocks(Tile(16, 64, 8, 2), Tile(64, 16, 8, 2))),
    (256, BackwardBlocks(Tile(16, 32, 8, 2), Tile(32, 16, 8, 2))),
)
# (architecture, bytes of an element or else TF32X3) → (largest head size, its blocks), smallest
# first.
_TABLE: dict[tuple[str, int | str], tuple[tuple[int, BackwardBlocks], ...]] = {
    ("sm_80", 2): (
        (63, BackwardBlocks(Tile(32, 128, 4, 2), Tile(128, 64, 8, 2))),
        (64, BackwardBlocks(Tile(32, 128, 4, 2), Tile(128, 32, 4, 2))),
        (128, BackwardBlocks(Tile(64, 64, 4, 2), Tile(128, 32, 4, 3, True))),
        (192, BackwardBlocks(Tile(16, 64, 4, 2, True), Tile(64, 32, 4, 2))),
        (256, BackwardBlocks(Tile(32, 32, 4, 2), Tile(32, 32, 4, 2))),
    ),
    ("sm_90", 2): (
        (128, BackwardBlocks(Tile(64, 128, 8, 2), Tile(128, 128, 8, 2))),
        (192, BackwardBlocks(Tile(32, 128, 8, 2, True), Tile(128, 64, 8, 2))),
        # Of each product of scores the two warp groups make the same, for want of rows: with 128
        # keys dk and dv alone would need every register.
        (256, BackwardBlocks(Tile(64, 64, 8, 2, True), Tile(128, 32, 8, 2))),
    ),
    ("sm_100", 2): (
        (63, BackwardBlocks(Tile(64, 128, 8, 2), Tile(128, 64, 8, 2))),
        (64, BackwardBlocks(Tile(128, 128, 8, 2, True), Tile(128, 128, 8, 2))),
        (128, BackwardBlocks(Tile(64, 128, 8, 2), Tile(128, 128, 8, 2))),
        (256, BackwardBlocks(Tile(32, 64, 8, 2), Tile(128, 32, 8, 2))),
    ),
    ("sm_80", TF32X3): ((64, BackwardBlocks(Tile(16, 128, 8, 2), Tile(128, 16, 8, 2))),),
    ("sm_90", TF32X3): ((64, BackwardBlocks(Tile(32, 128, 8, 2), Tile(128, 64, 8, 2))),),
    ("sm_80", 4): _FLOAT32,
    ("sm_90", 4): _FLOAT32,
    ("sm_100", 4): (
        _FLOAT32[0],
        # Padded to 128 columns, whose masks take registers: 64 queries would spill in the loop.
        (127, BackwardBlocks(Tile(16, 64, 8, 2), Tile(32, 16, 8, 2))),
        *_FLOAT32[1:],
    ),
}
SMALLEST_BLOCK = min(
    min(b.keys.BLOCK_KV, b.queries.BLOCK_Q, ROWS.BLOCK_Q)
    for rows in _TABLE.values()
    for _, b in rows
)


def backward_blocks_for(
    capability: int | None, d: int, element_bytes: int, precision: str = IEEE
) -> BackwardBlocks:
    """The blocks for head size `d`, the larger of d_h and d_v; arguments as of `blocks_for`.

    Raises:
        Unsupported: as `blocks_for`.
    """
    if capability is None:
        return INTERPRETED
    rows = _TABLE[table_key(capability, element_bytes, precision)]
    return next(blocks for largest, blocks in rows if d <= largest)
