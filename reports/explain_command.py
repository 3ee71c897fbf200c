"""`python -m reports explain RUN CELL`: one cell told in full."""

from __future__ import annotations

import json
from collections.abc import Sequence

from reports.command_line import (
    BROKEN,
    WRONG,
    CommandMistake,
    command_parser,
    complaining,
    open_run,
)
from reports.explain import explained
from results.run import Run
from results.schema import Cell

_SHOWN = 12
_CODES = "0 told, 1 its result was wrong, 2 no such cell or several, 5 unreadable or no time"


@complaining
def main(arguments: Sequence[str] | None = None) -> int:
    """Tell one cell on stdout → the exit code."""
    parser = command_parser(
        "explain",
        "One cell told in full: problem, counts, bound, samples, error, and how to repeat it.",
        "latest 'naive T=1024'",
        "latest 'sdpa_flash causal backward' --launch 2",
        codes=_CODES,
    )
    parser.add_argument("run", metavar="RUN", help='"latest", a name or its beginning, or a path')
    parser.add_argument(
        "cell",
        nargs="+",
        metavar="CELL",
        help="its identity or the beginning of it, or words that only it has: names of "
        "implementation and sweep, sizes, full or causal, dtype, pass",
    )
    parser.add_argument(
        "--launch", type=int, metavar="N", help="of several launches (default: first)"
    )
    options = parser.parse_args(arguments)
    run = open_run(options.run, options.store)
    cell = find_cell(run, " ".join(options.cell), options.launch)
    lines = explained(run, cell)
    if options.json:
        subjects: dict[str, list[str]] = {}
        for subject, words in lines:
            subjects.setdefault(subject or next(reversed(subjects)), []).append(words)
        print(
            json.dumps(
                {"run": run.name, "cell": cell.cell} | subjects, indent=1, ensure_ascii=False
            )
        )
    else:
        for subject, words in lines:
            print(f"{subject:<9} {words}".rstrip())
    if cell.status == "wrong":
        return WRONG
    return 0 if cell.timing else BROKEN


def find_cell(run: Run, text: str, launch: int | None = None) -> Cell:
    """The cell that the words are of.

    Raises:
        CommandMistake: none has all of them, or several cells have.
    """
    words = text.replace(",", " ").split()
    found: dict[str, Cell] = {}
    for cell in run.cells:
        if launch in (None, cell.launch) and has_words(cell, words):
            found.setdefault(cell.cell, cell)
    if not found:
        raise CommandMistake(
            f'no cell of {run.name} has "{text}": python -m results show {run.name} --all has all'
        )
    timed = {name: cell for name, cell in found.items() if cell.timing} or found
    # A problem that is written out is meant as it stands: full, where it does not say causal.
    exact = {name: cell for name, cell in timed.items() if cell.problem.id in text.split()}
    timed = exact or timed
    if len(timed) > 1:
        lines = [f"  {name}  {_name(cell)}" for name, cell in list(timed.items())[:_SHOWN]]
        lines += [f"  and {len(timed) - _SHOWN} more"] if len(timed) > _SHOWN else []
        told = "\n".join(lines)
        raise CommandMistake(f'{len(timed)} cells have "{text}": add a word, or take an id\n{told}')
    return next(iter(timed.values()))


def has_words(cell: Cell, words: Sequence[str]) -> bool:
    """Whether the cell has all of the words: in its name, its sweep, or the start of its id."""
    own = {*_name(cell).replace(",", " ").split(), cell.suite, cell.status}
    own |= set() if cell.problem.causal else {"full"}
    return all(word in own or (len(word) >= 6 and cell.cell.startswith(word)) for word in words)


def _name(cell: Cell) -> str:
    return f"{cell.implementation} {cell.problem.id} {cell.pass_} {cell.cache} {cell.clock}"
