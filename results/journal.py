"""The journal of a run as it is read: a cell from each line, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path

from results.impossible import flagged
from results.reading import Place, SchemaError, parse_strict
from results.schema import Cell, read_cell

# Of a whole journal that cannot be read, the first lines tell why.
_NOTED = 3


def read_journal(file: Path) -> tuple[list[Cell], list[str]]:
    """The cells of a journal, the last line of each winning its first one's place, and notes.

    One line that is cut short or does not say what the schema says must not hide the others: it is
    left out, and the note says which and why.
    """
    if not file.is_file():
        return [], ["there is no cells.jsonl: nothing was measured"]
    latest: dict[tuple[str, int, str, str], Cell] = {}
    notes: list[str] = []
    # A multi-byte character cut in half must not hide the lines before it.
    text = file.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = Place(file.name, number)
        try:
            cell = flagged(read_cell(parse_strict(line, place), place))
        except json.JSONDecodeError:
            notes.append(f"line {number} of {file.name} is cut short and left out")
        except SchemaError as error:
            notes.append(f"left out: {error}")
        else:
            latest[cell.key] = cell
    rest = len(notes) - _NOTED
    if rest > 0:
        lines = "line" if rest == 1 else "lines"
        notes[_NOTED:] = [f"{rest} more {lines} of {file.name} cannot be read and are left out"]
    return list(latest.values()), notes
