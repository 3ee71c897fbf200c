"""How decoding is cut: tiles of rows and keys for each device, and the splits of the keys.

The tiles come from compiling ahead of time with Triton 3.7.1 (ptxas 12.8 for sm_80 and sm_90, 13.1
for sm_100), causal, over BLOCK_KV 16 to 128, 2 to 8 warps and 2 to 4 stages. Decoding waits for
memory, so of one iteration over a tile of keys the code was counted (instructions issued, bytes
through shared memory) and set against the time that the tile takes to arrive: data sheet bandwidth
over multiprocessors and clock, 13, 20 and 29 bytes a clock on A100, H200 and B200. Taken was what
spills nothing in its loops, leaves room for two programs a multiprocessor with 64 KiB or more on
the way (many rows of d_h = 192: 48) and needs the least of that time: on sm_90 at d_h = 128 a fifth
to issue and half in shared memory. float32, multiplied without matrix units, takes longer than its
tile. Nothing was tuned by timing. `python -m suites static --kernel triton_decode_split` shows the
registers, the shared memory and what limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from impls.triton_flash.blocks import architecture

# Longer queries than a tile of `triton_flash` gain nothing here: it reads keys as seldom, in one
# launch, and its tiles are full.
MAX_T_Q = 128


@dataclass(frozen=True)
class DecodeBlocks:
    """Rows and keys of one tile, the warps and pipeline stages that work on it.

    A row is one query of one head; no split has fewer than `least_keys`.
    """

    BLOCK_ROWS: int
    BLOCK_KV: int
    num_warps: int
    num_stages: int
    least_keys: int


@dataclass(frozen=True)
class Splits:
    """`number` splits of `keys_each` keys from `first_key` on; the last may have fewer."""

    number: int
    first_key: int
    keys_each: int


# Small, so that short caches are cut into several splits and few rows into several tiles.
INTERPRETED = DecodeBlocks(16, 32, 4, 2, least_keys=32)
_INTERPRETED_PROGRAMS = 7

# The matrix units multiply 16 rows at least; more are worth a tile of their own kind only where
# 64 are multiplied from shared memory, without a copy of the keys in registers.
_FEW_ROWS = 16
_MANY_ROWS = {"sm_80": 32, "sm_90": 64, "sm_100": 64}

# (architecture, bytes of an element, BLOCK_ROWS) → (largest head size, its BLOCK_KV and stages).
_TABLE: dict[tuple[str, int, int], tuple[tuple[int, int, int], ...]] = {
    ("sm_80", 2, 16): ((128, 64, 3), (256, 32, 3)),
    ("sm_80", 2, 32): ((128, 64, 3), (256, 32, 2)),
    ("sm_80", 4, 16): ((192, 32, 2), (256, 16, 2)),
    ("sm_90", 2, 16): ((128, 64, 3), (256, 32, 3)),
    ("sm_90", 2, 64): ((128, 64, 3), (256, 32, 2)),
    ("sm_90", 4, 16): ((256, 16, 2),),
    ("sm_100", 2, 16): ((128, 64, 3), (256, 64, 2)),
    ("sm_100", 2, 64): ((128, 64, 3), (256, 32, 2)),
    ("sm_100", 4, 16): ((256, 16, 2),),
}

# Programs a multiprocessor is given at once: while one starts or ends and fetches nothing, the
# other does.
_PROGRAMS_AT_ONCE = 2

# What a program costs beside its tiles, in tiles: the wait for its first, and the partial output.
# No time was taken for it; it keeps short caches from being cut ever finer.
_OVERHEAD_TILES = 2

# With so many rounds of programs little of the device idles at the end of the last.
_MOST_ROUNDS = 8


def decode_blocks_for(
    capability: int | None, d: int, element_bytes: int, n_rows: int
) -> DecodeBlocks:
    """The blocks for `n_rows` rows that share a kv head, and for head size `d`.

    `d` is the larger of d_h and d_v. `capability` is 90 for compute capability 9.0; None is the
    interpreter.
    """
    if capability is None:
        return INTERPRETED
    device = architecture(capability)
    BLOCK_ROWS = _FEW_ROWS
    if n_rows > _FEW_ROWS and element_bytes == 2:
        BLOCK_ROWS = _MANY_ROWS[device]
    table = _TABLE[device, element_bytes, BLOCK_ROWS]
    BLOCK_KV, num_stages = next((kv, stages) for largest, kv, stages in table if d <= largest)
    # With 16 keys a row the partial outputs, float32, written and read again, are at most an
    # eighth of the bytes of 16-bit keys and values.
    least_keys = max(128, 16 * min(n_rows, BLOCK_ROWS))
    return DecodeBlocks(BLOCK_ROWS, BLOCK_KV, 4, num_stages, least_keys)


def splits_for(
    first_key: int,
    T_kv: int,
    n_heads: int,
    n_rows: int,
    blocks: DecodeBlocks,
    n_processors: int | None,
    n_splits: int | None = None,
) -> Splits:
    """How the keys from `first_key` to `T_kv` of `n_heads` kv heads are cut.

    Each kv head has `n_rows` rows of queries. `n_splits` is taken as it is, even where some then
    have no keys. None is as many as fill `n_processors` multiprocessors (None: the interpreter),
    and none of them is empty.
    """
    size = blocks.BLOCK_KV
    first_key = first_key // size * size
    n_blocks = -(-(T_kv - first_key) // size)
    if n_splits is not None:
        return Splits(n_splits, first_key, max(1, -(-n_blocks // n_splits)) * size)
    n_places = _INTERPRETED_PROGRAMS
    if n_processors is not None:
        n_places = n_processors * _PROGRAMS_AT_ONCE
    n_tiles = n_heads * -(-n_rows // blocks.BLOCK_ROWS)
    n_splits = _filling(n_tiles, n_blocks, n_places, blocks.least_keys // size)
    blocks_each = max(1, -(-n_blocks // n_splits))
    return Splits(max(1, -(-n_blocks // blocks_each)), first_key, blocks_each * size)


def _filling(n_tiles: int, n_blocks: int, n_places: int, least_blocks: int) -> int:
    """The number of splits, of `n_tiles` programs each, that keeps `n_places` programs busy.

    Candidates fill one round of programs, or two, up to eight. Taken is what ends first if a
    round lasts as long as one split does; of equals, the fewest splits. (Flash-Decoding, Dao et
    al. 2023, splits to fill the device: https://pytorch.org/blog/flash-decoding.)
    """
    most = max(1, n_blocks // least_blocks)
    best, least_cost = 1, float("inf")
    for n_rounds in range(1, _MOST_ROUNDS + 1):
        n_splits = min(max(1, n_rounds * n_places // n_tiles), most)
        n_rounds_taken = -(-n_tiles * n_splits // n_places)
        cost = n_rounds_taken * (-(-n_blocks // n_splits) + _OVERHEAD_TILES)
        if cost < least_cost:
            best, least_cost = n_splits, cost
    return best
