"""SASS as nvdisasm prints it: instructions, labels, and the innermost loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# "        /*0180*/              @!P0 LDG.E.128 R16, desc[UR4][R20.64] ;"
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)\s*([^;]*);"
)
_LABEL = re.compile(r"^\s*(\.L\w+):")
_TARGET = re.compile(r"`\((\.L\w+)\)")
_FUNCTION = re.compile(r"^\s*\.section\s+\.text\.([\w$.]+)")
_LEAVES = ("EXIT", "RET")


@dataclass(frozen=True)
class Instruction:
    """One instruction: "LDG", (".E", ".128") without dots, and its operands as printed.

    `is_idle`: it is issued and does nothing, its predicate being "not true". ptxas lays such loads
    from shared memory ahead of asynchronous copies.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: str
    is_idle: bool = False

    @property
    def name(self) -> str:
        """Opcode and modifiers, as printed."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Code:
    """One kernel: its instructions in order, and where each backward branch starts and ends."""

    instructions: tuple[Instruction, ...]
    loops: tuple[range, ...]

    def body(self, loop: range) -> tuple[Instruction, ...]:
        """The instructions of a loop, its branch included."""
        return self.instructions[loop.start : loop.stop]

    def last_write(self, register: str, before: int) -> int | None:
        """Where, ahead of `before` as the code is laid out, an instruction last writes it."""
        for place in range(before - 1, -1, -1):
            if self.instructions[place].operands.startswith(f"{register},"):
                return place
        return None

    def innermost(self, holds: Callable[[Sequence[Instruction]], bool]) -> list[range]:
        """Loops whose body `holds` and that have no such loop inside, in the order of the code."""
        found = [loop for loop in self.loops if holds(self.body(loop))]
        return [
            loop
            for loop in found
            if not any(
                other != loop and loop.start <= other.start and other.stop <= loop.stop
                for other in found
            )
        ]


def parse(text: str, function: str | None = None) -> Code:
    """The code of `function`, or of all the text where it is None.

    A loop is what lies between a label and a branch back to it. Blocks that wait are laid behind
    the kernel's end and jump back into it: a body with an EXIT in it is no loop.
    """
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    is_wanted = True
    for line in text.splitlines():
        if section := _FUNCTION.match(line):
            is_wanted = function is None or section[1] == function
        if not is_wanted:
            continue
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            predicate, opcode, modifiers, operands = found.groups()
            if opcode == "BRA" and (target := _TARGET.search(operands)):
                branches.append((len(instructions), target[1]))
            words = tuple(modifiers.split(".")[1:])
            is_idle = predicate in ("!PT", "!UPT")
            instructions.append(Instruction(opcode, words, operands.strip(), is_idle))
    loops = []
    for end, target in branches:
        start = labels.get(target, end + 1)
        body = instructions[start : end + 1]
        # A branch to itself is how code ends.
        if start < end and not any(i.opcode in _LEAVES for i in body):
            loops.append(range(start, end + 1))
    return Code(tuple(instructions), tuple(sorted(set(loops), key=lambda r: (r.start, r.stop))))
