"""What the forward and backward kernels move and hold beyond what any implementation must."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impls.interface.cost import compulsory_bytes
from impls.interface.problem import DTYPE_BYTES, Problem
from impls.triton_flash.precision import IEEE

if TYPE_CHECKING:
    from impls.triton_flash.blocks import Blocks

_LSE_BYTES = 4
# The shift and the delta of a row, which one backward kernel writes and the other two read.
_SHIFT_AND_DELTA_BYTES = 8
# CUtensorMap, CUDA driver API 13.0.
_TENSOR_MAP_BYTES = 128


def algorithmic_bytes(problem: Problem, pass_: str) -> int:
    """The compulsory bytes; in a backward, which is three kernels, what they read again too.

    q, k and v are read twice and d_out three times. Of a row lse is read, shift and delta are
    written and twice read, where compulsory are 8 bytes. What of this an L2 cache catches is not
    known here.
    """
    compulsory = compulsory_bytes(problem, pass_)
    if pass_ == "forward":
        return compulsory
    p, rows = problem, problem.B * problem.H * problem.T_q
    again = rows * (p.d_h + 2 * p.d_v) + p.B * p.H_kv * p.T_kv * (p.d_h + p.d_v)
    of_rows = rows * (_LSE_BYTES + 3 * _SHIFT_AND_DELTA_BYTES - 8)
    return compulsory + again * DTYPE_BYTES[p.dtype] + of_rows


def cache_bytes(problem: Problem, pass_: str, precision: str = IEEE) -> int | None:
    """What the tiles of the forward bring from the L2 cache; None for a backward.

    Each block of queries reads q and writes out and lse once, and reads k and v of all keys that it
    may see, every query head for itself: 2·BLOCK_Q / bytes an element FLOP for each byte, whatever
    T, where T is much longer than a block.
    """
    if pass_ != "forward":
        return None
    p, blocks = problem, _forward_blocks(problem, precision)
    shift, keys = p.T_kv - p.T_q, 0
    for first in range(0, p.T_q, blocks.BLOCK_Q):
        start, end = 0, p.T_kv
        if p.causal:
            end = min(max(first + blocks.BLOCK_Q + shift, 0), p.T_kv)
        if p.window is not None:
            start = max(first + shift - p.window + 1, 0) // blocks.BLOCK_KV * blocks.BLOCK_KV
        keys += max(0, end - start)
    elements = (p.T_q + keys) * (p.d_h + p.d_v) * DTYPE_BYTES[p.dtype]
    return p.B * p.H * (elements + p.T_q * _LSE_BYTES)


def _forward_blocks(problem: Problem, precision: str) -> Blocks:
    """The blocks of a forward on the current device, by the kernel that computes there."""
    from impls.triton_flash.blocks import blocks_for
    from impls.triton_flash.blocks_hopper import hopper_blocks_for
    from impls.triton_flash.launch import capability_of, current_device

    d, capability = max(problem.d_h, problem.d_v), capability_of(current_device())
    if capability is not None and _is_for_hopper(problem, capability):
        return hopper_blocks_for(capability, d)
    return blocks_for(capability, d, DTYPE_BYTES[problem.dtype], precision)


def scratch_bytes(problem: Problem, pass_: str) -> int:
    """The lse of every row; a backward's shift and delta; the tensor maps of a Hopper."""
    rows = problem.B * problem.H * problem.T_q
    of_backward = 0 if pass_ == "forward" else rows * _SHIFT_AND_DELTA_BYTES
    of_forward = 0 if pass_ == "backward" else _descriptors_taken(problem)
    # The maps are gone when the backward begins.
    return rows * _LSE_BYTES + max(of_forward, of_backward)


def descriptor_bytes(problem: Problem) -> int:
    """The tensor maps of the Hopper kernel: of q, k and v, one for each of their chunks."""
    from impls.triton_flash.blocks import head_constants
    from impls.triton_flash.blocks_hopper import hopper_blocks_for

    p = problem
    heads = head_constants(p.d_h, p.d_v, splits=True)
    n_maps = 3 + 2 * (heads["D_H_B"] > 0) + (heads["D_V_B"] > 0)
    n_blocks = -(-p.T_q // hopper_blocks_for(90, max(p.d_h, p.d_v)).BLOCK_Q)
    return p.B * p.H * n_blocks * n_maps * _TENSOR_MAP_BYTES


def _descriptors_taken(problem: Problem) -> int:
    """Those of a call on the current device: none where the portable kernel computes."""
    from impls.triton_flash.launch import capability_of, current_device

    capability = capability_of(current_device())
    if capability is None or not _is_for_hopper(problem, capability):
        return 0
    return descriptor_bytes(problem)


def _is_for_hopper(problem: Problem, capability: int) -> bool:
    """Whether the kernel of its own is what computes, as `choice.attend` has it."""
    from impls.triton_flash.blocks_hopper import reasons_against_device

    is_described = DTYPE_BYTES[problem.dtype] == 2 and not (problem.d_h % 8 or problem.d_v % 8)
    return is_described and not reasons_against_device(capability)
