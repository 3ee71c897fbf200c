"""One cell from the words that name it to its profile on disk and on stdout."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from impls.interface.attention import reasons_against
from impls.interface.device_choice import choose
from impls.interface.failures import failures, told
from impls.interface.first_call import inability_tried_apart
from suites.measure.atomic_file import Unwritable, check_writable, write_json
from suites.profile.cell_words import Asked, find_cell, name_of
from suites.profile.instruments import call_for_ncu, memory_traffic, proton
from suites.profile.printing import as_text, record
from suites.profile.profiled import Ready
from suites.session.memory_needed import shortage
from suites.session.record import counts_of
from suites.session.sweep import Cell
from suites.supervisor.request import ROOT

WRONG, USAGE, BROKEN = 1, 2, 5


def profiled(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Profile the cell that was asked for → exit code. `arguments` are those of the command."""
    try:
        device = choose(options.device).device
        cell = find_cell(_asked(options, device))
        folder = Path(options.out).absolute() if options.out else _new_folder(cell)
        if not options.under_ncu:
            check_writable(folder)
    except (ValueError, Unwritable) as error:
        return _complain(str(error), USAGE)
    if reasons := _reasons(cell, device):
        return _complain(f"{name_of(cell)} cannot run here: {'; '.join(reasons)}", BROKEN)
    torch.set_num_threads(options.threads)
    _tell(name_of(cell))
    trace = folder / "trace.json.gz"
    try:
        ready = Ready(cell, device, _tell)
        if options.under_ncu:
            call_for_ncu(ready)
            return 0
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


def _asked(options: argparse.Namespace, device: str) -> Asked:
    impls = [word.strip() for text in options.impl for word in text.split(",") if word.strip()]
    return Asked(
        words=tuple(options.cell),
        impls=tuple(impls),
        problem=options.problem,
        passes=options.passes,
        run=options.run,
        store=options.store,
        device=device,
        threads=options.threads,
    )


def _new_folder(cell: Cell) -> Path:
    utc = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return ROOT / "results" / "profiles" / f"{utc}-{cell.key[:8]}"


def _reasons(cell: Cell, device: str) -> list[str]:
    """Why the cell cannot be called: its implementation, this problem of it, or its memory."""
    if unable := inability_tried_apart(cell.implementation, device):
        return list(unable.reasons)
    needs = () if cell.pass_ == "forward" else ("backward",)
    if reasons := reasons_against(cell.implementation, cell.problem, device, needs):
        return list(reasons)
    return [short] if (short := shortage(cell, device)) else []


def _tell(text: str) -> None:
    print(f"attnbench: {text}", file=sys.stderr, flush=True)


def _complain(text: str, code: int) -> int:
    print(f"attnbench: {text}", file=sys.stderr)
    return code
