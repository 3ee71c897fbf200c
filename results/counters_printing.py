"""What was counted of each cell as a table: exact figures, beside no time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from results.schema import Cell
from results.side import counters_of

# As narrow as ten columns in eighty letters must be; `MEANING` says the rest.
_HEADERS = {
    "operators": "operators",
    "kernels": "kernels",
    "flop": "flop",
    "torch_flop": "torch's",
    "allocations": "allocs",
    "allocated_bytes": "bytes",
    "peak_bytes": "peak B",
    "graph_breaks": "breaks",
    "recompiles": "recompiles",
}
MEANING = (
    "Counted of one call, outside the clock; - is not known. flop: of the visible\n"
    "pairs; torch's: of the products really made, by its own formulas. allocs, bytes:\n"
    "of memory that the call asked for."
)


def print_counters(cells: Sequence[Cell], problems: Sequence[str], console: Console) -> None:
    """A row for each cell; a column for each figure that any of them has."""
    counted = [counters_of(cell) for cell in cells]
    shown = [name for name in _HEADERS if any(one.get(name) for one in counted)]
    table = Table(box=None, pad_edge=False)
    table.add_column("implementation", no_wrap=True)
    table.add_column("problem", overflow="fold")
    for name in shown:
        table.add_column(_HEADERS[name], justify="right", overflow="fold")
    for cell, problem, figures in zip(cells, problems, counted, strict=True):
        values = [str(figures.get(name, "-")) for name in shown]
        table.add_row(*map(Text, (cell.implementation, problem, *values)))
    console.print(table)
