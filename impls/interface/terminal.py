"""How `python -m impls` writes on a terminal: tables and words within 80 columns, numbers."""

from __future__ import annotations

import math
import sys
import textwrap

from rich.console import Console
from rich.table import Table

UNKNOWN = "–"
_GIB = 2**30
_PREFIXES = (
    (1e24, "Y"),
    (1e21, "Z"),
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
)


def console() -> Console:
    """A console for stdout: as wide as a terminal, 80 columns in a log whatever the moment."""
    return Console(width=None if sys.stdout.isatty() else 80, highlight=False, soft_wrap=False)


def plain_table(*columns: str, left: int = 1, padding: int = 2) -> Table:
    """A table without lines: `left` columns of words, then right-aligned numbers."""
    table = Table(box=None, padding=(0, padding, 0, 0), header_style="bold")
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i >= left else "left", no_wrap=True)
    return table


def show(table: Table) -> None:
    """Print a table without the blanks that fill its last column."""
    screen = console()
    with screen.capture() as captured:
        screen.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def say(text: str, indent: str, first: str | None = None) -> None:
    """Words within 80 columns; long ones, a URL or a path, are not broken."""
    start = indent if first is None else first
    if text:
        print(
            textwrap.fill(
                text,
                80,
                initial_indent=start,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def digits(value: float, n: int = 3) -> str:
    """The number with `n` digits and no exponent.

    >>> digits(1342.17728), digits(29.45), digits(0.0063), digits(123456)
    ('1,342', '29.4', '0.0063', '123,456')
    """
    if value == 0:
        return "0"
    before = math.floor(math.log10(abs(value))) + 1
    text = f"{value:,.{max(0, n - before)}f}"
    return text.rstrip("0").rstrip(".") if before < 0 and "." in text else text


def counted(flop: float) -> str:
    """Whole counts below 10⁹ as they are, others with four digits and a prefix."""
    if flop == int(flop) and flop < 1e9:
        return f"{int(flop):,}"
    for factor, prefix in _PREFIXES:
        if flop >= factor:
            return f"{digits(flop / factor, 4)} {prefix}"
    return digits(flop, 4)


def gigabytes(n_bytes: float) -> str:
    """Bytes in GB, 10⁹."""
    return f"{_of_thousand(n_bytes / 1e9)} GB"


def gibibytes(n_bytes: float) -> str:
    """Bytes in GiB, 2³⁰."""
    return f"{_of_thousand(n_bytes / _GIB)} GiB"


def _of_thousand(value: float) -> str:
    """Three decimals where they say enough, three digits below, none above ten thousand."""
    if value >= 1e4:
        return f"{value:,.0f}"
    return f"{value:,.3f}" if value >= 0.1 or value == 0 else digits(value)
