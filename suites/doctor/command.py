"""`python -m suites doctor`: what it looks at, what it prints and how it ends."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import textwrap
from collections.abc import Iterator, Sequence

from suites.doctor.finding import LEVELS, Finding
from suites.session.options import store_folder

FOUND = 1
EXAMPLES = """examples:
  python -m suites doctor
  python -m suites doctor --json | python3 -m json.tool

exit codes: 0 all is well (notes may be worth reading), 1 it found a problem, 2 usage
"""
_INDENT = " " * 9
_MARKS = {"problem": "PROBLEM", "note": "note", "ok": "ok"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--store", metavar="DIR", help="folder of runs (default: results/runs)")


def run(options: argparse.Namespace) -> int:
    """Look at everything once; → the exit code."""
    found = sorted(_look(options.store), key=lambda finding: LEVELS.index(finding.level))
    problems = sum(finding.level == "problem" for finding in found)
    if options.json:
        told = {"healthy": not problems, "findings": [f.to_json() for f in found]}
        print(json.dumps(told, indent=1, allow_nan=False))
    else:
        print(as_text(found))
    return FOUND if problems else 0


def _look(store: str | None) -> Iterator[Finding]:
    # Read before torch is imported, which may set some.
    environment = dict(os.environ)
    from impls.interface.device_choice import choose
    from suites.doctor import gpu, machine, software, variables
    from suites.measure import device

    chosen = choose("auto")
    yield from software.findings(chosen.device)
    yield from variables.findings(environment)
    fixed, trusted = device.fixed_state(chosen.device), device.trust_state(chosen.device)
    yield from gpu.findings(chosen, fixed, trusted)
    yield from machine.findings(store_folder(store))


def as_text(found: Sequence[Finding]) -> str:
    """The findings, the worst first, under each what to type; the last line sums up.

    What was found is broken where the terminal ends, 80 columns without one; what is typed is one
    line, to be copied.
    """
    width = max(40, shutil.get_terminal_size().columns - 1)
    lines = []
    for finding in found:
        told = f"{_MARKS[finding.level]:<8} {finding.subject}: {finding.told}"
        lines += textwrap.wrap(
            told, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
        )
        if finding.todo:
            lines.append(f"{_INDENT}→ {finding.todo}")
    count = {level: sum(f.level == level for f in found) for level in LEVELS}
    if count["problem"]:
        lines.append(f"{count['problem']} to mend before a time is believed, {count['note']} notes")
    else:
        lines.append(f"all is well, {count['note']} notes")
    return "\n".join(lines)
