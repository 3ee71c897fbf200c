"""The launches of both sides: rehearsed once, then measured by turns in fresh processes."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.ab import schedule
from suites.ab.children import request_of
from suites.ab.manifest import Manifest
from suites.measure.atomic_file import write_json
from suites.measure.journal import RUN
from suites.session.run_on_disk import read_header
from suites.supervisor.run_files import TIMED, RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn, Supervisor, finish


class Quiet:
    """Shows warnings and deaths of children on stderr; what each cell took is not told."""

    def line(self, text: str) -> None:
        """A notice of a child."""
        if text.startswith("WARNING"):
            say(text)

    def begins(self, entries: Iterable[Mapping[str, Any]], launch: int, launches: int) -> None:
        """A launch."""

    def started(self, entry: Mapping[str, Any]) -> None:
        """A cell."""

    def finished(self, record: Mapping[str, Any]) -> None:
        """A line of the journal."""

    def died(self, what: str, cause: str, then: str) -> None:
        """A child's death."""
        say(f"{what}: {cause}: {then}")

    def ends(self, told: Mapping[str, Any]) -> None:
        """A run's end."""


def say(text: str) -> None:
    """A line on stderr: stdout is the verdict's."""
    print(f"attnbench: {text}", file=sys.stderr, flush=True)


