"""Which figures of a static profile are gated, which way each is worse, and how two differ."""

from __future__ import annotations

from dataclasses import dataclass

from results.static_baseline import Accepted
from results.static_profile import INSTRUCTION_KINDS

# A bound is arithmetic on counts and on published rates: below this it is rounding.
BOUND_POINTS = 0.5


@dataclass(frozen=True)
class Figure:
    """One gated figure.

    Attributes:
        label: in words.
        unit: behind the number, with its space.
        worse: "more" or "less"; "any" change is worse where neither is better by itself.
        holds_for_other_blocks: it can be judged between two blocks: no size of the block is in it.
    """

    label: str
    unit: str = ""
    worse: str = "more"
    holds_for_other_blocks: bool = False


def _spills(label: str, unit: str = "") -> Figure:
    return Figure(label, unit, holds_for_other_blocks=True)


# In the order in which they are told.
_FIGURES = {
    "loop_spill_stores": _spills("spill stores in the hot loop"),
    "loop_spill_loads": _spills("spill loads in the hot loop"),
    "overlap_percent": Figure("bound", " %", "less", holds_for_other_blocks=True),
    "registers": Figure("registers"),
    "spill_stores": _spills("spill stores"),
    "spill_loads": _spills("spill loads"),
    "spill_store_bytes": _spills("spills stored", " bytes"),
    "spill_load_bytes": _spills("spills loaded", " bytes"),
    "stack_bytes": Figure("stack", " bytes"),
    "dynamic_shared_bytes": Figure("shared memory", " bytes"),
    "static_shared_bytes": Figure("static shared memory", " bytes"),
    "tensor_memory_columns": Figure("tensor memory", " columns"),
    "scratch_bytes": Figure("scratch", " bytes"),
    "warps": Figure("warps", worse="any"),
}
_MIX = {kind: Figure(f"{kind} in the hot loop") for kind in INSTRUCTION_KINDS if kind != "spill"}
# Fewer products a pass is another loop, not a better one.
_MIX["mma"] = Figure("mma in the hot loop", worse="any")


@dataclass(frozen=True)
class Difference:
    """One figure that is not the same; `name` is its field, "mix.alu" for a kind of the mix."""

    name: str
    figure: Figure
    before: float | str | None
    after: float | str | None
    is_worse: bool

    @property
    def text(self) -> str:
        """In words, "registers 224 → 255" for instance."""
        return f"{self.figure.label} {shown(self.before)} → {shown(self.after)}{self.figure.unit}"

    @property
    def growth(self) -> float:
        """After − before; 0 where one of them is no number."""
        if isinstance(self.before, str) or isinstance(self.after, str):
            return 0.0
        return (self.after or 0.0) - (self.before or 0.0)


def differences(before: Accepted, after: Accepted) -> tuple[Difference, ...]:
    """Every gated figure that differs, in the order in which they are told.

    The bound differs where it moved by more than half a point, or came or went; the pipe that
    limits is told with it.
    """
    pairs = [(name, f, getattr(before, name), getattr(after, name)) for name, f in _FIGURES.items()]
    pairs += [
        (f"mix.{kind}", figure, before.mix.get(kind, 0), after.mix.get(kind, 0))
        for kind, figure in _MIX.items()
    ]
    found = [
        Difference(name, figure, a, b, _is_worse(figure, a, b))
        for name, figure, a, b in pairs
        if (_moved(a, b) if name == "overlap_percent" else a != b)
    ]
    if before.other_loops != after.other_loops:
        found.append(_other_loops(before.other_loops, after.other_loops))
    if before.limited_by != after.limited_by and "overlap_percent" in {d.name for d in found}:
        limits = (before.limited_by, after.limited_by)
        found.append(Difference("limited_by", Figure("limited by"), *limits, is_worse=False))
    return tuple(found)


def _moved(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    # Percents are kept with one decimal; their difference is not exact in binary.
    return round(abs(after - before), 6) > BOUND_POINTS


def _is_worse(figure: Figure, before: float | None, after: float | None) -> bool:
    if figure.worse == "any" or after is None:
        return True
    if before is None:
        return False
    return after > before if figure.worse == "more" else after < before


def _other_loops(before: tuple[int, ...], after: tuple[int, ...]) -> Difference:
    """Loop by loop in the code's order; another number of loops is another kernel."""
    is_worse = len(before) != len(after) or any(b > a for a, b in zip(before, after, strict=True))
    then, now = (" + ".join(map(str, loops)) or "none" for loops in (before, after))
    return Difference("other_loops", Figure("instructions of other loops"), then, now, is_worse)


def shown(value: float | str | None) -> str:
    """A figure as it is printed; "none" for null."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:.10g}"
