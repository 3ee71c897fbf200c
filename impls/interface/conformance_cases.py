"""The conformance matrix as data: the problems, values and masks that are tried."""

from __future__ import annotations

from dataclasses import dataclass

from impls.interface.problem import Problem

ASKS = ("output", "lse", "gradients")
# A batch of several lengths is asked for no LSE: a call that is prepared for it gives none.
ASKS_OF_LENGTHS = ("output", "gradients")


@dataclass(frozen=True)
class Case:
    """One call to try; each of `asks` is one check.

    Attributes:
        subject: what it is there for.
        values: a word of `conformance_values.VALUES`.
        mask: a word of `conformance_values.MASKS`, or None.
        poisoned: uninitialised memory is NaN during the call.
        core: also tried on implementations that compile for each problem.
    """

    subject: str
    problem: Problem
    values: str = "normal"
    mask: str | None = None
    scale: float | None = None
    softcap: float | None = None
    poisoned: bool = False
    core: bool = False
    asks: tuple[str, ...] = ASKS

    @property
    def id(self) -> str:
        """`subject: problem, what differs from the usual`."""
        parts = [self.problem.id]
        parts += [self.values] if self.values != "normal" else []
        parts += [f"mask {self.mask}"] if self.mask else []
        parts += [f"scale={self.scale}"] if self.scale is not None else []
        parts += [f"softcap={self.softcap}"] if self.softcap is not None else []
        return f"{self.subject}: {', '.join(parts)}"


# Each compiles once, in seconds, and is tried with many values: few, so each shows several things.
CORE_PROBLEMS = (
    "T=65,H=2,d_h=64,causal",
    "T_q=33,T_kv=65,H=2,d_h=64,causal",
    "T_q=65,T_kv=33,H=2,d_h=64,causal",
    "B=2,T=63,H=6,H_kv=2,d_h=32",
    "T=65,H=2,d_h=64,causal,window=17,bfloat16",
    "B=2,T=17,H=3,d_h=80,bthd",
    "lengths=33+1+65,H=2,d_h=64,causal",
)
CORE_VALUES = (
    "normal",
    "other seed",
    "dominating columns",
    "large logits",
    "negative scores",
    "equal keys",
    "equal queries",
    "tiny scores",
    "last key dominates",
    "large values",
    "far from zero",
)

# Around 1, 16, 32, 64, 128 and 256, where a block or a vector ends.
AWKWARD_T = (1, 2, 15, 16, 17, 31, 33, 63, 65, 127, 129, 257)
D_H = (1, 7, 8, 31, 40, 64, 72, 80, 96, 128, 192, 256)


def cases() -> list[Case]:
    """The whole matrix, cases of one problem next to one another."""
    return [*_core(), *_sizes(), *_long(), *_masking(), *_numbers(), *_memory(), *_lengths()]


def asks_of(problem: Problem) -> tuple[str, ...]:
    """What is asked of a problem of its kind."""
    return ASKS if problem.lengths is None else ASKS_OF_LENGTHS


def _core() -> list[Case]:
    found = []
    for text in CORE_PROBLEMS:
        problem = Problem.parse(text)
        asks = asks_of(problem)
        found += [Case("core", problem, values, core=True, asks=asks) for values in CORE_VALUES]
        # Asking for it would compile anew, and what compiled code allocates is not poisoned.
        found.append(Case("every element written", problem, poisoned=True, asks=asks))
    return found


