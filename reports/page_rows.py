"""The rows of a page's table: their texts, and by what they are filtered, sorted and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from results.phrases import DTYPE_NAMES
from results.ratios import kind
from results.schema import Cell

_Item = TypeVar("_Item")
Fields = Mapping[str, Callable[[_Item], Any]]

CELL_FIELDS: Fields[Cell] = {
    "implementation": lambda c: c.implementation,
    "sweep": lambda c: c.suite,
    # Of a decode step the cache's length: T_q is 1 there.
    "T": lambda c: c.problem.T_kv,
    "H": lambda c: c.problem.H,
    "H_kv": lambda c: c.problem.H_kv,
    "d_h": lambda c: c.problem.d_h,
    "dtype": lambda c: DTYPE_NAMES.get(c.problem.dtype, c.problem.dtype),
    "mask": lambda c: "causal" if c.problem.causal else "full",
    "pass": lambda c: c.pass_.replace("_", " + "),
    "status": lambda c: c.status,
}


@dataclass(frozen=True)
class Choice:
    """A field to filter by and the values that the rows have of it, numbers by size."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One row of the page's table.

    Attributes:
        texts: what its columns show.
        places: of each field the place of its value among the field's values.
        look: "bad", "away", "flagged" or nothing.
        kind: a number that rows share that may be set against each other, and the time they are
            set against each other by; None for rows that enter no ratio.
    """

    texts: tuple[str, ...]
    places: str
    look: str = ""
    kind: int | None = None
    time_s: float | None = None


def choices(items: Sequence[_Item], fields: Fields[_Item]) -> list[Choice]:
    """Every field with the values that occur."""
    return [
        Choice(name, tuple("–" if v is None else str(v) for v in _values(items, read)))
        for name, read in fields.items()
    ]


def places(items: Sequence[_Item], fields: Fields[_Item]) -> list[str]:
    """For each item the places of its fields' values in `choices`, as the page's script reads."""
    found = {
        name: {value: i for i, value in enumerate(_values(items, read))}
        for name, read in fields.items()
    }
    return [
        " ".join(str(found[name][read(item)]) for name, read in fields.items()) for item in items
    ]


def cell_rows(shown: Iterable[tuple[Cell, list[str]]]) -> list[Row]:
    """The rows of cells whose texts are known."""
    shown = list(shown)
    kinds: dict[tuple, int] = {}
    found: list[Row] = []
    for (cell, texts), where in zip(shown, places([c for c, _ in shown], CELL_FIELDS), strict=True):
        number = kinds.setdefault(kind(cell), len(kinds)) if cell.is_comparable else None
        time_s = None if number is None else cell.time_s
        found.append(Row(tuple(texts), where, _look(cell), number, time_s))
    return found


def _look(cell: Cell) -> str:
    if cell.status in ("wrong", "crashed", "error"):
        return "bad"
    if cell.status != "ok":
        return "away"
    return "flagged" if cell.flags else ""


def _values(items: Sequence[_Item], read: Callable[[_Item], Any]) -> list[Any]:
    """The values that occur, in order; what is not known comes last."""
    return sorted({read(item) for item in items}, key=lambda value: (value is None, value))
