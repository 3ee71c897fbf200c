"""One sentence that a run bears out, and the cells it stands on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from results.schema import Cell


@dataclass(frozen=True)
class Finding:
    """One sentence and the cells it stands on, by `Cell.key`.

    `about` is the quantity that it tells of, where figures show several of the same cells: "time",
    "ratio", "bound" or "memory"; "" where there is no choice.
    """

    sentence: str
    cells: tuple[tuple[str, int, str, str], ...] = ()
    about: str = ""


def finding(sentence: str, cells: Iterable[Cell], about: str = "") -> Finding:
    """The sentence with its cells, each named once."""
    return Finding(sentence, tuple(dict.fromkeys(cell.key for cell in cells)), about)
