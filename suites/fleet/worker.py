"""The process that measures for a task: an order on stdin, on stdout a line of JSON for each event.

`{"do": "describe"}` tells of what kind the device is, "begin" plans a run, "measure" measures rows
of one, by an ordinary supervisor over ordinary child processes. The last line is `{"ended": …}`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suites.fleet.shipping import unpacked
from suites.measure.atomic_file import write_json
from suites.measure.journal import RUN, row_of
from suites.supervisor.request import PYTEST, ROOT, Place, Request
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn, Supervisor

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Telling:
    """A display that tells the driver, which has one for people or machines."""

    def line(self, text: str) -> None:
        """A notice of a child."""
        tell(line=text)

    def begins(self, entries: Iterable[Mapping[str, Any]], launch: int, launches: int) -> None:
        """The driver knows."""

    def started(self, entry: Mapping[str, Any]) -> None:
        """Which row is being measured."""
        tell(started=row_of(entry))

    def finished(self, record: Mapping[str, Any]) -> None:
        """A line of the journal, whole."""
        tell(finished=record)

    def died(self, what: str, cause: str, then: str) -> None:
        """A child's death."""
        tell(died=[what, cause, then])

    def ends(self, told: Mapping[str, Any]) -> None:
        """The driver counts."""


def tell(**what: Any) -> None:
    """One line on stdout."""
    print(json.dumps(what, allow_nan=False), flush=True)


def main() -> int:
    """Carry out the order on stdin; → 0, also where it could not be: the last line says so."""
    order = json.load(sys.stdin)
    _end_with(order["parent"])
    if order["cpus"]:
        # Before anything counts the CPUs there are; children inherit it.
        os.sched_setaffinity(0, order["cpus"])
    tempfile.tempdir = order["scratch"]
    failure, is_usage = None, False
    with Stopping() as stopping:
        try:
            {"describe": describe, "begin": begin, "measure": measure}[order["do"]](order, stopping)
        except CannotGoOn as error:
            failure, is_usage = str(error), error.is_usage
        except (ValueError, OSError) as error:
            failure = str(error)
    tell(ended={"failure": failure, "is_usage": is_usage})
    return 0


def describe(order: Mapping[str, Any], stopping: Stopping) -> None:
    """Tell the machine key of the held device."""
    import torch

    from impls.interface.device_choice import choose
    from suites.measure import allocator
    from suites.measure.environment import machine_key, read_environment

    allocator.make_steady()
    torch.set_num_threads(order["threads"])
    tell(key=machine_key(read_environment(choose(order["device"]).device)))


def begin(order: Mapping[str, Any], stopping: Stopping) -> None:
    """Plan a run on the held device and tell its header; nothing of it is measured."""
    supervisor = Supervisor(_request(order), Telling(), stopping)
    supervisor.begin()
    if (files := supervisor.files) is not None:
        tell(header=files.header)


def measure(order: Mapping[str, Any], stopping: Stopping) -> None:
    """Measure the rows of the order, which are the whole plan of its header."""
    header, launch = dict(order["header"]), order["launch"]
    settings, files = header["settings"], order["files"]
    brought = unpacked(settings.get("brought", ()), files, Path(order["home"]))
    header["settings"] = settings | {"brought": brought}
    path = Path(order["scratch"]) / header["machine_key"] / header["run"]
    path.mkdir(parents=True)
    write_json(path / RUN, header)
    run = RunFiles(path)
    # A later launch repeats what the first one timed, elsewhere.
    run.statuses |= {(row, 1): "ok" for row in run.entries if launch > 1}
    supervisor = Supervisor(_request(order), Telling(), stopping, run)
    try:
        supervisor.measure(launch, list(run.entries))
    finally:
        run.close()


def _request(order: Mapping[str, Any]) -> Request:
    home, folder = Path(order["home"]), Path(order["folder"])
    arguments = unpacked(order["arguments"], order["files"], home)
    # Modules that are brought by name are found where the fleet was asked for, if that is here.
    path = [os.environ.get("PYTHONPATH", ""), *([str(folder)] if folder.is_dir() else [])]
    return Request(
        arguments=(*arguments, "--device", order["device"], "--store", order["scratch"]),
        launches=order["launches"],
        cell_limit_s=order["cell_limit_s"],
        looks_again=order["looks_again"],
        command=PYTEST,
        place=Place(ROOT, Path(order["scratch"]), {"PYTHONPATH": os.pathsep.join(path)}),
    )


def _end_with(parent: int) -> None:
    """Have this process killed when the task's is; the child that measures ends with this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
