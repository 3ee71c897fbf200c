"""How the Hopper kernel is cut: block shapes by head size, and on which devices.

From compiling ahead of time for sm_90 with Triton 3.7.1 and 3.6.0 (ptxas 12.8 in both), causal,
full and windowed: at every multiple of 8 up to 256, 4 warps become 12 (4 that copy, twice 4 that
compute 64 queries each) of at most 168 registers a thread, without spills, within shared memory.
Nothing in it was tuned by timing.
"""

from __future__ import annotations

from impls.triton_flash.blocks import INTERPRETED, Blocks, architecture

# (largest head size, its blocks): 128 keys where two stages of them fit, as fewer keys a tile mean
# more barriers and rescaling for each.
_TABLE = (
    (64, Blocks(128, 128, 4, 3)),
    (128, Blocks(128, 128, 4, 2)),
    (256, Blocks(128, 64, 4, 2)),
)
SMALLEST_BLOCK_Q = min(blocks.BLOCK_Q for _, blocks in _TABLE)


def reasons_against_device(capability: int | None) -> list[str]:
    """Why the kernel is not for this device; none on 9.x and in the interpreter (None)."""
    if capability is None or architecture(capability) == "sm_90":
        return []
    return [f"compute capability {capability // 10}.{capability % 10} is not 9.x"]


def hopper_blocks_for(capability: int | None, d: int) -> Blocks:
    """The blocks for head size `d`, the larger of d_h and d_v; None is the interpreter."""
    if capability is None:
        return INTERPRETED
    return next(blocks for largest, blocks in _TABLE if d <= largest)