def _sizes() -> list[Case]:
    found = [
        Case("awkward T", Problem.parse(f"T={T},H=2,d_h=64,{word}"), "negative scores")
        for T in AWKWARD_T
        for word in ("full", "causal")
    ]
    found += [
        Case("head size", Problem.parse(f"T=17,H=2,d_h={d_h}"), "dominating columns") for d_h in D_H
    ]
    found += [
        Case("d_v differs", Problem.parse(text))
        for text in ("T=33,H=2,d_h=64,d_v=32", "T=33,H=2,d_h=32,d_v=64,causal")
    ]
    found += [
        Case("grouped heads", Problem.parse(f"T=33,d_h=64,{text}"))
        for text in (
            "H=4,H_kv=2,bfloat16",
            "H=4,H_kv=2",
            "H=4,H_kv=1",
            "H=6,H_kv=3,causal",
            "B=2,H=8,H_kv=2,causal,bthd",
            "H=5,H_kv=1,causal",
        )
    ]
    found += [
        Case("empty", Problem(H=2, d_h=8, B=B, T_q=T_q, T_kv=T_kv))
        for B, T_q, T_kv in ((0, 4, 4), (1, 0, 4), (1, 4, 0), (1, 0, 0))
    ]
    return found


def _long() -> list[Case]:
    """Beside the powers of two where a kernel takes another path or another split of the keys.

    Square in full, where it is quick, and long on one side: the pairs B·H·T_q·T_kv are what costs.
    """
    found = [Case("long", Problem.parse(f"{text},d_h=64"), asks=asks) for text, asks in _LONG]
    found.append(Case("long", Problem.parse("T_q=5,T_kv=1031,H=2,d_h=64"), mask="bool, dead rows"))
    # A denominator that is summed in float16 one by one stays at 2048.
    summed = Problem.parse("T_q=3,T_kv=4097,H=2,H_kv=1,d_h=64,float16")
    found.append(Case("long", summed, "equal keys", asks=("output", "lse")))
    return found


_LONG = (
    ("T=513,H=1,causal", ASKS),
    ("T=1031,H=1,causal", ("output",)),
    ("T_q=511,T_kv=33,H=1", ASKS),
    ("T_q=2049,T_kv=17,H=1", ASKS),
    ("T_q=33,T_kv=1031,H=1,causal", ASKS),
    ("T_q=1,T_kv=2049,H=4,H_kv=2", ASKS),
    ("T_q=3,T_kv=2047,H=2,H_kv=1,causal,bfloat16", ASKS),
    ("T_q=17,T_kv=1023,H=1,causal,window=129", ASKS),
)


def _masking() -> list[Case]:
    found = [
        Case("causal T_q ≠ T_kv", Problem.parse(f"T_q={T_q},T_kv={T_kv},H=2,d_h=64,causal"))
        for T_q, T_kv in ((1, 65), (2, 5), (16, 64), (33, 257), (17, 1), (64, 16), (65, 64))
    ]
    found += [
        Case("full T_q ≠ T_kv", Problem.parse(f"T_q={T_q},T_kv={T_kv},H=2,d_h=64"))
        for T_q, T_kv in ((1, 129), (17, 33), (129, 17))
    ]
    found += [
        Case("window", Problem.parse(f"{text},H=2,d_h=64,causal"))
        for text in (
            "T=65,window=17",
            "T=65,window=1",
            "T=65,window=64",
            "T=65,window=65",
            "T=65,window=100",
            "T=129,window=33",
            "T_q=17,T_kv=65,window=16",
            "T_q=65,T_kv=33,window=16",
        )
    ]
    square = Problem.parse("B=2,T=33,H=2,d_h=64")
    wide = Problem.parse("B=2,T_q=17,T_kv=65,H=4,H_kv=2,d_h=32")
    found += [
        Case("mask", problem, mask=mask)
        for problem in (square, wide)
        for mask in (
            "bool",
            "bool, of each key",
            "bool, causal",
            "bool, dead rows",
            "bool, all dead",
            "float",
            "float, −inf",
            "float, dead rows",
        )
    ]
    found += [
        Case("mask at 16 bits", square.with_(dtype=dtype), mask=mask)
        for dtype in ("bfloat16", "float16")
        for mask in ("bool, dead rows", "float, −inf")
    ]
    return found


