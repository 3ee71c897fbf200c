"""A static profile: what a kernel compiled ahead of time says of itself, as a run's journal has it.

A journal line with `"kind": "static"` is one of these; it has no time, and what reads times never
sees it. Nothing in it comes from a device: the code was read and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from results.reading import Place, SchemaError, read_record

KIND = "static"
# "error" is a compiler's refusal, or code beyond the hardware's limits: the reasons say which.
STATIC_STATUSES = ("ok", "error", "crashed", "timeout")
# What instructions do, by the pipe they go to; a loop's mix has every kind, 0 too.
INSTRUCTION_KINDS = (
    *("mma", "mufu", "fp32", "alu", "select", "conversion", "shuffle"),
    *("shared", "tensor_memory", "async_copy", "global", "barrier", "spill", "uniform", "control"),
)
# Whose cycles a bound compares; "issue" is the warp schedulers, "dram" device memory.
PIPES = ("mma", "mufu", "fp32", "alu", "shuffle", "shared", "issue", "dram")


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of the kernel one SM can hold, from CUDA's published limits.

    Attributes:
        blocks, warps: resident on one SM at once.
        share: of the warps that an SM can hold, 0 to 1.
        limited_by: "registers", "shared memory", "warps", "blocks" or "tensor memory".
    """

    blocks: int
    warps: int
    share: float
    limited_by: str


@dataclass(frozen=True)
class Resources:
    """What one block of the kernel takes, and how much of it was spilled; exact, to be gated.

    Attributes:
        registers: of one thread.
        stack_bytes: local memory of one thread.
        spill_stores, spill_loads: instructions to and from local memory in the whole kernel; the
            bytes are those of one thread.
        static_shared_bytes, dynamic_shared_bytes: shared memory of one block; what the launcher
            asks for is the dynamic part.
        tensor_memory_columns: of an SM's 512, where matrix products go through tensor memory.
        warps: of one block, after warp specialisation.
        scratch_bytes: device memory that the launcher must provide for each block.
        instructions: in the whole kernel.
    """

    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    tensor_memory_columns: int
    warps: int
    scratch_bytes: int
    instructions: int
    occupancy: Occupancy

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True)
class Loop:
    """One innermost loop as one warp of those that run it issues it, once through.

    Attributes:
        warps: of a block that run it; with warp specialisation not all do.
        instructions: issued in one pass.
        mix: instructions by kind, every one of `INSTRUCTION_KINDS`.
        opcodes: the same by opcode, "HGMMA" for instance, without its modifiers.
        spill_stores, spill_loads: how many of them go to and come from local memory.
        iterations: of the kernel's own loop in one pass; above 1 where it was unrolled. None where
            the kernel does not say what an iteration multiplies.
    """

    warps: int
    instructions: int
    mix: Mapping[str, int]
    opcodes: Mapping[str, int]
    spill_stores: int
    spill_loads: int
    iterations: float | None = None


@dataclass(frozen=True)
class StaticBound:
    """Two bounds of the hot loop from published throughputs. Neither predicts a time.

    Attributes:
        of: whose peak is 100 %: "mma" (useful products, padding is none), "fp32" where products
            are made without matrix units, or "dram".
        overlap_percent: all pipes work at once, the fullest decides; nothing can be above it.
        no_overlap_percent: `of` and everything else take turns.
        limited_by: the fullest pipe, of `PIPES`.
        cycles: of one SM for one pass of the hot loop by one block, by pipe.
    """

    of: str
    overlap_percent: float
    no_overlap_percent: float
    limited_by: str
    cycles: Mapping[str, float]


@dataclass(frozen=True)
class Expected:
    """What the kernel's author says its hot loop must look like; None is not said.

    Attributes:
        has_mma: it multiplies matrices.
        exponentials: that one thread takes in one pass: elements of the tile a thread, times the
            iterations of a pass. The rescaling of a row adds few.
        is_masked: it may select; False is the promise that a full tile pays for no mask.
        may_spill: spills inside the loop are known and accepted.
    """

    has_mma: bool | None = None
    exponentials: float | None = None
    is_masked: bool | None = None
    may_spill: bool = False


