"""`python -m results`: the runs there are, what one of them measured, and whether it may pass."""

from __future__ import annotations

from impls.interface.streams import for_a_reader, take_any_sign

# isort: split
import argparse
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from results.findings import findings
from results.judging_arguments import ArgumentMistake, add_commands, examples, judging_command
from results.list_printing import list_text
from results.merge_command import add_command as add_merge
from results.merge_command import merge_runs
from results.printing import print_run
from results.reading import SchemaError
from results.run import Run
from results.schema import Cell
from results.screen import Screen
from results.store import RunNotFound, find_run, list_runs, load_run, store_folder
from results.summary import RunSummary
from results.trouble import has_wrong

WRONG, USAGE, BROKEN = 1, 2, 5
_SHOW_CODES = "0 all well, 1 a result of the run was wrong, 2 usage, 5 unreadable"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; results go to stdout, all else to stderr → the exit code."""
    options = _parser().parse_args(arguments)
    store = store_folder(options.store)
    print(f"store: {store}", file=sys.stderr)
    try:
        if options.command == "list":
            _list(store, as_json=options.json)
        elif options.command == "merge":
            return merge_runs(options, store)
        elif options.command != "show":
            return judging_command(options)(options, store)
        else:
            run = load_run(find_run(options.run, store))
            with for_a_reader():
                _show(run, options)
            return WRONG if has_wrong(run) else 0
    except (RunNotFound, ArgumentMistake) as error:
        print(f"results: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        # `| head` has seen enough; the interpreter's last flush must not complain of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (SchemaError, OSError) as error:
        print(f"results: {error}", file=sys.stderr)
        return BROKEN
    return 0


def _list(store: Path, *, as_json: bool) -> None:
    summaries = list_runs(store)
    if as_json:
        _print_json([_summary_record(summary) for summary in summaries])
    elif summaries:
        print(_printable("\n".join(list_text(summaries, Screen().width))))
    else:
        print("no runs: make one with `make bench`")


def _show(run: Run, options: argparse.Namespace) -> None:
    if options.json:
        _print_json(run_record(run))
    else:
        print_run(run, Screen(), show_all=options.all, show_counters=options.counters)


def run_record(run: Run) -> dict[str, Any]:
    """Everything read of a run, with the figures derived from it, for JSON."""
    header = asdict(run.header) | {"plan": [_plain(asdict(p)) for p in run.header.plan]}
    return header | {
        "path": str(run.path),
        "state": run.state,
        "notes": list(run.notes),
        "running": _plain(asdict(run.running)) if run.running else None,
        "counts": run.counts,
        "findings": [asdict(finding) for finding in findings(run)],
        "cells": [cell_record(cell) for cell in run.cells],
        "profiles": [asdict(profile) for profile in run.profiles],
    }


def cell_record(cell: Cell) -> dict[str, Any]:
    """One cell as its journal has it, and what is derived: rates, intensity, % of bound."""
    return _plain(asdict(cell)) | {
        "problem_id": cell.problem.id,
        "time_s": cell.time_s,
        "flop_per_s": cell.flop_per_s,
        "bytes_per_s": cell.bytes_per_s,
        "intensity": cell.intensity,
        "percent_of_bound": cell.percent_of_bound,
        "is_comparable": cell.is_comparable,
    }


def _summary_record(summary: RunSummary) -> dict[str, Any]:
    header = summary.header
    return {
        "run": summary.name,
        "path": str(summary.path),
        "machine_key": summary.machine_key,
        "device": header.device if header else None,
        "created_utc": header.created_utc if header else None,
        "commit": header.commit if header else None,
        "dirty": header.dirty if header else None,
        "state": summary.state,
        "counts": summary.counts,
        "error": summary.error,
    }


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {key.removesuffix("_"): value for key, value in record.items()}


def _print_json(value: Any) -> None:
    print(_printable(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)))


def _printable(text: str) -> str:
    """The text with what is no UTF-8, of a folder's name, in escapes as JSON has them."""
    return text.encode(errors="backslashreplace").decode()


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON, complete")
    shared.add_argument(
        "--store",
        metavar="FOLDER",
        help="the folder of runs (default: $ATTNBENCH_STORE, or results/runs of this checkout)",
    )
    parser = argparse.ArgumentParser(
        prog="python -m results",
        description="Read the runs that were measured. Needs no torch.",
        **examples("list", "show latest", codes=_SHOW_CODES),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "list",
        parents=[shared],
        help="the runs there are, the newest first",
        description="The runs there are, the newest first: where, when, of what, how it ended.",
        **examples("list", "list --json", codes=_SHOW_CODES),
    )
    show = commands.add_parser(
        "show",
        parents=[shared],
        help="the cells of one run and what they say",
        description="The cells of one run, why some have no time, and what the run bears out.",
        **examples("show latest", "show 20261129T193000Z --counters", codes=_SHOW_CODES),
    )
    show.add_argument(
        "run",
        nargs="?",
        default="latest",
        metavar="RUN",
        help='"latest" (default; a timed one, where there is one), a name as `list` has it or its '
        "beginning, or a path",
    )
    show.add_argument("--all", action="store_true", help="also a row for each cell without a time")
    show.add_argument(
        "--counters", action="store_true", help="operators, allocations, FLOP instead of times"
    )
    add_commands(commands, shared)
    add_merge(commands, shared)
    for command in commands.choices.values():
        command.description = textwrap.fill(command.description or "", 79)
    return parser


if __name__ == "__main__":
    take_any_sign()
    sys.exit(main())
