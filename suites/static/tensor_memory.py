"""Products in tensor memory: their shapes, which SASS has in a descriptor, not in the opcode."""

from __future__ import annotations

import re
from dataclasses import dataclass

from suites.static.sass import Code

_DESCRIPTOR = re.compile(r"idesc\[(UR\d+)\]")
_CONSTANT = re.compile(r"0x([0-9a-f]+)$")
# K is 32 bytes of an operand (PTX ISA 9.0, tcgen05.mma, "Matrix shape").
_K_BYTES = 32
_TF32 = 2


@dataclass(frozen=True)
class Product:
    """One (M, N, K) product; `first_is_shared`: its first operand is read from shared memory."""

    M: int
    N: int
    K: int
    element_bytes: int
    first_is_shared: bool

    @property
    def flop(self) -> int:
        """FLOP of the product."""
        return 2 * self.M * self.N * self.K

    @property
    def speed(self) -> float:
        """How fast it is multiplied, 1 for 16-bit operands."""
        return {4: 0.5, 2: 1.0, 1: 2.0}[self.element_bytes]

    @property
    def shared_bytes(self) -> int:
        """What it reads from shared memory: the second operand, and the first if it lies there."""
        rows = self.N + (self.M if self.first_is_shared else 0)
        return rows * self.K * self.element_bytes


def products_in_code(code: Code) -> dict[int, Product]:
    """The product of each instruction with a constant descriptor, by its place in the code.

    The descriptor is moved to a uniform register just before: N / 8 is in its bits 17 to 22, M / 16
    in 24 to 28, the operands' type in 7 to 9 (PTX ISA 9.0, tcgen05, "Instruction descriptor").
    """
    found: dict[int, Product] = {}
    for place, instruction in enumerate(code.instructions):
        if not re.fullmatch(r"UTC[HIQO]MMA", instruction.opcode):
            continue
        register = _DESCRIPTOR.search(instruction.operands)
        bits = None if register is None else _constant_before(code, place, register[1])
        if bits is None:
            continue
        element_bytes = 1
        if instruction.opcode == "UTCHMMA":
            element_bytes = 4 if bits >> 7 & 7 == _TF32 else 2
        M, N = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
        if M and N:
            is_shared = instruction.operands.startswith("gdesc")
            K = _K_BYTES // element_bytes
            found[place] = Product(M, N, K, element_bytes, is_shared)
    return found


def _constant_before(code: Code, place: int, register: str) -> int | None:
    """What the last instruction that writes the register puts there, if it is a constant."""
    written = code.last_write(register, place)
    writer = None if written is None else code.instructions[written]
    if writer is None or writer.opcode != "UMOV":
        return None
    value = _CONSTANT.search(writer.operands)
    return int(value[1], 16) if value else None
