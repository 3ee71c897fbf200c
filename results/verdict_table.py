"""Verdicts for a terminal of 80 columns: the worst first, every count told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from results.units import digits, time_unit
from results.verdict import VERDICTS, Comparison, Verdict
from results.verdict_text import (
    UNKNOWN,
    change_text,
    interval_text,
    launches_text,
    p_text,
    seen_text,
    suite_text,
)

# So many cells of one reason are named where --all was not typed.
NAMED = 3
_MEANING = (
    "change: head against base, + is slower; 95 %: its interval; n: launches a side;\n"
    "sees: the smallest slowdown that nine in ten such plans find."
)


def print_comparison(comparison: Comparison, console: Console, *, show_all: bool = False) -> None:
    """What differs between the runs, then each verdict: its times, and each reason once.

    `show_all`: also the unchanged cells, and every cell that a reason holds for.
    """
    sides = (
        (comparison.base, comparison.base_launches),
        (comparison.head, comparison.head_launches),
    )
    for word, (name, n) in zip(("base", "head"), sides, strict=True):
        console.print(Text(f"{word}: {name} ({n} launch{'es' * (n != 1)})"))
    for reason in comparison.reasons:
        if reason.severity != "ignored":
            console.print(Text(f"{reason.severity}: {reason.text}"))
    for note in comparison.notes:
        console.print(Text(f"note: {note}"))
    if text := suite_text(comparison):
        console.print(Text(text))
    shown = [v for v in comparison.verdicts if show_all or v.verdict != "unchanged"]
    common = _common([one.name for one in shown])
    if common:
        console.print(Text(f"all: {', '.join(common)}"))
    seconds, unit = time_unit(one.base_s for one in shown)
    for verdict in VERDICTS:
        of_verdict = [one for one in shown if one.verdict == verdict]
        if of_verdict:
            console.print()
            console.print(Text(f"{len(of_verdict)} {verdict}"))
            if any(one.ratio is not None for one in of_verdict):
                _print_table(of_verdict, common, (seconds, unit), console)
            for line in reason_lines(of_verdict, common, show_all=show_all):
                console.print(Text(line))
    if any(one.ratio is not None for one in shown):
        console.print(Text(_MEANING))


def _print_table(
    verdicts: Sequence[Verdict], common: list[str], unit: tuple[float, str], console: Console
) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("cell", overflow="fold")
    for header in (f"base {unit[1]}", "change", "95 %", "p", "n", "sees"):
        table.add_column(header, justify="right", no_wrap=header != "n")
    for one in verdicts:
        base = UNKNOWN if one.base_s is None else digits(one.base_s / unit[0])
        row = [short_name(one.name, common), base, change_text(one.ratio), interval_text(one)]
        table.add_row(*map(Text, (*row, p_text(one.p), launches_text(one), seen_text(one))))
    console.print(table)


def reason_lines(
    verdicts: Sequence[Verdict], common: Sequence[str] = (), *, show_all: bool = False
) -> list[str]:
    """Each reason once with the cells it holds for, the first few by name; all on request."""
    cells: dict[str, list[str]] = defaultdict(list)
    for one in verdicts:
        why = [*one.reasons, *([f"waived: {one.waiver}"] if one.waiver else [])]
        for line in why or [""] * (one.ratio is None):
            cells[line].append(short_name(one.name, common))
    lines = []
    for why, names in cells.items():
        if len(names) == 1:
            lines.append(f"  {names[0]}: {why}" if why else f"  {names[0]}")
        elif show_all:
            lines += [f"  {len(names)}: {why}", *(f"    {name}" for name in names)]
        else:
            left = len(names) - NAMED
            more = f"; {left} more, --all names each" if left > 0 else ""
            lines.append(f"  {len(names)}: {why} ({'; '.join(names[:NAMED])}{more})")
    return lines


def _common(names: Sequence[str]) -> list[str]:
    """The parts of the names that all share, in their order."""
    split = [_parts(name) for name in names]
    if len(split) < 2:
        return []
    return [part for part in split[0][1:] if all(part in parts for parts in split)]


def short_name(name: str, common: Sequence[str]) -> str:
    """What is left of a cell's name without what all share."""
    return " ".join(part for part in _parts(name) if part not in common)


def _parts(name: str) -> list[str]:
    return name.replace(",", " ").split()
