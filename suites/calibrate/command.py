"""`python -m suites calibrate`: measure one plan many times, and keep how much each cell varies.

The launches are a run like any other, made by `python -m suites run`; what they mean is said and
kept by `python -m results spread --write`. Both are processes of their own.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from suites.calibrate.launches import Outcome, checkout_path, measure
from suites.supervisor.command import leading
from suites.supervisor.request import ROOT

HELP = "how much each cell varies here between unchanged launches: what a gate can see"
USAGE, INTERRUPTED = 2, (130, 143)
LAUNCHES = 20
_CHOOSES = ("--budget", "--problem", "--shapes")
_EPILOG = """examples:
  python -m suites calibrate
  python -m suites calibrate heads --launches 40 --impl mykernel.py:attention
  python -m suites calibrate --resume latest

Every other option is of `pytest suites`; without one the budget is smoke. What
is kept, the gate uses by itself: a cell's floor is at least twice what its
spread does to a ratio. Twenty launches of the smoke budget take a quarter of an
hour; Ctrl-C loses only the cell being measured.

exit codes: 0 kept, 1 a wrong result, 2 usage, 5 a cell crashed or failed, or
nothing was measured; 130 Ctrl-C, 143 SIGTERM. What is not ok is told and left
out; the others are kept all the same.
"""


def calibrate(arguments: Sequence[str]) -> int:
    """Measure the launches, or those that a run lacks, and keep their spreads → exit code."""
    parser = _parser()
    suites, rest = leading(arguments)
    options, passed_on = parser.parse_known_args(rest)
    if options.launches is not None and options.launches < 2:
        print(f"attnbench: --launches {options.launches}: give 2 or more", file=sys.stderr)
        return USAGE
    outcome = measure(_run_arguments(options, [*suites, *passed_on]))
    if outcome.path is None:
        return outcome.code or USAGE
    if outcome.code in INTERRUPTED or outcome.cells_left:
        print(f"attnbench: to go on: {_go_on(outcome)}", file=sys.stderr)
        return outcome.code
    spread = _spread(options, outcome.path)
    code = subprocess.run(spread, env=checkout_path(), check=False).returncode
    return code or outcome.code


def _run_arguments(options: argparse.Namespace, passed_on: Sequence[str]) -> list[str]:
    """What `python -m suites` is given: `run`, or `resume` of a run."""
    store = ["--store", str(Path(options.store).absolute())] if options.store else []
    if options.resume is not None:
        launches = ["--launches", str(options.launches)] if options.launches else []
        return ["resume", options.resume, *passed_on, *launches, *store, "--json-lines"]
    is_chosen = any(word.split("=")[0] in _CHOOSES for word in passed_on)
    budget = [] if is_chosen else ["--budget", "smoke"]
    launches = ["--launches", str(options.launches or LAUNCHES)]
    return ["run", *passed_on, *budget, *launches, *store, "--json-lines"]


def _spread(options: argparse.Namespace, run: Path) -> list[str]:
    command = [sys.executable, "-m", "results", "spread", str(run), "--write"]
    command += ["--store", str(run.parents[1])]
    if options.baselines:
        command += ["--baselines", str(Path(options.baselines).absolute())]
    return [*command, *(["--json"] if options.json else [])]


def _go_on(outcome: Outcome) -> str:
    there = "" if Path.cwd() == ROOT else f"cd {shlex.quote(str(ROOT))} && "
    resume = f"-m suites calibrate --resume {shlex.quote(str(outcome.path))}"
    return f"{there}{shlex.quote(sys.executable)} {resume}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m suites calibrate",
        usage="python -m suites calibrate [SUITE …] [options of pytest suites]",
        description=HELP[0].upper() + HELP[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("--launches", type=int, metavar="N", help=f"launches of the plan (default: {LAUNCHES})")
    option("--resume", metavar="RUN", help="go on with an interrupted calibration, or use a run")
    option("--store", metavar="DIR", help="folder of runs (default: results/runs)")
    option("--baselines", metavar="DIR", help="where it is kept (default: results/baselines)")
    option("--json", action="store_true", help="print spreads, floors and rates as JSON")
    return parser
