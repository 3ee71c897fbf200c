"""What a fleet shows: as a supervised run does, of each run by name where there are several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from suites.supervisor.display import Display, JsonLines, Lines


class FleetDisplay(Display, Protocol):
    """Is told besides who measures."""

    def of_run(self, name: str) -> None:
        """What follows is about this run."""

    def holds(self, held: Mapping[str, Any], cells: int) -> None:
        """A task has its device and so many cells to measure on it."""


class FleetLines(Lines):
    """For people."""

    def __init__(self, is_one_of_several: bool = False) -> None:
        """`is_one_of_several`: lines begin with the run's name."""
        super().__init__()
        self._is_one_of_several, self._name = is_one_of_several, ""

    def of_run(self, name: str) -> None:
        """The name to begin with."""
        self._name = f"{name}: " if self._is_one_of_several else ""

    def holds(self, held: Mapping[str, Any], cells: int) -> None:
        """Which device, and how many cells."""
        self.line(f"{device_of(held)}: {cells} cells")

    def _write(self, line: str) -> None:
        super()._write(self._name + line)


class FleetJsonLines(JsonLines):
    """For machines: each event with its run."""

    _name: str | None = None

    def of_run(self, name: str) -> None:
        """The run of the events that follow."""
        self._name = name

    def holds(self, held: Mapping[str, Any], cells: int) -> None:
        """The task's process, its node and what it holds."""
        self._event("holds", **held, device=device_of(held), cells=cells)

    def _event(self, event: str, **fields: Any) -> None:
        super()._event(event, **({"run": self._name} | fields))


def device_of(held: Mapping[str, Any]) -> str:
    """The device a task holds, "gpu03: GPU 5" or "node7: CPU 2, 3"."""
    cpus = ", ".join(map(str, held["cpus"]))
    return f"{held['node']}: " + (f"CPU {cpus}" if cpus else f"GPU {held['gpus']}")
