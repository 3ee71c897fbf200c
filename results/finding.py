"""One sentence that a run bears out, and the cells it stands on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from results.schema import Cell


@dataclass(frozen=True)
class Finding:
    """One sentence and the cells it stands on, by `Cell.key`."""

    sentence: str
    cells: tuple[tuple[str, int, str, str], ...] = ()


def finding(sentence: str, cells: Iterable[Cell]) -> Finding:
    """The sentence with its cells, each named once."""
    return Finding(sentence, tuple(dict.fromkeys(cell.key for cell in cells)))
