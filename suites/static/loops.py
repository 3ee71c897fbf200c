"""The hot loop of a kernel, and what one pass of it by one block computes and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suites.static.broadcast import is_broadcast
from suites.static.instructions import (
    is_mma,
    is_of_one_thread,
    kind,
    mma_flop,
    mma_speed,
    shared_bytes,
    thread_bytes,
    warps_of,
)
from suites.static.sass import Code, Instruction
from suites.static.tensor_memory import Product

_WARP = 32
# Loops that make less than this part of the largest loop's products are no candidates.
_TELLING_SHARE = 0.5


@dataclass(frozen=True)
class Pass:
    """One loop and who runs it.

    Attributes:
        place: where it lies in the code.
        warps: of a block, that run it, or an equal copy of it after warp specialisation.
    """

    place: range
    warps: int


@dataclass(frozen=True)
class Loops:
    """The hot loop and the other innermost ones of its kind; `hot` may be the whole kernel."""

    hot: Pass
    others: tuple[Pass, ...]


@dataclass(frozen=True)
class Work:
    """What one block does in one pass; None where an instruction does not tell.

    Attributes:
        mma_flop: FLOP of matrix products as multiplied.
        mma_flop_at_16_bit: the same, in 16-bit products that take as long.
        shared_bytes: to and from shared memory, as many as take as long.
        global_bytes: to and from memory by loads, stores and copies, bulk copies (TMA) left out.
    """

    mma_flop: int | None
    mma_flop_at_16_bit: float | None
    shared_bytes: int
    global_bytes: int


def find_loops(code: Code, launched_warps: int, warps: int) -> Loops:
    """The loops of a kernel launched with `launched_warps`, of `warps` after specialisation.

    Of the innermost loops that multiply matrices (else of those with float32 products) the hot one
    issues the fewest instructions for each product. With none, it is the longest innermost loop;
    without loops, the whole kernel. Warp specialisation copies one loop for each group of warps:
    copies with the same instructions are one loop that all these warps run.
    """
    whole = Pass(range(len(code.instructions)), warps)
    for makes_products in (_matrix_products, _float32_products):
        if not makes_products(code.instructions):
            continue
        places = code.innermost(lambda body, makes=makes_products: makes(body) > 0)
        passes = _merged(code, places, launched_warps, is_split=warps != launched_warps)
        most = max((makes_products(code.body(p.place)) for p in passes), default=0)
        telling = [p for p in passes if makes_products(code.body(p.place)) >= _TELLING_SHARE * most]
        if telling:
            hot = min(telling, key=lambda p: len(p.place) / makes_products(code.body(p.place)))
            return Loops(hot, tuple(p for p in telling if p != hot))
        if makes_products is _matrix_products:
            return Loops(whole, ())
    longest = max(code.innermost(lambda _: True), key=len, default=None)
    return Loops(whole if longest is None else Pass(longest, warps), ())


def work_of(code: Code, one: Pass, products: Mapping[int, Product]) -> Work:
    """What a block does in one pass; `products` are those in tensor memory, by place."""
    flop: int | None = 0
    at_16_bit = 0.0
    shared = moved = 0
    for i in one.place:
        instruction = code.instructions[i]
        if is_mma(instruction):
            product = products.get(i)
            if is_of_one_thread(instruction):
                made = product.flop if product else None
                speed, times = (product.speed if product else 1.0), 1
                shared += product.shared_bytes if product else 0
            else:
                made, speed = mma_flop(instruction), mma_speed(instruction)
                times = one.warps // warps_of(instruction)
            flop = None if flop is None or made is None else flop + made * times
            at_16_bit += (made or 0) * times / speed
        moves = shared_bytes(instruction) // (2 if is_broadcast(code, i) else 1)
        shared += moves * (one.warps // warps_of(instruction))
        if kind(instruction) == "global" or instruction.opcode == "LDGSTS":
            moved += thread_bytes(instruction) * _WARP * one.warps
    return Work(flop, None if flop is None else at_16_bit, shared, moved)


def _matrix_products(instructions: Sequence[Instruction]) -> int:
    return sum(map(is_mma, instructions))


def _float32_products(instructions: Sequence[Instruction]) -> int:
    """Fused float32 products, where there are so many that it can only be matrices."""
    count = sum(i.opcode in ("FFMA", "FFMA2") for i in instructions)
    return count if count >= 256 else 0


def _merged(
    code: Code, places: Sequence[range], launched_warps: int, *, is_split: bool
) -> list[Pass]:
    if not is_split:
        return [Pass(place, launched_warps) for place in places]
    copies: dict[tuple[str, ...], list[range]] = {}
    for place in places:
        # Scheduled each for itself: the same instructions, in another order.
        copies.setdefault(tuple(sorted(i.name for i in code.body(place))), []).append(place)
    return [Pass(found[0], launched_warps * len(found)) for found in copies.values()]
