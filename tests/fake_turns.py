"""A child that takes its cells and their times from `cells.txt` where it is, in no time.

A line is "name:number milliseconds", as in "fine:7 1.5"; what the "kernel" does is `fake_child`'s.
`python fake_turns.py SUITE --store DIR [--resume RUN]`, and what else a child is given.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from pathlib import Path

from suites.measure.journal import RunDirectory
from suites.session import orders as session_orders
from tests.fake_cells import timing_record
from tests.fake_child import header_of, in_order, kernel, records_of

NOISE = 0.003


def main(arguments: list[str]) -> int:
    """Plan or go on, measure, and say that the end was reached."""
    orders = session_orders.read()
    lines = [line.split() for line in Path("cells.txt").read_text(encoding="utf-8").splitlines()]
    if "--impl" in arguments:
        name = arguments[arguments.index("--impl") + 1]
        lines = [line for line in lines if name in (line[0].split(":")[0], "mylib:attention")]
    records = records_of([line[0] for line in lines])
    # Paths are told in one word, "--store=DIR".
    paths = {flag: path for flag, is_one, path in (w.partition("=") for w in arguments) if is_one}
    if "--resume" in paths:
        directory = RunDirectory(Path(paths["--resume"]), orders.lock)
    else:
        directory = RunDirectory.create(Path(paths["--store"]), "fake", None)
        environment = {"torch": os.environ.get("FAKE_TORCH", "2.13.0")}
        header = header_of(records, directory.run_id, orders.launches)
        directory.write_run(header | {"environment": environment})
    times_s = {r["cell"]: float(line[1]) / 1e3 for r, line in zip(records, lines, strict=True)}
    orders.note(run=str(directory.path))
    with contextlib.suppress(KeyboardInterrupt), directory:
        for record in in_order(records, orders):
            directory.start(record, "problem", orders.launch)
            kernel(record["implementation"])
            noisy_s = times_s[record["cell"]] * random.gauss(1, NOISE)
            told = {"timing": timing_record(noisy_s), "elapsed_s": 0.01}
            directory.append(record | told | {"launch": orders.launch})
    orders.note(ended=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
