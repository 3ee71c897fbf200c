"""`python -m results compare` and `gate`: launches of two sides, or of one and the baseline."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from impls.interface.streams import for_a_reader
from results.baseline import FOLDER, files, joined, machines, of_suite, read_baseline
from results.comparable import blocking
from results.compare import Asked, compare
from results.more_launches import more_launches
from results.rules import read_rules
from results.screen import Screen
from results.side import Side, SideMistake
from results.side_names import read_side
from results.spreads import read_spreads
from results.units import counted
from results.verdict import BROKEN, NOT_COMPARABLE, PASS, USAGE, Comparison, exit_code
from results.verdict_ci import github_lines, junit, open_metrics
from results.verdict_markdown import markdown
from results.verdict_record import comparison_record
from results.verdict_table import print_comparison
from results.verdict_text import conclusion


def compare_sides(options: argparse.Namespace, store: Path) -> int:
    """Describe head against base → exit code; a regression is told and fails nothing.

    Raises:
        RunNotFound, SchemaError, RulesError, SideMistake, OSError: as reading raises them.
    """
    base, head = _two_sides(options, store)
    found = compare(base, head, _asked(options, head))
    code = NOT_COMPARABLE if blocking(found.reasons) else PASS if found.compared else BROKEN
    return _tell(options, found, code, {"base": base, "head": head})


def gate_sides(options: argparse.Namespace, store: Path) -> int:
    """Judge head against base, or against what was accepted on this machine → exit code.

    Raises:
        RunNotFound, SchemaError, RulesError, SideMistake, OSError: as reading raises them.
    """
    if options.baseline:
        return _gate_baseline(options, store)
    base, head = _two_sides(options, store)
    asked = _asked(options, head)
    if options.screen_only:
        asked = replace(asked, is_screen=True)
    found = compare(base, head, asked)
    code = exit_code(found, strict=options.strict, allow_missing=options.allow_missing)
    return _tell(options, found, code, {"base": base, "head": head})


def _gate_baseline(options: argparse.Namespace, store: Path) -> int:
    if len(options.runs) > 1:
        raise SideMistake("--baseline judges one side: name it alone, or BASE HEAD without it")
    head = read_side(options.runs[0] if options.runs else "latest", store)
    folder, key = Path(options.baselines), head.headers[0].machine_key
    suites = {cell.suite for cell in head.cells.values()}
    accepted = _accepted(folder, key, suites)
    if accepted is None:
        return _without_baseline(options, folder, key, head)
    asked = replace(_asked(options, head), is_single=True)
    found = compare(accepted, head, asked)
    code = exit_code(found, strict=options.strict, allow_missing=options.allow_missing)
    oldest = _accepted(folder, key, suites, oldest=True)
    creep = compare(oldest, head, replace(asked, cumulative=True)) if oldest else None
    if creep is not None and code in (PASS, USAGE):
        of_creep = exit_code(creep, strict=options.strict, allow_missing=True)
        code = max(code, of_creep) if of_creep != 1 else 1
    least = asked.rules.plan.confirm
    more = f". For {least}: {more_launches(head.headers[0], least)}" if found.refused else ""
    return _tell(options, found, code, {"base": accepted, "head": head}, creep, more)


def _accepted(folder: Path, key: str, suites: set[str], *, oldest: bool = False) -> Side | None:
    """What was accepted of these suites; where a side has launches of another suite, they stay."""
    sides = [read_baseline(file) for file in files(folder, key, oldest=oldest)]
    sides = [one for one in sides if any(of_suite(one, suite).cells for suite in suites)]
    return joined(sides) if sides else None


def _without_baseline(options: argparse.Namespace, folder: Path, key: str, head: Side) -> int:
    found = compare(Side("no baseline", head.headers, (), {}), head, _asked(options, head))
    told = found.verdicts
    if any(one.fails for one in told) or all(one.verdict != "new" for one in told):
        # What is wrong, broken or not measured at all fails on the first day too.
        return _tell(options, found, exit_code(found), {"head": head})
    others = [machine for machine in machines(folder) if machine != key]
    measured = sum(bool(cell.times_s) for cell in head.cells.values())
    code = NOT_COMPARABLE if others or options.strict else PASS
    cells = counted(measured, "cell")
    last = f"no baseline for this machine key, {key}: {cells} measured, none compared"
    if others:
        last += f"; {folder} has those of {', '.join(others)}"
    last += f". To make one: {_to_make_one(options, head)}"
    _write(options, replace(found, refused=last), code)
    last = f"NOT COMPARABLE: {last}" if others else last
    if options.json:
        record = {"command": "gate", "exit_code": code, "conclusion": last, "cells": []}
        _print_json(record | {"compared": 0, "measured": measured})
    else:
        print(last)
    return code


def _to_make_one(options: argparse.Namespace, head: Side) -> str:
    """What to type for a baseline; a side of too few launches is measured again before."""
    least = read_rules(Path(options.rules) if options.rules else None).plan.confirm
    if len(head.launches) >= least:
        return " ".join(["python -m results accept", *options.runs])
    n = len(head.launches)
    needed = f"{least} launches are needed, this has {n}"
    return f"{needed}: {more_launches(head.headers[0], least)}; then python -m results accept"


def _two_sides(options: argparse.Namespace, store: Path) -> tuple[Side, Side]:
    if (n := len(options.runs)) != 2:
        raise SideMistake(
            f"{n} side{'s' * (n != 1)} given: name two, BASE HEAD, or type --baseline or --static"
        )
    names = (options.impl_base, options.impl_head)
    if (names[0] is None) != (names[1] is None):
        raise SideMistake("--impl-base and --impl-head go together: name both")
    base, head = (
        read_side(text, store, implementation=name)
        for text, name in zip(options.runs, names, strict=True)
    )
    if names[0] == names[1] and (both := {*base.folders} & {*head.folders}):
        raise SideMistake(
            f"{min(both).name} is on both sides, where nothing can differ: name two, BASE HEAD, or "
            "two implementations of one run by --impl-base and --impl-head"
        )
    return base, head


def _asked(options: argparse.Namespace, head: Side) -> Asked:
    rules = read_rules(Path(options.rules) if options.rules else None)
    spreads = read_spreads(Path(options.baselines or FOLDER), head.headers[0].machine_key)
    return Asked(rules, tuple(options.allow_mismatch), spreads)


def _tell(
    options: argparse.Namespace,
    found: Comparison,
    code: int,
    sides: dict[str, Side],
    creep: Comparison | None = None,
    more: str = "",
) -> int:
    last = conclusion(found, code)
    if creep is not None:
        failing = [one for one in creep.verdicts if one.fails]
        last += f"; against the oldest baseline: {conclusion(creep, int(bool(failing)))}"
    last += more
    _write(options, found, code)
    with for_a_reader():
        if options.json:
            record = {"command": options.command, "exit_code": code, "conclusion": last}
            record |= comparison_record(found, {name: one.commit for name, one in sides.items()})
            record["cumulative"] = comparison_record(creep) if creep else None
            _print_json(record)
        else:
            print_comparison(found, Screen(), show_all=options.all)
            print(last)
        if options.github:
            # A workflow command counts on either stream; JSON on stdout stays JSON.
            for line in github_lines(found, code):
                print(line, file=sys.stderr if options.json else sys.stdout)
    return code


def _write(options: argparse.Namespace, found: Comparison, code: int) -> None:
    """The files that were asked for: a job that keeps them finds them however it went."""
    if options.junit:
        Path(options.junit).write_text(junit(found, code), encoding="utf-8")
    if options.markdown:
        Path(options.markdown).write_text(markdown(found, code), encoding="utf-8")
    if options.metrics:
        Path(options.metrics).write_text(open_metrics(found), encoding="utf-8")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))
