"""A fleet at work: which kinds of devices there are, a run for each, and all of them measured."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suites.fleet.asking import POLL_S, ask
from suites.fleet.display import FleetDisplay
from suites.fleet.engine import Engine, Node, Told
from suites.fleet.kind import Kind
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn

GRACE_S = 40.0
"""So long tasks may take to end when the fleet is stopped."""

NewRun = Callable[[Mapping[str, Any], bool], tuple[RunFiles, FleetDisplay]]
"""Of a planned run's header: its run directory, and who is told about it; whether it is one of
several."""


class Fleet:
    """The driver: deals cells to tasks, takes in what they tell, deals again what is lost."""

    def __init__(
        self,
        engine: Engine,
        order: Mapping[str, Any],
        stopping: Stopping,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`order` is what every task is told; `tell` is given warnings. Nothing is started."""
        self._engine, self._order, self._stopping, self._tell = engine, order, stopping, tell
        self._numbers = itertools.count(1)
        self.kinds: list[Kind] = []

    def begin(self, workers: int | None, launches: int, new_run: NewRun) -> None:
        """Have the first node of each kind plan a run.

        Raises:
            CannotGoOn: there is no device, or no plan can be made.
        """
        kinds = self._by_kind(workers)
        for nodes in kinds.values():
            for told in self._ask(nodes[:1], {"do": "begin"}, "header"):
                self._add(nodes, *new_run(told["header"], len(kinds) > 1), launches)

    def go_on(
        self, workers: int | None, launches: int | None, files: RunFiles, display: FleetDisplay
    ) -> None:
        """Measure what a run lacks, on the devices of its kind.

        Raises:
            CannotGoOn: no device here is of that kind.
        """
        kinds = self._by_kind(workers)
        key = files.header["machine_key"]
        if key in kinds:
            self._add(kinds[key], files, display, launches or files.launches)
        elif not self._stopping.is_asked:
            raise CannotGoOn(
                f"run {files.name} was measured on machine {key}, and the devices here are "
                f"{', '.join(kinds)}: start a new run",
                is_usage=True,
            )

    def measure(self) -> None:
        """Measure every kind's run to its end, or until a stop is asked for.

        Raises:
            CannotGoOn: no device finishes anything any more.
            OSError: the disk refused a line.
        """
        try:
            while not self._stopping.is_asked and not all(kind.is_over for kind in self.kinds):
                for kind in self.kinds:
                    kind.deal(self._engine, self._numbers)
                self._heed()
            if failures := [kind.failure for kind in self.kinds if kind.failure]:
                raise CannotGoOn("; ".join(failures))
        finally:
            self._engine.cancel()
        patient_until = time.monotonic() + GRACE_S
        while any(kind.is_at_work for kind in self.kinds) and not self._stopping.is_urgent:
            if time.monotonic() > patient_until:
                return
            self._heed()

    def _heed(self) -> None:
        """Hand what happened to the kind whose task it was."""
        for event in self._engine.happened(POLL_S):
            kind = next(kind for kind in self.kinds if kind.has(event.task))
            if isinstance(event, Told):
                kind.heed(event.task, event.what)
            else:
                # One that was asked to end was not lost.
                kind.ended(event.task, None if self._stopping.is_asked else event.lost)

    def _add(
        self, nodes: Sequence[Node], files: RunFiles, display: FleetDisplay, launches: int
    ) -> None:
        files.lock()
        display.of_run(files.name)
        self.kinds.append(Kind(nodes, files, display, self._order, launches))

    def _by_kind(self, workers: int | None) -> dict[str, list[Node]]:
        """The nodes by the machine key that each told; times of two keys never meet in one run."""
        nodes = _at_most(workers, self._engine.nodes())
        if not nodes:
            cores = self._order["cores"]
            wanted = f"{cores} cores for --threads {cores}" if cores else "such a GPU"
            if kind := self._order.get("accelerator_type"):
                wanted += f" and --accelerator-type {kind}"
            raise CannotGoOn(f"no machine of the fleet has {wanted}", is_usage=True)
        self._tell(f"devices: {sum(n.devices for n in nodes)}, machines: {len(nodes)}")
        kinds: dict[str, list[Node]] = {}
        told = self._ask(nodes, {"do": "describe"}, "key")
        for node, answer in zip(nodes, told, strict=False):
            most = answer["holds"]["cores"] // self._order["threads"]
            # Ray counts hardware threads, and two of one core are one device.
            devices = min(node.devices, most) if self._order["cores"] else node.devices
            kinds.setdefault(answer["key"], []).append(replace(node, devices=devices))
        return kinds

    def _ask(
        self, nodes: Sequence[Node], order: Mapping[str, Any], wanted: str
    ) -> list[dict[str, Any]]:
        whole = {**self._order, **order}
        return ask(self._engine, self._numbers, self._stopping, nodes, whole, wanted, self._tell)


def _at_most(workers: int | None, nodes: Sequence[Node]) -> list[Node]:
    """The first nodes, with as many devices together as are wanted."""
    found, left = [], sum(node.devices for node in nodes) if workers is None else workers
    for node in nodes:
        devices = min(node.devices, left)
        left -= devices
        if devices:
            found.append(replace(node, devices=devices))
    return found
