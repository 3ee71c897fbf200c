"""What a fleet asks of the engine that has the devices; Ray is one, a test may be another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Node:
    """A machine: the engine's name for it, the user's, and how many devices it has."""

    id: str
    name: str
    devices: int


@dataclass(frozen=True)
class Told:
    """A task told one thing, as `worker` says it."""

    task: int
    what: Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """A task is over: by itself, or `lost` says how its worker was lost."""

    task: int
    lost: str | None = None


class Engine(Protocol):
    """Machines with devices, and tasks that hold one each."""

    def nodes(self) -> Sequence[Node]:
        """The machines that have a device of the kind that was asked for."""
        ...

    def start(self, task: int, node: Node, order: Mapping[str, Any]) -> None:
        """Have a task of this number carry out an order there, as soon as a device is free."""
        ...

    def happened(self, limit_s: float) -> Sequence[Told | Ended]:
        """What the tasks told since the last call, each in its order, the end last.

        Waits for the first, `limit_s` at most.

        Raises:
            CannotGoOn: the engine is gone.
        """
        ...

    def cancel(self) -> None:
        """Ask every task to end; what they still tell is told by `happened`."""
        ...
