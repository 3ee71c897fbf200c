"""What instructions are: their kind, the bytes they move and the products they make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from suites.static.sass import Instruction

# As results.static_profile.INSTRUCTION_KINDS has them: a file passes from here to there.
KINDS = (
    *("mma", "mufu", "fp32", "alu", "select", "conversion", "shuffle"),
    *("shared", "tensor_memory", "async_copy", "global", "barrier", "spill", "uniform", "control"),
)
_WARP = 32
_WARPS_OF_A_GROUP = 4
# Opcodes: "Instruction Set Reference" of CUDA Binary Utilities 13
# (https://docs.nvidia.com/cuda/cuda-binary-utilities), by what Nsight Compute's pipelines do.
_OPCODES = {
    "mma": "HMMA IMMA DMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA",
    "mufu": "MUFU",
    "fp32": "FFMA FADD FMUL FFMA2 FADD2 FMUL2 FFMA32I FADD32I FMUL32I FSWZADD HFMA2 HADD2 HMUL2",
    # SEL, of integers, turns a pipeline's buffers; what a mask costs are selects of float32.
    "select": "FSEL",
    "conversion": "F2F F2FP F2I I2F I2FP I2I FRND F2IP I2IP",
    "shuffle": "SHFL",
    "shared": "LDS STS LDSM STSM ATOMS MOVM",
    "tensor_memory": "LDTM STTM UTCCP UTCSHIFT",
    "async_copy": "LDGSTS UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKRED UBLKPF",
    "global": "LDG STG LD ST ATOM ATOMG RED REDG LDGMC",
    "barrier": "BAR SYNCS UTCBAR WARPSYNC WARPGROUP WARPGROUPSET DEPBAR LDGDEPBAR LDGDEPBAR MEMBAR "
    "FENCE ARRIVES ERRBAR CCTL UCGABAR_ARV UCGABAR_WAIT UTMACMDFLUSH UTMACCTL ACQBULK ACQSHMINIT",
    "spill": "LDL STL",
    "control": "BRA BRX JMP JMX EXIT RET CALL BSSY BSYNC BREAK NOP NANOSLEEP YIELD KILL BPT "
    "PREEXIT USETMAXREG SETMAXREG UTCATOMSWS ELECT ENDCOLLECTIVE",
    "uniform": "R2UR S2UR LDC LDCU",
}
_KIND = {opcode: kind for kind, names in _OPCODES.items() for opcode in names.split()}
_BYTES_OF_WIDTH = {"128": 16, "64": 8, "U16": 2, "S16": 2, "16": 2, "U8": 1, "S8": 1, "8": 1}
# Integer products are made where float32 ones are; so are the half-precision ones.
_ON_FP32 = ("IMAD", "UIMAD")


def kind(instruction: Instruction) -> str:
    """One of `KINDS`. What is not in the list is integer arithmetic, or of uniform registers."""
    found = _KIND.get(instruction.opcode)
    if found is None:
        return "uniform" if instruction.opcode.startswith("U") else "alu"
    return found


def mix(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Instructions by kind, every one of `KINDS`."""
    counted = Counter(map(kind, instructions))
    return {name: counted[name] for name in KINDS}


def opcodes(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Instructions by opcode, the most frequent first."""
    counted = Counter(instruction.opcode for instruction in instructions)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def is_mma(instruction: Instruction) -> bool:
    """Whether it multiplies matrices."""
    return kind(instruction) == "mma"


def lanes_of_fp32(instruction: Instruction) -> int:
    """Results that one lane takes from the float32 units: 2 of packed instructions, 1 or 0."""
    if instruction.opcode in ("FFMA2", "FADD2", "FMUL2"):
        return 2
    is_there = kind(instruction) == "fp32" or instruction.opcode == "IMAD"
    return 1 if is_there else 0


def thread_bytes(instruction: Instruction) -> int:
    """Bytes that one thread loads or stores, 4 where no width is printed."""
    return next((_BYTES_OF_WIDTH[m] for m in instruction.modifiers if m in _BYTES_OF_WIDTH), 4)


def shared_bytes(instruction: Instruction) -> int:
    """Bytes of one warp to or from shared memory; of a warp group's product, the group's.

    Products read B (N·K elements) there, and A (M·K) where its operand is a descriptor. What bulk
    copies (UTMALDG) bring is not printed: 0.
    """
    if instruction.is_idle:
        return 0
    if instruction.opcode in ("LDSM", "STSM"):
        count = next((int(m) for m in instruction.modifiers if m in ("2", "4")), 1)
        return 128 * count
    if instruction.opcode in ("LDS", "STS", "LDGSTS"):
        return _WARP * thread_bytes(instruction)
    if instruction.opcode.endswith("GMMA") and (shape := _shape(instruction)):
        M, N, K = shape
        first_is_shared = re.match(r"[^,]*,\s*gdesc", instruction.operands) is not None
        return (N * K + (M * K if first_is_shared else 0)) * _operand_bytes(instruction)
    return 0


def mma_flop(instruction: Instruction) -> int | None:
    """FLOP of one matrix instruction: of a warp, or of a warp group (…GMMA).

    None where the shape is not printed: it is in a descriptor (UTC…MMA).
    """
    shape = _shape(instruction)
    return None if shape is None else 2 * shape[0] * shape[1] * shape[2]


def mma_speed(instruction: Instruction) -> float:
    """How fast it multiplies, 1 for 16-bit operands: 0.5 for TF32, 2 for 8 bits."""
    return {4: 0.5, 2: 1.0, 1: 2.0}[_operand_bytes(instruction)]


def warps_of(instruction: Instruction) -> int:
    """How many warps issue it together: 4 for a warp group's product, else 1."""
    return _WARPS_OF_A_GROUP if instruction.opcode.endswith("GMMA") else 1


def is_of_one_thread(instruction: Instruction) -> bool:
    """Whether one thread issues it for its whole block: products in tensor memory."""
    return instruction.opcode.startswith("UTC")


def _shape(instruction: Instruction) -> tuple[int, int, int] | None:
    """M, N and K: "64x128x16", or "16816" for 16, 8 and 16."""
    for word in instruction.modifiers:
        if found := re.fullmatch(r"(\d+)x(\d+)x(\d+)", word):
            return int(found[1]), int(found[2]), int(found[3])
        if found := re.fullmatch(r"(16|8)(8)(\d+)", word):
            return int(found[1]), int(found[2]), int(found[3])
    return None


def _operand_bytes(instruction: Instruction) -> int:
    if "TF32" in instruction.modifiers:
        return 4
    is_small = instruction.opcode[0] in "QI" or instruction.opcode in ("UTCQMMA", "UTCIMMA")
    return 1 if is_small else 2
