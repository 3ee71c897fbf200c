"""Products in tensor memory: their shapes, which SASS leaves in a register, as PTX has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from suites.static.instructions import is_mma
from suites.static.sass import Code

_PRODUCT = re.compile(
    r"tcgen05\.mma\.(?:sp\.)?cta_group::(\d)\.kind::(\w+)[\w.:]*\s+\[[^]]*\],\s*"
    r"(\[[^]]*\]|%\w+),\s*%\w+,\s*(%\w+)"
)
_CONSTANT = re.compile(r"mov\.[bu]32\s+(%\w+),\s*(\d+);")
# Bytes of an operand's element; K is 32 bytes of it (PTX ISA 9.0, tcgen05.mma, "Data path").
_ELEMENT_BYTES = {"f16": 2, "tf32": 4, "f8f6f4": 1, "i8": 1}
_K_BYTES = 32


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


def products_in_ptx(ptx: str) -> list[Product]:
    """Every tcgen05.mma in the order of the text; none where a descriptor is no constant.

    Sizes are in the instruction descriptor: N / 8 in bits 17 to 22, M / 16 in bits 24 to 28 (PTX
    ISA 9.0, tcgen05, "Instruction descriptor").
    """
    constants = {name: int(value) for name, value in _CONSTANT.findall(ptx)}
    found = []
    for _, kind, first, descriptor in _PRODUCT.findall(ptx):
        if descriptor not in constants or kind not in _ELEMENT_BYTES:
            return []
        bits, element_bytes = constants[descriptor], _ELEMENT_BYTES[kind]
        M, N = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
        is_shared = not first.startswith("[")
        found.append(Product(M, N, _K_BYTES // element_bytes, element_bytes, is_shared))
    return found


def products_in_code(code: Code, ptx: str) -> dict[int, Product]:
    """The product of each such instruction, by its place in the code; {} where they do not match.

    ptxas keeps their order: that they are as many, and that each finds its first operand in the
    same kind of memory, is checked.
    """
    places = [
        i
        for i, instruction in enumerate(code.instructions)
        if is_mma(instruction) and instruction.opcode.startswith("UTC")
    ]
    products = products_in_ptx(ptx)
    if len(places) != len(products) or not _agree(code, places, products):
        return {}
    return dict(zip(places, products, strict=True))


def _agree(code: Code, places: Sequence[int], products: Sequence[Product]) -> bool:
    return all(
        code.instructions[i].operands.startswith("gdesc") == product.first_is_shared
        for i, product in zip(places, products, strict=True)
    )
