"""`python -m reports history`: the trend page of one machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reports.command_line import wrapped
from results.reading import SchemaError
from results.run_times import RunTimes
from results.store import list_runs, store_folder, without_parts
from results.timed_runs import timed_runs

USAGE, BROKEN = 2, 5
OUT = Path(__file__).parents[1] / "out" / "history"
HELP = "each cell over the runs of a machine, with the commits at which it changed"
_EXAMPLES = """\
examples:
  python -m reports history
  python -m reports history --cells 'sdpa_flash *causal*' --json

exit codes: 0 written, 2 no such machine or wrong usage, 5 unreadable or no
cell was timed
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write history.html and what stands in it; paths and changes go to stdout → exit code."""
    options = _parser().parse_args(arguments)
    try:
        runs = _timed(store_folder(options.store), options.cells)
        keys = list(dict.fromkeys(run.machine_key for run in runs))
        if not runs:
            return _complain("no run was timed yet: make one with `make bench`", BROKEN)
        if options.machine and options.machine not in keys:
            return _complain(f'no machine "{options.machine}": one of {", ".join(keys)}', USAGE)
        record = _write(runs, options.machine or keys[0], keys, options)
    except (SchemaError, OSError) as error:
        return _complain(str(error), BROKEN)
    if options.json:
        print(json.dumps(record, indent=1, ensure_ascii=False))
    else:
        print(f"machine {record['machine_key']}: {record['cells']} cells, {record['runs']} runs")
        for words in record["events"] or ["no change of level"]:
            print(f"      - {words}")
        print(f"report  {record['page']}")
    return 0 if record["cells"] else BROKEN


def _timed(store: Path, cells: str) -> list[RunTimes]:
    """The timed runs of the store, the newest first; an unreadable one is told and left out."""
    summaries = list_runs(store)
    for summary in summaries:
        if summary.header is None:
            print(f"reports: left out: {summary.error}", file=sys.stderr)
    return timed_runs(store, without_parts(summaries), lambda name: fnmatchcase(name, cells))


def _write(
    runs: Sequence[RunTimes], key: str, keys: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    # matplotlib takes a second to import; a wrong name is told before that.
    from reports.figures import render
    from reports.history import trend
    from reports.history.page import page, points_csv, sentence
    from reports.history.trends import machine_of

    if sys.stderr.isatty():
        print(f"reports: {len(runs)} runs …", file=sys.stderr)
    machine = machine_of(runs, key)
    out = Path(options.out) / key
    out.mkdir(parents=True, exist_ok=True)
    drawn = render(trend, machine)  # type: ignore[arg-type]  # the module says what it draws
    files = {"history.csv": points_csv(machine)}
    if drawn is not None:
        files["trend.svg"] = drawn.svg
        (out / "trend.png").write_bytes(drawn.png)
    others = [other for other in keys if other != key]
    files["history.html"] = page(machine, drawn, others, options.within)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8", newline="")
    names = [*files, *(["trend.png"] if drawn else [])]
    return {
        "machine_key": key,
        "cells": len(machine.trends),
        "runs": len(machine.columns),
        "events": [sentence(event) for event in machine.events],
        "page": str(out / "history.html"),
        "files": sorted(str(out / name) for name in names),
    }


def _complain(words: str, code: int) -> int:
    print(f"reports: {words}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reports history",
        description=wrapped(f"One page that opens offline: {HELP}. Needs no torch."),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option(
        "--machine", metavar="KEY", help="its key, as in python -m results list (default: newest)"
    )
    option("--cells", metavar="PATTERN", default="*", help="cells by name, * is any")
    option("--within", metavar="RUNS", type=int, default=10, help="what is recent (default: 10)")
    option("--store", metavar="FOLDER", help="the folder of runs (default: results/runs)")
    option("--out", metavar="FOLDER", default=OUT, help="where <machine>/ is written")
    option("--json", action="store_true", help="print paths and changes as JSON")
    return parser
