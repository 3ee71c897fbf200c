"""How things look: colours, markers and line styles, and numbers scaled for people to read."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# Okabe and Ito 2008, "Color Universal Design", without the yellow, which white paper swallows.
# The second colour is the same hue dark enough for small letters (contrast 4.5 or more).
_COLOURS = (
    ("#0072B2", "#0072B2"),
    ("#D55E00", "#B85000"),
    ("#009E73", "#00795A"),
    ("#CC79A7", "#A84B80"),
    ("#E69F00", "#946500"),
    ("#56B4E9", "#1F78AD"),
    ("#333333", "#333333"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (5, 1, 1, 1)))
# Where these are drawn they look the same in every run; any other name finds its own place. The
# first seven differ in colour, those after them in dashes and markers as well.
_OWN_LOOKS = (
    *("sdpa_flash", "naive", "triton_flash", "flex", "chunked", "compiled_naive", "sdpa_math"),
    *("sdpa_cudnn", "sdpa_efficient", "triton_flash_hopper", "xformers_flash", "xformers_cutlass"),
    *("openvino_sdpa", "onnxruntime", "xformers_splitk"),
)
# Grouped decoding is for a CPU, where no Triton kernel is timed; the first of two keeps the slot.
_SLOTS = {name: slot for slot, name in enumerate(_OWN_LOOKS)} | {"grouped_decode": 2}
_RANKS = {name: rank for rank, name in enumerate(_SLOTS)}

GREY = "#5A5A5A"
PALE = "#9A9A9A"
REST = "#C9C9C9"
EXP = "#A1236F"
SHADE = "#F3F3F3"
GRID = "#E4E4E4"

CLOCK_NAMES = {"cpu_time": "CPU time", "wall": "wall clock", "cuda_event": "CUDA events"}
LEVEL_NAMES = {"l2": "L2", "llc": "LLC", "dram": "DRAM", "hbm": "HBM"}

# Everything a figure is drawn with, so that no user's matplotlibrc changes a report.
RULES: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.linewidth": 0.9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "text.parse_math": False,
    # Letters fitted to pixels are up to a tenth wider at another dpi than where they were placed.
    "text.hinting": "none",
    "svg.fonttype": "none",
    # TrueType, which journals ask for: Type 3, the default, is refused by some.
    "pdf.fonttype": 42,
    "svg.hashsalt": "attnbench",
    "path.simplify": False,
}


@dataclass(frozen=True)
class Look:
    """How one series is drawn; `ink` is the colour of its letters."""

    colour: str
    ink: str
    marker: str
    dash: Any


def shortened(name: str, longest: int) -> str:
    """The name, or its start and its end: names of one family differ there.

    >>> shortened("flash_attn_2_deterministic", 14)
    'flash_…inistic'
    """
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - 1 - end]}…{name[-end:]}"


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name, all different, and the same in every figure of a run.

    A name prefers one slot, its own or by its hash, and moves on only when another has taken it.
    """
    taken: set[int] = set()
    found: dict[str, Look] = {}
    for name in sorted(set(names), key=lambda n: (_RANKS.get(n, len(_RANKS)), n)):
        slot = next(slot for slot in _preferred(name) if slot not in taken)
        taken.add(slot)
        found[name] = _look(slot)
    return found


def _preferred(name: str) -> Iterator[int]:
    """The slots in the order in which a name wants them, its own colour first.

    Colours alone tell seven apart: dashes begin only when those are used up.
    """
    size, start = len(_COLOURS), zlib.crc32(name.encode())
    if name in _SLOTS:
        yield _SLOTS[name]
    for dash in itertools.count():
        yield from (dash * size + (start + i) % size for i in range(size))


def _look(slot: int) -> Look:
    colour, ink = _COLOURS[slot % len(_COLOURS)]
    dash = _DASHES[slot // len(_COLOURS) % len(_DASHES)]
    return Look(colour, ink, MARKERS[slot % len(MARKERS)], dash)


def plain(value: float, digits: int = 3) -> str:
    """The number with `digits` significant digits and never an exponent: 0.000012, 38.2, 1504."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{places}f}"
    # 9.996 rounds up to 10.00, one digit more than asked for.
    if places and len(text.replace(".", "").lstrip("-0")) > digits:
        text = f"{value:.{places - 1}f}"
    return text


@dataclass(frozen=True)
class Unit:
    """A unit and how many of the SI base unit it is: ("ms", 1e-3)."""

    name: str
    factor: float

    def show(self, value: float | None, digits: int = 3) -> str:
        """The value without its unit, which the header carries; an en dash for unknown."""
        return "–" if value is None else plain(value / self.factor, digits)


_PREFIXES = (("p", 1e-12), ("n", 1e-9), ("µ", 1e-6), ("m", 1e-3), ("", 1.0))
_LARGE = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))


def unit_for(values: Sequence[float | None], base: str) -> Unit:
    """The one unit in which the middle of `values` reads as 1 to 999."""
    known = sorted(v for v in values if v is not None and v > 0)
    middle = known[len(known) // 2] if known else 1.0
    steps = _PREFIXES if base == "s" else _LARGE
    fitting = [step for step in steps if step[1] <= middle] or [steps[0]]
    prefix, factor = fitting[-1]
    return Unit(prefix + base, factor)


def quantity(value: float, base: str, digits: int = 3) -> str:
    """One value with its unit: "203 GFLOP/s", "38.2 GB/s", "1.50 s"."""
    unit = unit_for([abs(value)], base)
    return f"{unit.show(value, digits)} {unit.name}"


def count_name(size: int) -> str:
    """A size as people say it: 128, 1k, 1.5k, 8k, 128k (k = 1024); others in plain digits."""
    if size >= 1024 and size % 512 == 0:
        return f"{size / 1024:g}k"
    return str(size)


def plural(count: int, word: str) -> str:
    """The count with its word: "1 point", "3 points"."""
    return f"{count} {word}" + ("" if count == 1 else "s")
