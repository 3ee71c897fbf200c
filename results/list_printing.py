"""The list of runs as text: a store may have ten thousand, which a table library takes long for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from results.summary import RunSummary

_HEADS = ("run, when and commit", "machine", "cells", "state")
_GAP = "  "
_LEAST = 12


def list_text(summaries: Sequence[RunSummary], width: int) -> Iterator[str]:
    """Some lines a run: name, when and commit; device and machine; counts by status; its end.

    The lines are as wide as a terminal of `width`, but for names, which are never broken.
    """
    rows = [_columns(summary) for summary in summaries]
    natural = [
        max(len(line) for row in (_HEADS, *rows) for line in row[n].split("\n")) for n in range(4)
    ]
    name, machine, cells, state = natural
    room = width - name - state - 3 * len(_GAP)
    machine = min(machine, max(_LEAST, room // 2))
    cells = min(cells, max(_LEAST, room - machine))
    for row in (_HEADS, *rows):
        columns = [
            [line for part in text.split("\n") for line in _folded(part, least)]
            for text, least in zip(row, (name, machine, cells, state), strict=True)
        ]
        for lines in itertools.zip_longest(*columns, fillvalue=""):
            padded = (f"{t:{w}}" for t, w in zip(lines, (name, machine, cells, state), strict=True))
            yield _GAP.join(padded).rstrip()


def counts_text(counts: dict[str, int]) -> str:
    """How many of each status, in words."""
    return ", ".join(f"{n} {status}" for status, n in counts.items()) or "no cells"


def _columns(summary: RunSummary) -> tuple[str, str, str, str]:
    header = summary.header
    if header is None:
        return summary.name, summary.machine_key, summary.error or "", summary.state
    when = header.created_utc.replace("T", " ").removesuffix("Z")
    commit = f"{(header.commit or 'no commit')[:9]}{' (dirty)' if header.dirty else ''}"
    run = f"{summary.name}\n{when}\n{commit}"
    machine = f"{header.device}\n{summary.machine_key}"
    return run, machine, counts_text(summary.counts or {}), summary.state


def _folded(line: str, width: int) -> Iterator[str]:
    """The line in pieces of a width, at spaces where there are some."""
    while len(line) > width:
        cut = line.rfind(" ", 0, width + 1)
        end = cut if cut > 0 else width
        yield line[:end]
        line = line[end:].lstrip(" ")
    yield line