class Launches:
    """The two runs of a comparison and who goes on with them."""

    def __init__(
        self, manifest: Manifest, folder: Path, stopping: Stopping, child: Sequence[str]
    ) -> None:
        """Nothing is started yet."""
        self.start_s: float | None = None
        self._child = child
        self.manifest, self.folder, self._stopping = manifest, folder, stopping
        self._is_anonymous = manifest.kind == "implementations"
        self._sides: dict[str, Supervisor] = {}

    def rehearse(self) -> tuple[float, dict[str, float]]:
        """Measure each side once, for its plan; → seconds of a launch's start and of each cell.

        Raises:
            CannotGoOn: a side cannot be measured.
        """
        starts_s: list[float] = []
        cells_s: dict[str, float] = {}
        for side in schedule.SIDES:
            began = time.monotonic()
            store = self.folder / f"rehearsed-{side}"
            # What a rehearsal that was cut short left.
            shutil.rmtree(store, ignore_errors=True)
            request = request_of(self.manifest, side, store, self._child)
            supervisor = Supervisor(request, Quiet(), self._stopping)
            try:
                supervisor.run()
            except CannotGoOn as error:
                raise _of_side(side, error) from None
            finally:
                finish(supervisor)
            files = supervisor.files
            if files is None or self._stopping.is_asked:
                return 0.0, {}
            wall_s, spent_s = time.monotonic() - began, 0.0
            for record in RunFiles(files.path).grown():
                name = self._name(record)
                cells_s[name] = max(cells_s.get(name, 0.0), record.get("elapsed_s") or 0.0)
                spent_s += record.get("elapsed_s") or 0.0
            starts_s.append(max(1.0, wall_s - spent_s))
        return min(starts_s, default=0.0), cells_s

    def begin(self) -> None:
        """Make the run of each side out of the plan of its rehearsal, or go on with it."""
        for side in schedule.SIDES:
            (planned,) = (self.folder / f"rehearsed-{side}").glob(f"*/*/{RUN}")
            place = self.folder / side / planned.parent.parent.name / planned.parent.name
            if not (place / RUN).exists():
                launches = self.manifest.screen + self.manifest.confirm
                fresh = {"finished_utc": None, "interrupted": False, "counts": {}}
                fresh |= {"launches": launches}
                place.mkdir(parents=True, exist_ok=True)
                write_json(place / RUN, read_header(planned.parent) | fresh)
            files = RunFiles(place)
            files.grown()
            files.lock()
            files.forget_running()
            request = request_of(self.manifest, side, self.folder / side, self._child)
            self._sides[side] = Supervisor(request, Quiet(), self._stopping, files)

    def measure(
        self,
        first: int,
        launches: int,
        names: Iterable[str] | None = None,
        *,
        until: tuple[float, int] | None = None,
    ) -> None:
        """So many launches a side from number `first` on, of these cells or of all.

        `until` is a monotonic time at which to stop although launches are due, and how many a side
        there must be for it.

        Raises:
            CannotGoOn, OSError: a side cannot be gone on with.
        """
        wanted = None if names is None else set(names)
        due = schedule.turns(first, launches)
        began = time.monotonic()
        for done, turn in enumerate(due):
            spent_s = time.monotonic() - began
            if done in (2, len(due) // 2):
                left_s = spent_s / done * (len(due) - done)
                say(f"{done} of {len(due)} launches, about {clock(left_s)} left")
            is_even = done % 2 == 0 and until is not None and done // 2 >= until[1]
            if is_even and until is not None and time.monotonic() > until[0]:
                say(f"the time limit is reached: {done // 2} launches a side, not {launches}")
                return
            if self._stopping.is_asked:
                return
            self._turn(turn, wanted)

    def finish(self) -> None:
        """Write the end of both runs."""
        for supervisor in self._sides.values():
            if supervisor.files is not None:
                supervisor.files.finish(is_interrupted=self._stopping.is_asked)
                supervisor.files.close()

    @property
    def has_timed_both(self) -> bool:
        """Whether a cell was timed on both sides when they were rehearsed, flagged or not."""
        return bool(set.intersection(*(self._timed(side) for side in schedule.SIDES)))

    def _timed(self, side: str) -> set[str]:
        runs = (self.folder / f"rehearsed-{side}").glob(f"*/*/{RUN}")
        records = [record for run in runs for record in RunFiles(run.parent).grown()]
        return {self._name(r) for r in records if r["status"] in TIMED and r.get("timing")}

    def implementation_of(self, side: str) -> str:
        """The implementation that a side is of, as its rehearsal's plan calls it."""
        (planned,) = (self.folder / f"rehearsed-{side}").glob(f"*/*/{RUN}")
        names = {entry["implementation"] for entry in read_header(planned.parent)["plan"]}
        if len(names) != 1:
            raise CannotGoOn(f"{side} has no cell of its own: {', '.join(sorted(names)) or 'none'}")
        return names.pop()

    def _turn(self, turn: schedule.Turn, wanted: set[str] | None) -> None:
        supervisor = self._sides[turn.side]
        files = supervisor.files
        assert files is not None, "a run was begun for each side"
        rows: dict[str, list[str]] = {}
        for row, entry in files.entries.items():
            rows.setdefault(self._name(entry), []).append(row)
        names = schedule.ordered(rows, self.manifest.seed, turn.launch)
        asked = [row for name in names if wanted is None or name in wanted for row in rows[name]]
        began, before = time.monotonic(), len(files.statuses)
        try:
            supervisor.measure(turn.launch, asked)
        except CannotGoOn as error:
            raise _of_side(turn.side, error) from None
        if self.start_s is None and len(files.statuses) > before:
            cells_s = sum(self.manifest.cells_s.get(name, 0.0) for name in names)
            self.start_s = max(0.1, time.monotonic() - began - cells_s)

    def _name(self, entry: Mapping[str, Any]) -> str:
        return schedule.name_of(entry, is_anonymous=self._is_anonymous)


class HeadCannot(CannotGoOn):
    """Head cannot be measured as base was: it lacks an implementation, for instance."""


def _of_side(side: str, error: CannotGoOn) -> CannotGoOn:
    if side == "head" and error.is_usage:
        return HeadCannot(f"head cannot be measured as base was: {error}")
    return CannotGoOn(f"{side}: {error}", is_usage=error.is_usage)


def clock(seconds: float) -> str:
    """Minutes and seconds, "2:05"."""
    return f"{int(seconds + 0.5) // 60}:{int(seconds + 0.5) % 60:02d}"
