"""`python -m suites gpu`: its options, what it prints and how it ends."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.calibrate.launches import checkout_path
from suites.gpu_day import packages
from suites.gpu_day.day import Day
from suites.gpu_day.phases import DRY_MINUTES, MINUTES, Form, phases
from suites.measure.atomic_file import Unwritable, check_writable
from suites.supervisor.request import ROOT

USAGE = 2
LEAST_MINUTES, MOST_MINUTES = 0.25, 120.0
HELP = "the whole day on a GPU in eight minutes: clock, ceilings, proofs, sweeps, report"
_EPILOG = f"""examples:
  python -m suites gpu
  python -m suites gpu --minutes 12 --out /tmp/day --json
  python -m suites gpu --dry

Seven phases, the most valuable first, each on disk before the next: environment, clock, ceilings,
conformance, sweep, bounds, report. None may take another's time, and one that fails stops none.
--minutes (default {MINUTES:g}) scales them all; --dry (default {DRY_MINUTES:g}) goes through them
on a CPU with small sizes, and says of what only a GPU has "not measured: no GPU"; in a minute or
less with one implementation and one sweep.

exit codes: 0 all phases came to their end, 1 a result was wrong, 2 usage, 5 a phase failed or was
cut short, 130 Ctrl-C, 143 SIGTERM. Whatever the code, what is finished is kept: `python -m suites
resume latest --store DAY/runs` goes on with the sweep.
"""


def gpu(arguments: Sequence[str]) -> int:
    """Go through a day; → its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m suites gpu",
        description=HELP[0].upper() + HELP[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("--dry", action="store_true", help="on a CPU, with small sizes")
    option("--minutes", type=float, metavar="N", help=f"all of it (default: {MINUTES:g})")
    option("--out", metavar="DIR", help="a new folder for all of it (default: results/days/<utc>)")
    option("--json", action="store_true", help="print the record, not the table")
    options = parser.parse_args(arguments)
    minutes = options.minutes or (DRY_MINUTES if options.dry else MINUTES)
    if options.minutes is not None and not LEAST_MINUTES <= options.minutes <= MOST_MINUTES:
        return _usage(f"--minutes {options.minutes:g}: give {LEAST_MINUTES:g} to {MOST_MINUTES:g}")
    folder = Path(options.out).absolute() if options.out else _new_folder()
    if (folder / "day.json").exists():
        return _usage(f"--out {folder}: there is a day in it: name another folder")
    try:
        check_writable(folder)
    except Unwritable as error:
        return _usage(str(error))
    if lacks := packages.lacking():
        return _usage(packages.told(lacks))
    if not options.dry and (why := _against_cuda()):
        return _usage(f"{why}; --dry goes through the day on a CPU")
    form = Form(folder, "cpu" if options.dry else "cuda", minutes)
    day = Day(form, phases(form), _tell)
    code = day.run()
    print(json.dumps(day.record, indent=1) if options.json else table(day.record, folder))
    return code


def table(record: Mapping[str, Any], folder: Path) -> str:
    """A line a step: status, seconds and what there is to say; then where all of it is."""
    lines = []
    for number, phase in enumerate(record["phases"], 1):
        for step in phase["steps"]:
            words = "; ".join(step[name] for name in ("told", "reason") if step.get(name))
            took = f"{step['elapsed_s']:.0f} s" if "elapsed_s" in step else ""
            lines.append(
                f"{number} {phase['phase']:<12}{step['step']:<13}{step['status']:<13}{took:>6}"
                + (f"  {words}" if words else "")
            )
        if not phase["steps"]:
            lines.append(f"{number} {phase['phase']:<12}{'':<13}not begun")
    return "\n".join([*lines, f"{record['elapsed_s']:.0f} s in all: {folder}"])


def _new_folder() -> Path:
    return ROOT / "results" / "days" / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _against_cuda() -> str | None:
    """Why there is no GPU to measure; None: there is. Asked in a process of its own."""
    program = "from impls.interface.device_choice import choose; choose('cuda')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=checkout_path(), capture_output=True, text=True
    )
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or ["no GPU"])[-1]
    return last.removeprefix("ValueError: ")


def _tell(text: str) -> None:
    print(f"attnbench: {text}", file=sys.stderr, flush=True)


def _usage(text: str) -> int:
    print(f"attnbench: {text}", file=sys.stderr)
    return USAGE
