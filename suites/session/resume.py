"""Going on with a run: its plan, what of it is done, and the cells it would have had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from impls.interface.attention import Implementation
from impls.interface.problem import Problem
from suites.measure.journal import CELLS, RUNNING, RunDirectory, row_of
from suites.session.plan import Planned
from suites.session.run_on_disk import find, read_header, record_of, text_of
from suites.session.sweep import Cell


@dataclass(frozen=True)
class Resumed:
    """A run directory to go on with.

    `done` are the rows of its finished cells, `counts` those by status; `crashed` is the plan's
    entry of the cell its process died in, which is not tried again.
    """

    path: Path
    header: Mapping[str, Any]
    done: frozenset[str]
    counts: Mapping[str, int]
    crashed: Mapping[str, Any] | None

    @property
    def is_finished(self) -> bool:
        """Whether its end was written; without it a run may lack that alone."""
        return bool(self.header.get("finished_utc")) and not self.header.get("interrupted")

    @property
    def folder(self) -> str | None:
        """The folder it was begun in; None of a run that does not say."""
        return self.header.get("environment", {}).get("folder")

    @property
    def brought(self) -> tuple[str, ...]:
        """The kernels the run was given by a string, paths from the folder it was begun in."""
        return tuple(self._from_here(text) for text in self.header["settings"].get("brought", ()))

    def taken(self, lock: int | None) -> RunDirectory:
        """The run's directory, to go on in; `lock` as of `RunDirectory`.

        Raises:
            ValueError: another process writes this run, or did since it was read.
            OSError: it may only be read.
        """
        directory = RunDirectory(self.path, lock)
        if lock is None and resume(self.path.parent, str(self.path)).done != self.done:
            directory.close()
            told = f"run {self.path.name} was gone on with by another process meanwhile"
            raise ValueError(f"{told}: type this again")
        return directory

    def _from_here(self, text: str) -> str:
        place, _, function = text.rpartition(":")
        is_path = place.endswith(".py") or "/" in place
        if self.folder is None or not is_path:
            return text
        return f"{Path(self.folder) / Path(place).expanduser()}:{function}"

    def cells(self, suite: str, known: Mapping[str, Implementation]) -> list[Cell]:
        """The cells of one suite that are not done yet, in the plan's order.

        Raises:
            ValueError: the plan names an implementation that is not here.
        """
        left = []
        for entry in self.header["plan"]:
            if entry["suite"] != suite or row_of(entry) in self.done or entry is self.crashed:
                continue
            name = entry["implementation"]
            if name not in known:
                raise ValueError(f'run {self.path.name} measures "{name}", which is not here')
            problem = Problem.from_json(entry["problem"])
            where = (entry["pass"], entry["cache"], entry["clock"], suite, entry["series"])
            left.append(Cell(known[name], problem, *where))
        return left

    def plan_for(self, cells: Sequence[Cell], key: str) -> dict[str, Planned]:
        """The run's own decisions for `cells`, by row.

        Raises:
            ValueError: this is not the machine the run was measured on.
        """
        if self.header["machine_key"] != key:
            raise ValueError(
                f"run {self.path.name} was measured on machine {self.header['machine_key']} and "
                f"this is {key}: start a new run"
            )
        decided = {row_of(entry): entry for entry in self.header["plan"]}
        plan = {}
        for cell in cells:
            entry = decided[cell.row]
            plan[cell.row] = Planned(
                cell, entry["decision"], entry["reason"], entry["estimate_s"] or 0.0
            )
        return plan


def resume(runs: Path, name: str) -> Resumed:
    """The run called `name` under the folder `runs`, or the one at a path; see `run_on_disk`.

    Raises:
        ValueError: there is none; the message lists the newest ones.
    """
    path = find(runs, name)
    header = read_header(path)
    lines = text_of(path / CELLS).split("\n")
    records = [record for line in lines if (record := record_of(line))]
    # A cell that was looked at again has several lines: the last one counts.
    latest = {(row_of(record), record.get("launch", 1)): record for record in records}
    done = frozenset(row for row, launch in latest if launch == 1)
    counts = Counter(str(record.get("status")) for record in latest.values())
    lost = record_of(text_of(path / RUNNING))
    if lost and lost.get("launch", 1) != 1:
        lost = None
    crashed = (e for e in header["plan"] if lost and row_of(e) == row_of(lost))
    return Resumed(
        path, header, done, counts, next((e for e in crashed if row_of(e) not in done), None)
    )


def ordered(resumed: Resumed, rows: Collection[str]) -> Resumed:
    """The run as a supervisor wants it gone on with: `rows` alone, and nothing judged here."""
    others = frozenset(map(row_of, resumed.header["plan"])).difference(rows)
    return replace(resumed, done=others, crashed=None)
