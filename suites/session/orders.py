"""What a supervisor asks of this process, and how it is told; without one, nothing is asked.

`python -m suites run` gives a child one file of orders, by an environment variable, and reads the
notes that the child writes: a line of JSON each.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

VARIABLE = "ATTNBENCH_ORDERS"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Orders:
    """What one child is to do.

    Attributes:
        notes: where the supervisor reads; None without one.
        supervisor: its process id.
        rows: the rows of the plan to measure, in this order; None: all that pytest collects, in a
            new run.
        launch, launches: the number of this launch of the plan, from 1, and how many are wanted.
        broken: status and reason of implementations that ended a process when they were tried.
        not_probed: implementations that ended one when their speed was probed.
        lock: the run directory's lock, an inherited file descriptor.
        is_plan_only: note the plan, measure nothing.
        is_begin_only: write a new run with its plan, measure nothing.
        looks_again: take further looks at short cells; where launches are many, one each will do.
    """

    notes: str | None = None
    supervisor: int | None = None
    rows: tuple[str, ...] | None = None
    launch: int = 1
    launches: int = 1
    broken: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    not_probed: tuple[str, ...] = ()
    lock: int | None = None
    is_plan_only: bool = False
    is_begin_only: bool = False
    looks_again: bool = True

    @property
    def is_supervised(self) -> bool:
        """Whether somebody else ends the run and judges what dies."""
        return self.notes is not None

    def write(self, path: Path) -> None:
        """The file that a child reads; of what is asked alone, so that an older one reads it."""
        asked = {k: v for k, v in asdict(self).items() if v != getattr(UNASKED, k)}
        path.write_text(json.dumps(asked), encoding="utf-8")

    def note(self, **told: Any) -> None:
        """Tell the supervisor one thing."""
        if self.notes is not None:
            line = (json.dumps(told) + "\n").encode()
            descriptor = os.open(self.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    @contextmanager
    def trying(self, implementation: str, what: str) -> Iterator[None]:
        """Name what is called for the first time, so that a crash of it is known by name."""
        self.note(trying=implementation, what=what)
        try:
            yield
        finally:
            self.note(tried=implementation, what=what)


UNASKED = Orders()
"""Those of a process that nobody supervises."""


@functools.cache
def read() -> Orders:
    """The orders of this process, read once; what it starts itself is given none."""
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return UNASKED
    given = json.loads(Path(path).read_text(encoding="utf-8"))
    known = {one.name for one in fields(Orders)}
    if unknown := sorted(set(given) - known):
        # Of a supervisor of another revision: `suites ab` has one for both.
        raise SystemExit(f"ERROR: this revision is too old to be asked for {', '.join(unknown)}")
    orders = Orders(**given)
    if orders.lock is not None:
        os.set_inheritable(orders.lock, False)
    if orders.supervisor is not None:
        _end_with(orders.supervisor)
    return orders


def _end_with(parent: int) -> None:
    """Have this process killed when its parent ends; else it would hold the run for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
