"""The three backward kernels as they are compiled ahead of time."""

from __future__ import annotations

from dataclasses import asdict

from impls.interface.static_kernel import Build, StaticKernel, Target
from impls.triton_flash.blocks import head_constants, splits_heads
from impls.triton_flash.blocks_backward import ROWS, Tile, backward_blocks_for
from impls.triton_flash.static_precision import AS_TF32X3, matrix_products, precision_of

_ROW_NUMBERS = {"p_shift": "*fp32", "p_delta": "*fp32"}


def build_keys(target: Target) -> Build | None:
    """The kernel of dk and dv, d_v = d_h, in (B, H, T, d_h) tensors that follow one another.

    One iteration of its hot loop makes four products: scores, dP, and what dk and dv gain. None
    where float32 is not multiplied so.
    """
    return _build(target, "keys", rows_are_keys=True, gained=2, written=("dk", "dv"))


def build_queries(target: Target) -> Build | None:
    """The kernel of dq, likewise: scores, dP, and what dq gains."""
    return _build(target, "queries", rows_are_keys=False, gained=1, written=("dq",))


def build_rows(target: Target) -> Build:
    """The kernel of shift and delta: it reads out and d_out, and is judged by their bytes."""
    heads = head_constants(target.d_h, target.d_h, splits_heads(target.capability))
    block = {**asdict(ROWS), **target.block}
    del block["BLOCK_KV"]
    return Build(
        block=block,
        constants={n: heads[n] for n in ("D_V", "D_V_A", "D_V_B")} | {"HAS_D_LSE": False},
        types={"p_lse": "*fp32", "p_d_lse": "*fp32", **_ROW_NUMBERS},
        unaligned=_row_strides(target.d_h, "out", "d_out"),
        is_masked=True,
        # lse is read, shift and delta are written.
        dram_bytes=block["BLOCK_Q"] * (2 * target.d_h * target.element_bytes + 3 * 4),
    )


def _build(
    target: Target, name: str, *, rows_are_keys: bool, gained: int, written: tuple[str, ...]
) -> Build | None:
    precision = precision_of(target, "backward")
    if precision is None:
        return None
    d, n_products = target.d_h, matrix_products(target, precision)
    blocks = backward_blocks_for(target.capability, d, target.element_bytes, precision)
    tile: Tile = getattr(blocks, name)
    block = {**asdict(tile), **target.block}
    spares = {"SPARES_REGISTERS": bool(block.pop("SPARES_REGISTERS"))}
    heads = head_constants(d, d, splits_heads(target.capability))
    M, N = block["BLOCK_Q"], block["BLOCK_KV"]
    if rows_are_keys:
        M, N = N, M
    chunks = [c for c in (heads["D_H_A"], heads["D_H_B"]) if c]
    scores = [(M, N, c) for c in chunks]
    gains = [(M, c, N) for c in chunks]
    return Build(
        block=block,
        constants={**heads, **target.variant, **spares, "PRECISION": precision},
        types={"scale": "fp32", **_ROW_NUMBERS},
        unaligned=_row_strides(d, "q", "k", "v", "d_out", *written),
        products=(*scores, *scores, *gains * gained) * max(n_products, 1),
        uses_matrix_units=n_products > 0,
        useful_flop=2 * M * N * d * (2 + gained),
        exponentials=M * N,
        is_masked=n_products > 1,  # see static_forward.py
        # Beside dk and dv no register is left: one to three spill, see blocks_backward.py.
        may_spill=rows_are_keys and target.capability == 90 and d > 160 and target.dtype != "fp32",
    )


def _row_strides(d: int, *tensors: str) -> tuple[str, ...]:
    """Those that are no multiple of 16: consecutive rows are d elements apart."""
    return () if d % 16 == 0 else tuple(f"stride_{tensor}_t" for tensor in tensors)


_VARIANTS = (
    {"IS_CAUSAL": True, "HAS_WINDOW": False},
    {"IS_CAUSAL": False, "HAS_WINDOW": False},
    {"IS_CAUSAL": True, "HAS_WINDOW": True},
    AS_TF32X3,
)

backward_keys = StaticKernel(
    kernel="impls.triton_flash.backward_keys:triton_flash_backward_keys",
    build=build_keys,
    variants=_VARIANTS,
)
backward_queries = StaticKernel(
    kernel="impls.triton_flash.backward_queries:triton_flash_backward_queries",
    build=build_queries,
    variants=_VARIANTS,
)
backward_rows = StaticKernel(
    kernel="impls.triton_flash.backward_rows:triton_flash_backward_rows", build=build_rows
)
