"""The supervisor: children measure, it restarts after what dies, isolates it and judges it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from suites.measure.journal import row_of
from suites.session.orders import Orders
from suites.supervisor.death import Death, death_of, is_settled, oom_kills, verdict
from suites.supervisor.display import Display
from suites.supervisor.request import Request, in_one_word
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.watch import End, Watch

USAGE_OF_PYTEST = 4
MOST_DEATHS_OF_NOTHING, MOST_KILLS_OF_NOTHING = 3, 10


class CannotGoOn(RuntimeError):
    """Nothing more can be measured; the message says why. `is_usage`: what was asked is wrong."""

    def __init__(self, message: str, *, is_usage: bool = False) -> None:
        """What to print."""
        super().__init__(message)
        self.is_usage = is_usage


@dataclass
class _Suspicions:
    """Who died how often, since the supervisor began."""

    cells: dict[tuple[str, int], list[Death]] = field(default_factory=dict)
    trials: dict[str, list[Death]] = field(default_factory=dict)
    not_probed: set[str] = field(default_factory=set)
    broken: dict[str, tuple[str, str]] = field(default_factory=dict)
    of_nothing: int = 0


class Supervisor:
    """One sweep, from its plan, or from what is left of it, to its end."""

    def __init__(
        self, request: Request, display: Display, stopping: Stopping, files: RunFiles | None = None
    ) -> None:
        """`files` is the run to go on with; None begins a new one."""
        self.request, self.display, self._stopping = request, display, stopping
        self.watch = Watch(request, files, display, stopping)
        self._suspicions = _Suspicions()

    @property
    def files(self) -> RunFiles | None:
        """The run; None until a child has planned one."""
        return self.watch.files

    def run(self) -> None:
        """Measure what is left, however many children it takes.

        Raises:
            CannotGoOn: nothing more can be measured.
            OSError: the disk refused; what is finished stays.
            ValueError: another process writes this run.
        """
        is_told = self.files is None
        if self.files is None:
            self.begin(and_measure=True)
        files = self.files
        if files is None:
            return
        if self.request.retry:
            files.give_another_chance()
        self._suspect_what_was_running(files)
        launches = self.request.launches or files.launches
        files.header["launches"] = launches
        for launch in range(1, launches + 1):
            left = files.left(launch)
            if left and not self._stopping.is_asked and not is_told:
                self.display.begins([files.entries[row] for row in left], launch, launches)
            is_told = False
            while not self._stopping.is_asked and (left := files.left(launch)):
                self._go_on(files, launch, left)

    def measure(self, launch: int, rows: Iterable[str]) -> None:
        """Measure these rows of a launch of the run, in this order, those that it lacks.

        Raises:
            CannotGoOn, OSError, ValueError: as `run` raises them.
        """
        files, wanted = self.files, list(rows)
        assert files is not None, "there is no run yet"
        while not self._stopping.is_asked:
            lacking = set(files.left(launch))
            if not (left := [row for row in wanted if row in lacking]):
                return
            self._go_on(files, launch, left)

    def plan(self) -> list[Any]:
        """The entries of the plan that a new run would have; nothing is measured or written.

        Raises:
            CannotGoOn: no plan can be made.
        """
        while not self._stopping.is_asked:
            end = self._child((), self._orders(is_plan_only=True))
            if end.is_orderly and end.code == 0:
                return end.planned
            self._look_into(end, None)
        return []

    def begin(self, *, and_measure: bool = False) -> None:
        """Children that plan a new run, until one lives to write its plan.

        Raises:
            CannotGoOn: no plan can be made.
        """
        launches = self.request.launches or 1
        while self.files is None and not self._stopping.is_asked:
            before = oom_kills()
            end = self._child((), self._orders(launches=launches, is_begin_only=not and_measure))
            if self.files is None or not end.is_orderly:
                self._look_into(end, before)

    def _go_on(self, files: RunFiles, launch: int, left: list[str]) -> None:
        """One child: alone with a cell under suspicion, else with all that is left."""
        known = self._suspicions.cells
        suspects = [row for row in left if (row, launch) in known]
        files.check_writable()
        orders = self._orders(
            rows=tuple(suspects[:1] or left),
            launch=launch,
            launches=self.request.launches or files.launches,
            lock=files.lock(),
        )
        before = oom_kills()
        end = self._child(("--resume", str(files.path)), orders)
        has_measured = any((row, launch) in files.statuses for row in left)
        if has_measured:
            self._suspicions.of_nothing = 0
        if not end.is_orderly or not has_measured:
            # One that came to its end and measured nothing: another would not either.
            self._look_into(end, before)

    def _child(self, arguments: tuple[str, ...], orders: Orders) -> End:
        return self.watch.run(in_one_word((*self.request.arguments, *arguments)), orders)

    def _look_into(self, end: End, kills_before: int | None) -> None:
        """Who is to blame for a child that died, and whether that was proof enough."""
        if self._stopping.is_asked:
            # It was killed for us: nothing is known against its cell.
            return
        is_refused = end.code == USAGE_OF_PYTEST and not (end.running or end.trying)
        if end.is_orderly or is_refused:
            # Options that pytest does not know end it before it can tell that it came to its end.
            raise CannotGoOn(end.complaint, is_usage=end.code == USAGE_OF_PYTEST)
        is_oom = kills_before is not None and (oom_kills() or 0) > kills_before
        death = death_of(end, is_oom)
        files = self.files
        if files is not None and end.running is not None:
            self._blame_cell(files, end.running, death)
        elif end.trying is not None:
            self._blame_implementation(*end.trying, death)
        else:
            self._blame_nothing(death)

    def _blame_cell(self, files: RunFiles, running: Any, death: Death) -> None:
        row, launch = row_of(running), running.get("launch", 1)
        what = f"{running['implementation']} {running['problem_id']}"
        if (row, launch) in files.statuses or row not in files.entries:
            files.forget_running()
            return
        deaths = self._suspicions.cells.setdefault((row, launch), [])
        deaths.append(death)
        self._suspicions.of_nothing = 0
        if not is_settled(deaths):
            self.display.died(what, death.cause, "once more, alone")
            files.forget_running()
            return
        status, reasons = verdict(deaths)
        self.display.died(what, death.cause, f"{status}; going on with the rest")
        self.display.finished(files.judge(row, launch, status, reasons))

    def _blame_implementation(self, name: str, what: str, death: Death) -> None:
        if what == "speed" and not death.is_from_outside:
            self._suspicions.not_probed.add(name)
            self.display.died(name, death.cause, "its speed is not probed again")
            return
        deaths = self._suspicions.trials.setdefault(name, [])
        deaths.append(death)
        if not is_settled(deaths):
            self.display.died(name, death.cause, "trying it once more")
            return
        status, reasons = verdict(deaths)
        self._suspicions.broken[name] = (status, f"tried with 16 tokens: {'; '.join(reasons)}")
        self.display.died(name, death.cause, f"{status}; going on without it")

    def _blame_nothing(self, death: Death) -> None:
        self._suspicions.of_nothing += 1
        words = f": {' / '.join(death.last_words)}" if death.last_words else ""
        most = MOST_KILLS_OF_NOTHING if death.is_from_outside else MOST_DEATHS_OF_NOTHING
        if self._suspicions.of_nothing >= most:
            n = self._suspicions.of_nothing
            raise CannotGoOn(f"{n} processes died between cells: {death.cause}{words}")
        self.display.died("between cells", f"{death.cause}{words}", "going on")

    def _suspect_what_was_running(self, files: RunFiles) -> None:
        """What a run that is gone on with was at when its process died is tried alone first."""
        files.lock()
        running = files.running()
        if running is None or self.watch.children:
            return
        files.forget_running()
        row, launch = row_of(running), running.get("launch", 1)
        if (row, launch) not in files.statuses and row in files.entries:
            told = Death("the process died while measuring it", "crashed", True, ())
            self._suspicions.cells[row, launch] = [told]

    def _orders(self, **asked: Any) -> Orders:
        suspicions = self._suspicions
        return Orders(
            broken=suspicions.broken,
            not_probed=tuple(sorted(suspicions.not_probed)),
            looks_again=self.request.looks_again,
            **asked,
        )


def finish(supervisor: Supervisor) -> str | None:
    """Write the end of the run and let it go; → what could not be written, None where all was."""
    return None if supervisor.files is None else finish_run(supervisor.files)


def finish_run(files: RunFiles) -> str | None:
    """Write a run's end, interrupted where it lacks cells; → what could not be written."""
    left = any(files.left(launch) for launch in range(1, files.launches + 1))
    with contextlib.closing(files):
        try:
            files.finish(is_interrupted=left)
        except OSError as error:
            return str(error)
    return None
