"""The journal of a run as it is read: a cell from each line, and what is said of the rest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from results.impossible import flagged
from results.reading import Place, SchemaError, parse_strict
from results.schema import Cell, check_version, read_cell
from results.static_profile import StaticProfile, is_static, read_static

# Of a whole journal that cannot be read, the first lines tell why.
_NOTED = 3
# What stands for bytes that are no UTF-8; suites write journals in ASCII.
_NO_TEXT = "\ufffd"


@dataclass(frozen=True)
class Journal:
    """What the lines of a journal say, and notes on those that say nothing."""

    cells: tuple[Cell, ...] = ()
    profiles: tuple[StaticProfile, ...] = ()
    notes: tuple[str, ...] = ()


def read_journal(file: Path) -> Journal:
    """Cells and static profiles, and notes; of several lines of one the last counts.

    The last takes the first one's place. One line that is cut short or does not say what the
    schema says must not hide the others: it is left out, and the note says which and why.

    Raises:
        SchemaError: it is a folder.
    """
    if file.is_dir():
        raise SchemaError(f"{file} is a folder: it should be the journal of the run's cells")
    if not file.is_file():
        return Journal(notes=("there is no cells.jsonl: nothing was measured",))
    latest: dict[tuple[str, int, str, str], Cell] = {}
    profiles: dict[str, StaticProfile] = {}
    notes: list[str] = []
    # A multi-byte character cut in half must not hide the lines before it.
    text = file.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if _NO_TEXT in line:
            notes.append(f"line {number} of {file.name} is not all UTF-8: {_NO_TEXT} stands for it")
        place = Place(file.name, number)
        try:
            value = parse_strict(line, place)
            if is_static(value):
                check_version(value, place)
                profile = read_static(value, place)
                profiles[profile.cell] = profile
            else:
                cell = flagged(read_cell(value, place))
                latest[cell.key] = cell
        except json.JSONDecodeError:
            notes.append(f"line {number} of {file.name} is cut short and left out")
        except SchemaError as error:
            notes.append(f"left out: {error}")
    rest = len(notes) - _NOTED
    if rest > 0:
        lines = "line" if rest == 1 else "lines"
        notes[_NOTED:] = [f"{rest} more {lines} of {file.name} cannot be read and are left out"]
    return Journal(tuple(latest.values()), tuple(profiles.values()), tuple(notes))
