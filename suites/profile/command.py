"""`python -m suites profile`: its options, what it prints and how it ends."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suites.supervisor.request import ROOT

WRONG, USAGE, BROKEN = 1, 2, 5
HELP = "which kernels one cell's time goes to, what they are and what they move"
_EPILOG = """examples:
  python -m suites profile "naive T=1024 H=8 d_h=64 causal"
  python -m suites profile layer grouped T=512 --run latest --out /tmp/look
  python -m suites profile --impl mykernel.py:attention --problem "T=4096,H=8,d_h=64" --json

CELL is spelled as `reports explain` and `suites ab` spell it: words that only it has, the beginning
of its identity, or an implementation with a whole problem. It is looked for in all sweeps; with
--run in that run. What is profiled comes after the first call, a proof against float64 and a
warm-up; shares are of the whole call, and what is outside of any kernel is told. Beside the table
it leaves trace.json.gz, for https://ui.perfetto.dev, and profile.json.

exit codes: 0 profiled, 1 its result was wrong, 2 usage, or no such cell or several, 5 it cannot run
here; 130 Ctrl-C
"""


def profile(arguments: Sequence[str]) -> int:
    """Profile one cell; the table or record goes to stdout → exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.threads < 1:
        return _complain(f"--threads {options.threads}: give 1 or more", USAGE)
    # The allocator is told before torch makes its first tensor, and OpenMP before torch is there.
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    from suites.measure import allocator

    allocator.make_steady()
    try:
        return _profiled(options, _without(arguments, "--json"))
    except KeyboardInterrupt:
        return 130


def _profiled(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    import torch

    from impls.interface.device_choice import choose
    from impls.interface.failures import failures, told
    from suites.measure.atomic_file import Unwritable, check_writable, write_json
    from suites.profile.cell_words import Asked, find_cell, name_of
    from suites.profile.instruments import call_for_ncu, memory_traffic, proton
    from suites.profile.printing import as_text, record
    from suites.profile.profiled import Ready
    from suites.session.record import counts_of

    try:
        device = choose(options.device).device
        cell = find_cell(_asked(options, Asked, device))
        folder = Path(options.out).absolute() if options.out else _new_folder(cell.key)
        check_writable(folder)
    except (ValueError, Unwritable) as error:
        return _complain(str(error), USAGE)
    if reasons := _reasons(cell, device):
        return _complain(f"{name_of(cell)} cannot run here: {'; '.join(reasons)}", BROKEN)
    torch.set_num_threads(options.threads)
    _tell(name_of(cell))
    try:
        ready = Ready(cell, device, _tell)
        if options.under_ncu:
            call_for_ncu(ready)
            return 0
        trace = folder / "trace.json.gz"
        found = ready.profiled(trace, _tell)
        traffic = memory_traffic(ready, arguments)
        instruments = [proton(ready, folder)]
    except failures() as error:
        return _complain(f"{name_of(cell)}: {told(error)}", BROKEN)
    made = record(cell, device, found, counts_of(cell, "exact"), traffic, instruments)
    made |= {"trace": str(trace)}
    write_json(folder / "profile.json", made)
    print(json.dumps(made, indent=1, allow_nan=False) if options.json else as_text(made))
    return 0 if found.check.ok else WRONG


def _new_folder(key: str) -> Path:
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{key[:8]}"
    return ROOT / "results" / "profiles" / name


def _reasons(cell: Any, device: str) -> list[str]:
    """Why the cell cannot be called: its implementation, or this problem of it."""
    from impls.interface.attention import reasons_against
    from impls.interface.first_call import inability_tried_apart
    from suites.session.memory_needed import shortage

    needs = () if cell.pass_ == "forward" else ("backward",)
    if unable := inability_tried_apart(cell.implementation, device):
        return list(unable.reasons)
    if reasons := reasons_against(cell.implementation, cell.problem, device, needs):
        return list(reasons)
    return [short] if (short := shortage(cell, device)) else []


def _asked(options: argparse.Namespace, of: Any, device: str) -> Any:
    impls = [word.strip() for text in options.impl for word in text.split(",") if word.strip()]
    return of(
        words=tuple(options.cell),
        impls=tuple(impls),
        problem=options.problem,
        passes=options.passes,
        run=options.run,
        store=options.store,
        device=device,
        threads=options.threads,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m suites profile",
        description=HELP[0].upper() + HELP[1:] + ".",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("cell", nargs="*", metavar="CELL", help="words that only one cell has")
    option(
        "--impl",
        action="append",
        default=[],
        metavar="NAME|FILE.py:FUNC",
        help="the implementation, as `pytest suites` takes it",
    )
    option("--problem", default="", metavar="SIZES", help='as "T=4096,H=8,d_h=64,causal"')
    option("--passes", default="", metavar="NAME", help="forward, backward, forward_backward")
    option("--run", metavar="RUN", help='a cell of this run: "latest", a name or a path')
    option("--store", metavar="DIR", help="folder of runs (default: results/runs)")
    option("--device", choices=("auto", "cpu", "cuda"), default="auto")
    option("--threads", type=int, default=1, metavar="N", help="CPU threads (default: 1)")
    option("--out", metavar="DIR", help="for trace and record (default: results/profiles/<utc>)")
    option("--json", action="store_true", help="print the record, not the table")
    option("--under-ncu", action="store_true", help=argparse.SUPPRESS)
    return parser


def _without(arguments: Sequence[str], flag: str) -> list[str]:
    return [argument for argument in arguments if argument != flag]


def _tell(text: str) -> None:
    print(f"attnbench: {text}", file=sys.stderr, flush=True)


def _complain(text: str, code: int) -> int:
    print(f"attnbench: {text}", file=sys.stderr)
    return code
