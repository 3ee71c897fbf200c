"""A child of the supervisor that measures forty fake cells, in a tenth of a second and no torch.

It keeps to what the real child keeps to: the orders, the run directory, its lock, running.json.
`python fake_child.py STORE BEHAVIOUR:NUMBER… [--resume=RUN]`; a behaviour is what the "kernel" of
a cell does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from impls.interface.problem import Problem
from suites.measure.journal import RunDirectory, row_of, utc_now
from suites.session import orders as session_orders
from suites.session.orders import Orders
from suites.session.run_on_disk import read_header
from tests.fake_cells import cell

SLOW_S = 0.1
STUCK_S = 600.0
ULIMIT_BYTES = 300 << 20
SETTINGS = {"settings_version": 1, "budget": "smoke", "threads": 1, "baseline": "none"}


MEASURED: list[str] = []


def kernel(behaviour: str) -> None:
    """What the fake kernel does while it is measured."""
    if behaviour == "slow":
        time.sleep(SLOW_S)
    elif behaviour == "hanging":
        time.sleep(STUCK_S)
    elif behaviour == "raising":
        raise ValueError("raised by the kernel")
    elif behaviour.startswith("exit"):
        os._exit(int(behaviour.removeprefix("exit")))
    elif behaviour == "segv":
        ctypes.string_at(0)
    elif behaviour == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (ULIMIT_BYTES, resource.RLIM_INFINITY))
        held = []
        try:
            while True:
                held.append(bytearray(1 << 26))
        finally:
            held.clear()
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    elif behaviour == "garbage":
        noise = bytes(range(256)) * 200 + b'\n{"event": "ended"}\n[40/40] attnbench: \n'
        os.write(1, noise)
        os.write(2, noise)
    elif behaviour == "forking":
        # Both go on from here, as a kernel's forgotten child does.
        os.fork()
    elif behaviour == "touchy" and MEASURED:
        # Dies of what another cell left in its process; alone it is well.
        os._exit(1)
    elif behaviour == "mended" and not (Path.cwd() / "mended").exists():
        os._exit(1)
    elif behaviour == "deaf":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        (Path.cwd() / "at it").touch()
        time.sleep(STUCK_S)
    elif behaviour == "stamped":
        # The last it does is to say when: the clock is the machine's, not the process's.
        with (Path.cwd() / "stamps").open("a") as file:
            file.write(f"{time.monotonic()}\n")
        os._exit(0)
    elif behaviour == "waiting" and not (Path.cwd() / "go on").exists():
        (Path.cwd() / "at it").touch()
        time.sleep(STUCK_S)


def records_of(words: list[str]) -> list[dict[str, Any]]:
    """The plan: one cell a word, "fine:7", or "fine:7:wide" for the same cell in another series."""
    found = []
    for word in words:
        behaviour, number, *series = word.split(":")
        problem = Problem.parse(f"T={int(number) + 16},H=1,d_h=8")
        where = {"series": series[0]} if series else {}
        found.append(cell(behaviour, problem, 1e-3, **where))
    return found


def in_order(records: list[dict[str, Any]], orders: Orders) -> list[dict[str, Any]]:
    """What of the plan is asked for, as it is asked."""
    by_row = {row_of(record): record for record in records}
    return [by_row[row] for row in (by_row if orders.rows is None else orders.rows)]


def header_of(records: list[dict[str, Any]], run: str, launches: int) -> dict[str, Any]:
    """A run.json that reads."""
    names = ("cell", "implementation", "problem", "pass", "cache", "clock", "suite", "series")
    decided = {"decision": "run", "reason": None, "estimate_s": 0.01, "memory_bytes": 1000}
    return {
        "schema": 1,
        "run": run,
        "created_utc": utc_now(),
        "machine_key": "fake",
        "device": "cpu",
        "settings": SETTINGS,
        "launches": launches,
        "plan": [{name: r[name] for name in names} | decided for r in records],
        "counts": {},
    }


def measure(directory: RunDirectory, record: dict[str, Any], orders: Orders) -> None:
    """One cell, as a session takes it from its note to its line."""
    name, launch = record["implementation"], orders.launch
    untimed = {"timing": None, "bound": None, "check": None}
    if name in orders.broken:
        status, reason = orders.broken[name]
        directory.append(record | untimed | {"status": status, "reasons": [reason]})
        return
    problem_id = Problem.from_json(record["problem"]).id
    directory.start(record, problem_id, launch)
    try:
        kernel(name)
    except MemoryError:
        record |= untimed | {"status": "oom", "reasons": ["MemoryError"]}
    except ValueError as error:
        record |= untimed | {"status": "error", "reasons": [str(error)]}
    MEASURED.append(name)
    directory.append(record | {"launch": launch})


def main(arguments: list[str]) -> int:
    """Plan or go on, measure, and say that the end was reached."""
    orders = session_orders.read()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resumed = [word.partition("=")[2] for word in arguments if word.startswith("--resume=")]
    path = resumed[0] if resumed else None
    store = arguments[0]
    records = records_of([word for word in arguments if ":" in word])
    for name in {record["implementation"] for record in records} - {*orders.broken}:
        with orders.trying(name, "availability"):
            if name == "untriable":
                os._exit(0)
        with orders.trying(name, "speed"):
            if name == "unprobable" and name not in orders.not_probed:
                os._exit(0)
    if orders.is_plan_only:
        for entry in header_of(records, "", 1)["plan"]:
            orders.note(planned=entry)
        orders.note(ended=True)
        return 0
    if path is None:
        directory = RunDirectory.create(Path(store), "fake", None)
        directory.write_run(header_of(records, directory.run_id, orders.launches))
    else:
        directory = RunDirectory(Path(path), orders.lock)
        assert [e["cell"] for e in read_header(Path(path))["plan"]] == [r["cell"] for r in records]
    orders.note(run=str(directory.path))
    try:
        with contextlib.suppress(KeyboardInterrupt), directory:
            for record in in_order(records, orders):
                measure(directory, record, orders)
                if record["implementation"] == "poisoning":
                    # As a session ends that finds its device lost.
                    break
    except OSError as error:
        print(f"ERROR: {error}")
    else:
        with contextlib.suppress(FileNotFoundError):
            (directory.path / "running.json").unlink()
    orders.note(ended=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
