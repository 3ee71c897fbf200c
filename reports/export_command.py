"""`python -m reports export FORMAT RUN`: a run for a paper, a badge, a notebook or a slide."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from reports.badge import badge
from reports.command_line import BROKEN, CommandMistake, command_parser, complaining, open_run
from reports.explain_command import has_words
from reports.latex import latex_table
from reports.points_file import points_csv
from results.run import Run
from results.schema import Cell

_CODES = "0 written, 2 no such run or wrong usage, 5 unreadable, or no cell of the run is meant"
# What is no float of seconds, bytes or shares; the same types in every run, so that files join.
_TEXT = frozenset(
    (
        *("suite", "series", "implementation", "problem", "dtype", "layout", "pass", "cache"),
        *("clock", "binds", "repeats", "stop", "flags", "cell"),
    )
)
_WHOLE = frozenset(
    (
        *("B", "T_q", "T_kv", "H", "H_kv", "d_h", "d_v", "window", "n", "launches", "flop"),
        "algorithmic_bytes",
    )
)


@complaining
def main(arguments: Sequence[str] | None = None) -> int:
    """Write one file, or to stdout → the exit code."""
    parser = command_parser(
        "export",
        "A run in another format: latex (a booktabs table), badge (one line of JSON), csv or "
        "parquet (every plotted point), pdf (a file for each figure). The same run gives the same "
        "bytes.",
        "latex latest --cells 'T=1024 full' --out table.tex",
        "pdf 20261129T193000Z --out figures/",
        codes=_CODES,
        json_help="",
    )
    parser.add_argument(
        "format", choices=tuple(_FORMATS), metavar="FORMAT", help=", ".join(_FORMATS)
    )
    parser.add_argument("run", metavar="RUN", help='"latest", a name or its beginning, or a path')
    parser.add_argument(
        "--cells",
        default="",
        metavar="WORDS",
        help="only those that have all of these words (latex)",
    )
    parser.add_argument(
        "--out", metavar="PATH", help="a file, or for pdf a folder (default: stdout)"
    )
    options = parser.parse_args(arguments)
    if options.cells and options.format != "latex":
        raise CommandMistake(f"--cells is of latex: {options.format} has all of a run")
    if options.format == "parquet" and options.out is None and sys.stdout.isatty():
        raise CommandMistake(
            "parquet is no text for a terminal: --out points.parquet, or send it on with > or |"
        )
    run = open_run(options.run, options.store)
    content = _FORMATS[options.format](run, options.cells)
    for name, data in content.items():
        _write(name, data, options.out, is_folder=options.format == "pdf")
    return 0


def chosen(run: Run, words: str) -> list[Cell]:
    """The timed cells that have all of the words.

    Raises:
        CommandMistake: there is none.
    """
    found = [c for c in run.cells if c.timing and has_words(c, words.replace(",", " ").split())]
    if not found:
        raise CommandMistake(f'no timed cell of {run.name} has "{words}"', BROKEN)
    return found


def figures_pdf(run: Run) -> dict[str, bytes]:
    """Each figure of the run as a PDF, by file name."""
    from reports.figures import figure_modules, render_pdf

    drawn = {f"{m.__name__.rpartition('.')[2]}.pdf": render_pdf(m, run) for m in figure_modules()}
    return {name: data for name, data in drawn.items() if data is not None}


def points_parquet(run: Run) -> bytes:
    """Every plotted point as Parquet; numbers are numbers, null where nothing is known.

    Raises:
        CommandMistake: pyarrow is not installed; it is no part of what others need.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CommandMistake("parquet needs pyarrow: pip install 'pyarrow>=15'") from None
    reader = csv.DictReader(io.StringIO(points_csv(run)))
    names, lines = reader.fieldnames or (), list(reader)
    text, whole, truth = pyarrow.string(), pyarrow.int64(), pyarrow.bool_()
    columns = {}
    for name in names:
        kind, read = pyarrow.float64(), float
        if name in _TEXT:
            kind, read = text, str
        elif name in _WHOLE:
            kind, read = whole, int
        elif name == "causal":
            kind, read = truth, "True".__eq__
        values = [read(line[name]) if line[name] else None for line in lines]
        columns[name] = pyarrow.array(values, kind)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue()


_FORMATS: dict[str, Callable[[Run, str], dict[str, bytes]]] = {
    "latex": lambda run, words: {"": latex_table(run, chosen(run, words)).encode()},
    "badge": lambda run, _: {"": badge(run).encode()},
    "csv": lambda run, _: {"": points_csv(run).encode()},
    "parquet": lambda run, _: {"": points_parquet(run)},
    "pdf": lambda run, _: figures_pdf(run),
}


def _write(name: str, data: bytes, out: str | None, *, is_folder: bool) -> None:
    if out is None and is_folder:
        raise CommandMistake("pdf writes a file for each figure: say where with --out FOLDER")
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    file = Path(out) / name if is_folder else Path(out)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    print(file)
