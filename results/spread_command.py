"""`python -m results spread`: how much cells vary between unchanged launches, and what is seen."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from results.compare import matrix
from results.own_rates import OwnRates, own_rates
from results.plan import Plan
from results.rules import read_rules
from results.screen import Screen
from results.side import Side
from results.side_names import read_side
from results.spreads import Spread, spreads, write_spreads
from results.units import counted, time_text
from results.verdict import BROKEN
from results.verdict_text import change_text

_MEANING = (
    "spread: standard deviation of log times between launches; floor: the smallest slowdown\n"
    "that is named, from it alone; sees: the smallest that nine in ten plans find."
)


def spread(options: argparse.Namespace, store: Path) -> int:
    """Print each cell's spread between unchanged launches, and keep it on request → exit code.

    Raises:
        RunNotFound, SchemaError, RulesError, SideMistake, OSError: as files raise them.
    """
    side = read_side(options.run, store)
    plan = read_rules().plan
    found = spreads(side, plan)
    rates = _rates(side, found, plan) if found else None
    code = 0 if found else BROKEN
    key = side.headers[0].machine_key
    last = f"{counted(len(found), 'cell')} of {counted(len(side.launches), 'launch', 'launches')}"
    last += "" if found else ": a spread needs two launches or more"
    if found and options.write:
        last += f", kept in {write_spreads(Path(options.baselines), key, found)}"
    if options.json:
        record = {"exit_code": code, "conclusion": last, "machine_key": key}
        record["cells"] = [asdict(one) for one in found]
        record["rates"] = asdict(rates) if rates else None
        print(json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False))
        return code
    if found:
        _print_spreads(found)
        print(_MEANING)
        print(_rates_text(rates))
    print(last)
    return code


def _rates(side: Side, found: list[Spread], plan: Plan) -> OwnRates | None:
    """The gate's rates on the cells that every launch has."""
    named = {one.name: one for one in found}
    keys = [key for key, cell in side.cells.items() if len(cell.times_s) == len(side.launches) > 1]
    floors = np.array([max(1.03, named[side.cells[key].name].floor) for key in keys])
    return own_rates(matrix(side, keys), floors, plan)


def _rates_text(rates: OwnRates | None) -> str:
    if rates is None:
        return "the gate's own rates here: too few launches to deal them to two sides"
    shares = ", ".join(
        f"{change_text(float(ratio)).replace('.0', '')} {100 * share:.1f} %"
        for ratio, share in rates.found.items()
    )
    return (
        f"the gate here, {rates.launches} launches a side: {rates.failed} of {rates.runs} "
        f"unchanged runs failed; found of cells slowed by {shares}"
    )


def _print_spreads(found: list[Spread]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("cell", overflow="fold")
    for name in ("median", "spread", "floor", "sees", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for one in found:
        numbers = (time_text(one.median_s), f"{100 * one.spread_log:.1f} %")
        seen = (change_text(one.floor), change_text(one.smallest_seen), str(one.launches))
        table.add_row(*map(Text, (one.name, *numbers, *seen)), "two peaks" * one.is_two_peaked)
    Screen().print(table)
