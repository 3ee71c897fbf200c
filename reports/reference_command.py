"""`python -m reports reference RUN`: published, measured, their ratio, and how they differ."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import Any

from reports.command_line import (
    BROKEN,
    INCOMPARABLE,
    CommandMistake,
    command_parser,
    complaining,
    open_run,
)
from reports.reference import WITHIN, AcrossDevices, Reference, device_of, of_source, references

_CODES = (
    "0 told, 2 no such run or wrong usage, 4 nothing published is of this device, "
    "5 unreadable, or nothing of the run could be set beside a published row"
)


@complaining
def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the table on stdout → the exit code."""
    parser = command_parser(
        "reference",
        "What was published for this very device beside what the run measured.",
        "latest",
        "20261129T193000Z --json",
        codes=_CODES,
    )
    parser.add_argument("run", metavar="RUN", help='"latest", a name or its beginning, or a path')
    options = parser.parse_args(arguments)
    run = open_run(options.run, options.store)
    try:
        found = references(run)
    except AcrossDevices as error:
        raise CommandMistake(str(error), INCOMPARABLE) from None
    compared = [one for one in found if one.times is not None]
    if options.json:
        print(json.dumps([_record(one) for one in found], indent=1, ensure_ascii=False))
    else:
        print("\n".join(table(found, device_of(run))))
    return 0 if compared else BROKEN


def table(found: Sequence[Reference], device: str) -> list[str]:
    """The lines of the table; what all rows share in method is told once, below it."""
    if not found:
        return [f"{device}: the run has no problem of which something was published"]
    shared = set.intersection(*(set(one.differences) for one in found))
    rows = [("published", "problem", "TFLOP/s", "here", "TFLOP/s", "×", f"±{WITHIN:.0%}", "but")]
    rows += [_row(one, shared) for one in found]
    widths = [max(len(row[i]) for row in rows) for i in range(7)]
    is_left = (True, True, False, True, False, False, True)
    lines = [f"Published and measured on {device}, FLOP counted as published", ""]
    for row in rows:
        cells = [
            text.ljust(width) if left else text.rjust(width)
            for text, width, left in zip(row[:7], widths, is_left, strict=True)
        ]
        lines.append("  ".join([*cells, row[7]]).rstrip())
    compared = [one for one in found if one.times is not None]
    within = sum(bool(one.is_within) for one in compared)
    lines += ["", f"{within} of {len(compared)} compared rows agree to ±{WITHIN:.0%}."]
    lines += [f"All rows: {'; '.join(sorted(shared))}."] if shared else []
    for source in of_source(found):
        lines += textwrap.wrap(f"Source: {source}.", 100, subsequent_indent="  ")
    return lines


def _row(one: Reference, shared: set[str]) -> tuple[str, ...]:
    row, cell = one.published, one.cell
    measured = one.times and one.times * row.flop_per_s
    words = {True: "yes", False: "no", None: "–"}
    return (
        row.implementation,
        f"{row.problem.id}, {row.pass_.replace('_', ' + ')}",
        f"{row.flop_per_s / 1e12:.0f}",
        cell.implementation if cell else "–",
        f"{measured / 1e12:.0f}" if measured else "–",
        f"{one.times:.2f}" if one.times else "–",
        words[one.is_within],
        "; ".join(word for word in one.differences if word not in shared),
    )


def _record(one: Reference) -> dict[str, Any]:
    row, cell = one.published, one.cell
    return {
        "published": row.implementation,
        "device": row.gpu,
        "problem": row.problem.id,
        "pass": row.pass_,
        "published_flop_per_s": row.flop_per_s,
        "published_time_s": row.time_s,
        "flop_convention": row.convention,
        "source": row.source,
        "read_from": row.read_from,
        "implementation": cell.implementation if cell else None,
        "cell": cell.cell if cell else None,
        "time_s": cell.time_s if cell else None,
        "flop_per_s": one.times * row.flop_per_s if one.times else None,
        "times_published": one.times,
        "is_within": one.is_within,
        "differences": list(one.differences),
    }