@dataclass(frozen=True)
class StaticProfile:
    """One kernel compiled for one architecture with one block.

    Attributes:
        cell: identity by content: the first 16 hex digits of a SHA-256 over "static", kernel, arch,
            dtype, d_h, constants, block, triton and ptxas.
        kernel: its function's name; `origin` is the file of a kernel that was brought, else None.
        arch: "sm_90".
        dtype: "bf16", "fp16" or "fp32"; None, like d_h, for a kernel that was brought.
        constants: compile-time constants other than the block, by name.
        block: the block's constants and the options "num_warps", "num_stages", by name.
        is_default: the block is the one that the launcher takes there.
        status: one of `STATIC_STATUSES`; "ok" has resources.
        reasons: the compiler's message, or the limits that are exceeded.
        hot_loop: of the innermost loops that multiply matrices the one with the fewest
            instructions for each product: the one without masks. Without products, the longest
            innermost loop, or the whole kernel where there is none.
        other_loops: the other innermost loops of the same kind, in the order of the code.
    """

    cell: str
    kernel: str
    arch: str
    dtype: str | None
    d_h: int | None
    constants: Mapping[str, Any]
    block: Mapping[str, Any]
    triton: str
    ptxas: str
    status: str
    origin: str | None = None
    is_default: bool = False
    reasons: tuple[str, ...] = ()
    resources: Resources | None = None
    hot_loop: Loop | None = None
    other_loops: tuple[Loop, ...] = ()
    bound: StaticBound | None = None
    expected: Expected = field(default_factory=Expected)
    started_utc: str | None = None
    elapsed_s: float | None = None

    @property
    def subject(self) -> tuple[str, str, str | None, int | None, str]:
        """What stays the same when the block or the compiler changes, constants as text."""
        return (self.kernel, self.arch, self.dtype, self.d_h, assignments(self.constants))

    @property
    def key(self) -> tuple[str, str, str | None, int | None, str, str, str, str]:
        """What two profiles must share for their figures to be compared exactly."""
        return (*self.subject, assignments(self.block), self.triton, self.ptxas)


def assignments(values: Mapping[str, Any]) -> str:
    """ "BLOCK_Q=128 num_warps=4", sorted by name."""
    return " ".join(f"{name}={values[name]}" for name in sorted(values))


def arch_number(arch: str) -> int:
    """90 of "sm_90", by which architectures are put in order; 0 where there is no number."""
    return int("".join(c for c in arch if c.isdigit()) or 0)


def is_static(value: Any) -> bool:
    """Whether a parsed journal line is a static profile."""
    return isinstance(value, dict) and value.get("kind") == KIND


def read_static(value: Any, place: Place) -> StaticProfile:
    """The profile of one parsed journal line, whose schema version was checked.

    Raises:
        SchemaError: a field is missing or of another type, an unknown status, pipe or kind of
            instruction, or "ok" without resources.
    """
    profile = read_record(StaticProfile, value, place)
    _one_of(profile.status, STATIC_STATUSES, place.at("status"))
    if profile.status == "ok" and profile.resources is None:
        raise SchemaError(f'{place.at("resources")}: status "ok" needs resources')
    if profile.status != "ok" and not profile.reasons:
        raise SchemaError(f'{place.at("reasons")}: status "{profile.status}" needs a reason')
    hot = () if profile.hot_loop is None else (("hot_loop", profile.hot_loop),)
    others = tuple((f"other_loops.{i}", loop) for i, loop in enumerate(profile.other_loops))
    for name, loop in (*hot, *others):
        _all_kinds(loop.mix, place.at(f"{name}.mix"))
    if profile.bound is not None:
        within = place.at("bound")
        _one_of(profile.bound.of, ("mma", "fp32", "dram"), within.at("of"))
        _one_of(profile.bound.limited_by, PIPES, within.at("limited_by"))
        for pipe in profile.bound.cycles:
            _one_of(pipe, PIPES, within.at("cycles"))
    return profile


def _all_kinds(mix: Mapping[str, int], place: Place) -> None:
    for kind in mix:
        _one_of(kind, INSTRUCTION_KINDS, place)
    for kind in INSTRUCTION_KINDS:
        if kind not in mix:
            raise SchemaError(f"{place.at(kind)}: missing, expected a whole number")


def _one_of(word: str, known: tuple[str, ...], place: Place) -> None:
    if word not in known:
        raise SchemaError(f'{place}: "{word}" is not known: one of {", ".join(known)}')
