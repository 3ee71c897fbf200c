"""Loads from shared memory that give every lane of a warp the same words.

They take half of what their width says: two registers are returned in one cycle where neighbouring
lanes have one address (https://forums.developer.nvidia.com/t/77228, by NVIDIA, of compute
capability 7; 2 wavefronts of LDS.128 instead of 4 are reported of 8.6 and 9.0 too, t/373160 there).
"""

from __future__ import annotations

import re

from suites.static.sass import Code

_ADDRESS = re.compile(r"\[([^\]]*)\]")
_REGISTER = re.compile(r"\bR\d+")
_MASKED = re.compile(r"R\d+, (R\d+)(?:\.reuse)?, 0x([0-9a-f]+), RZ, 0xc0,")
# Of a thread's number, the bits that tell the lanes of a warp apart.
_LANE_BITS = 31


def is_broadcast(code: Code, place: int) -> bool:
    """Whether the instruction there is such a load, as far as the code tells.

    Its address is in uniform registers, or in one that has nothing of the thread's number but bits
    of the warp.
    """
    instruction = code.instructions[place]
    address = _ADDRESS.search(instruction.operands)
    if instruction.opcode != "LDS" or address is None:
        return False
    return all(_is_of_a_warp(code, r, place) for r in _REGISTER.findall(address[1]))


def _is_of_a_warp(code: Code, register: str, place: int) -> bool:
    """Whether all lanes of a warp have the same in it: the thread's number, those bits masked."""
    written = code.last_write(register, place)
    if written is None or code.instructions[written].opcode != "LOP3":
        return False
    masked = _MASKED.match(code.instructions[written].operands)
    if masked is None or int(masked[2], 16) & _LANE_BITS:
        return False
    source = code.last_write(masked[1], written)
    return source is not None and code.instructions[source].operands.endswith("SR_TID.X")