def _numbers() -> list[Case]:
    plain = Problem.parse("T_q=17,T_kv=33,H=2,d_h=64")
    found = [Case("scale", plain, scale=scale) for scale in (0.0, 1.0, 0.03, -0.2)]
    found += [
        Case("softcap", plain, values, softcap=softcap)
        for values, softcap in (("normal", 1.5), ("large logits", 20.0))
    ]
    found.append(Case("softcap", plain.with_(causal=True), softcap=2.0))
    found += [
        Case("dtype", Problem.parse(f"{text},{dtype}"), values)
        for dtype in ("bfloat16", "float16")
        for text, values in (
            ("T=17,H=2,d_h=64", "normal"),
            ("T=129,H=2,d_h=40,causal", "normal"),
            ("T=33,H=4,H_kv=2,d_h=128,causal", "normal"),
            ("T_q=5,T_kv=65,H=2,d_h=64,causal", "large logits"),
            ("T=33,H=2,d_h=64", "large logits"),
        )
    ]
    # What is built for serving takes 16 bits, whole pages of keys, and often one query alone.
    found += [
        Case("serving", Problem.parse(text))
        for text in (
            "B=2,T_q=1,T_kv=64,H=8,H_kv=2,d_h=128,causal,bfloat16",
            "B=3,T_q=1,T_kv=256,H=4,H_kv=1,d_h=64,causal,bthd,float16",
            "T_q=1,T_kv=1024,H=2,d_h=64,bfloat16",
            "B=2,T_q=17,T_kv=64,H=4,H_kv=2,d_h=64,causal,window=20,float16",
        )
    ]
    # 256·256·128 / √128 = 741455 is above 65504, the largest float16.
    found.append(
        Case(
            "overflow of 16-bit scores",
            Problem(B=1, T_q=2, T_kv=3, H=1, d_h=128, dtype="float16"),
            "overflowing",
            asks=("output",),
        )
    )
    return found


def _memory() -> list[Case]:
    found = [
        Case("layout", Problem.parse(text))
        for text in (
            "B=2,T=4,H=4,d_h=64,bthd",
            "B=2,T=33,H=2,d_h=64,packed,causal",
            "B=2,T=17,H=3,d_h=32,packed",
            "B=2,T_q=5,T_kv=33,H=4,H_kv=2,d_h=64,bthd,causal",
        )
    ]
    plain = Problem.parse("B=2,T_q=17,T_kv=33,H=2,d_h=64,causal")
    found += [
        Case("strides", plain, values)
        for values in ("every second element", "transposed storage", "slice of a NaN cache")
    ]
    found += [
        Case("strides", plain, values, asks=("gradients",))
        for values in ("gradient of a sum", "gradient turned")
    ]
    found += [
        Case("every element written", Problem.parse(text), mask=mask, poisoned=True)
        for text, mask in (
            ("T=129,H=2,d_h=40", None),
            ("T_q=65,T_kv=17,H=2,d_h=64,causal,float16", None),
            ("T=33,H=4,H_kv=1,d_h=96", None),
            ("B=2,T=33,H=2,d_h=64", "bool, dead rows"),
        )
    ]
    return found


def _lengths() -> list[Case]:
    """Variable-length batches: who sees into a neighbour, or counts from the wrong end, is off."""
    return [
        Case("variable lengths", Problem.parse(f"{text},d_h=64"), asks=ASKS_OF_LENGTHS)
        for text in (
            "lengths=0+17+0+1+33+0,H=2",
            "lengths=0+17+0+1+33+0,H=2,causal",
            "lengths=4x16,H=4,H_kv=2,causal,bthd",
            "lengths=9x1+257,H=2,causal",
            "lengths=129+64+65,H=2,bfloat16",
            "lengths=33+65,H=2,causal,packed",
            "lengths=5x1,lengths_kv=9+1+65+4+128,H=4,H_kv=1,causal",
            "lengths=17+5+33,lengths_kv=33+9+64,H=2",
            "lengths=17+5+33,lengths_kv=33+9+64,H=2,causal",
            "lengths=17+5+4,lengths_kv=9+0+8,H=2,causal",
            "lengths=65+33+2,H=2,causal,window=17",
        )
    ]
