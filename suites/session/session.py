"""One session of measuring: what is decided before the first cell, and the way of each cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from impls.interface.attention import Implementation, reasons_against
from impls.interface.availability import availability, version_of
from impls.interface.device_choice import Chosen
from suites.measure import allocator, device
from suites.measure.ceilings import ceilings_for
from suites.measure.environment import machine_key, read_environment
from suites.measure.journal import RunDirectory, utc_now
from suites.measure.pace import Pace
from suites.measure.samples import SETTINGS_VERSION, Settings
from suites.session import faults, torch_state
from suites.session.cell import Conditions, measure_cell
from suites.session.header import header
from suites.session.looks import Looks, Sink
from suites.session.options import BUDGETS, Options
from suites.session.plan import Budget, Planned, decide, probe_speeds
from suites.session.resume import Resumed
from suites.session.sink import params_of
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell

Tell = Callable[[str], None]


class Session:
    """A run directory that is being filled, one journal line per finished cell.

    Made once pytest has collected; everything that costs time is in `begin`.
    """

    def __init__(self, options: Options, chosen: Chosen, resumed: Resumed | None) -> None:
        """Nothing is measured or written yet."""
        self.options, self.device, self.notice = options, chosen.device, chosen.notice
        self.resumed = resumed
        self.plan: dict[str, Planned] = {}
        self.counts: dict[str, int] = {}
        self.directory: RunDirectory | None = None
        self._unavailable: dict[str, list[str]] = {}
        self._memory = SubjectMemory()
        self._looks = Looks()
        self._open: dict[str, Any] | None = None
        self.last: Mapping[str, Any] | None = None
        self.is_interrupted = False
        self._run: dict[str, Any] = {}
        self._measured: set[str] = set()
        self._threads_before = torch.get_num_threads()

    def begin(self, cells: Sequence[Cell], store: Path, tell: Tell, is_timed: bool = True) -> None:
        """Settle machine, ceilings and plan, and write them down before the first cell.

        Raises:
            ValueError: the run to resume was measured on another machine.
            OSError: the store cannot be written.
        """
        allocator.make_steady()
        torch.set_num_threads(self.options.threads)
        environment = read_environment(self.device)
        facts = device.describe(self.device)
        tell(f"{facts.name}, {_clock_words(self.device, self.options.threads)}")
        for line in [self.notice, *environment.get("warnings", [])]:
            if line:
                tell(f"WARNING: {line}")
        implementations = list({c.implementation.name: c.implementation for c in cells}.values())
        self._find_unavailable(implementations, tell)
        roofs = self._ceilings(tell)
        key = machine_key(environment)
        settings = self._settings()
        self._conditions = Conditions(
            device=self.device,
            settings=settings,
            ceilings=roofs,
            flop_convention=self.options.flop_convention,
            compile_limit_s=self.options.compile_limit_s,
            is_timed=is_timed,
            pace=Pace() if self.device == "cpu" and self.options.threads == 1 else None,
        )
        if self.resumed is not None:
            self.plan = self.resumed.plan_for(cells, key)
            self.directory = RunDirectory(self.resumed.path)
            self.counts = dict(self.resumed.counts)
            if self.resumed.crashed is not None:
                self._journal_crash(self.resumed.crashed)
            self._run = dict(self.resumed.header) | {"finished_utc": None, "interrupted": False}
        else:
            self.plan = {p.cell.key: p for p in self._decide(cells, implementations, facts)}
            self.directory = RunDirectory.create(store, key, environment.get("commit"))
            self._run = header(
                self.directory.run_id,
                self.options,
                settings,
                environment=environment,
                machine_key=key,
                ceilings=roofs,
                plan=self.plan.values(),
            )
        self._write_run()
        beyond = sum(p.decision == "skip" for p in self.plan.values())
        planned = f"{len(self.to_measure)} cells planned, {beyond} beyond the budget"
        tell(f"run {self.directory.run_id}: {planned}")

    @property
    def to_measure(self) -> dict[str, float]:
        """Seconds planned for each cell, by key; without those that cannot be measured here."""
        chosen = (p for p in self.plan.values() if p.decision == "run")
        return {p.cell.key: p.estimate_s for p in chosen if p.estimate_s}

    def measure(self, cell: Cell, sink: Sink) -> tuple[str, list[str]]:
        """Take one cell as far as it goes; → its status and reasons, already in the journal.

        `sink` takes the samples of an ok cell. What the implementation raises passes through:
        `fail` then closes the cell.
        """
        assert self.directory is not None
        self._open = self._opened(cell)
        planned = self.plan[cell.key]
        if planned.decision == "skip":
            return self._close("skipped", [planned.reason or "not in the plan"])
        name = cell.implementation.name
        if name in self._unavailable:
            return self._close("unavailable", self._unavailable[name])
        needs = () if cell.pass_ == "forward" else ("backward",)
        reasons = reasons_against(cell.implementation, cell.problem, self.device, needs)
        if reasons:
            return self._close("unsupported", reasons)
        self.directory.start(cell.key, name, cell.problem.id, cell.pass_)
        before = torch_state.read()
        try:
            measured = measure_cell(cell, self._conditions, self._memory)
        finally:
            changed = torch_state.put_back(before)
        if changed:
            raise faults.ChangedTorch(f"it changed torch for all: {', '.join(changed)}")
        self._measured.add(name)
        samples = measured.pop("samples")
        told = measured.pop("status"), measured.pop("reasons")
        status, why = self._close(*told, measured)
        if status == "ok" and samples:
            sink.record(samples.samples_s, timer=cell.clock, params=params_of(cell), cell=cell.key)
            self._looks.add(cell, self.last or {}, {**(self.last or {}), "samples": samples}, sink)
        return status, why

    def look_again(self, tell: Tell) -> list[Cell]:
        """Take further looks at short cells, each a new line of its cell; → those turned wrong."""
        assert self.directory is not None
        wrong = self._looks.again(
            self._conditions, self._memory, write=self.directory.append, tell=tell
        )
        self.counts["ok"] = self.counts.get("ok", 0) - len(wrong)
        if wrong:
            self.counts["wrong"] = self.counts.get("wrong", 0) + len(wrong)
        return wrong

    def has_measured(self, names: Collection[str]) -> bool:
        """Whether any cell was measured or checked, of `names` where there are some."""
        return bool(self._measured & set(names) if names else self._measured)

    def fail(self, error: BaseException) -> tuple[str, list[str]] | None:
        """Close the cell whose call raised `error`; None when none was open."""
        if self._open is None:
            return None
        self._memory = SubjectMemory()
        status, reason = faults.classify(error)
        closed = self._close(status, [reason])
        device.empty_cache(self.device)
        return closed

    def finish(self, is_interrupted: bool) -> None:
        """Write the run's end and give the machine back as it was."""
        torch.set_num_threads(self._threads_before)
        self.is_interrupted = is_interrupted
        if self.directory is None:
            return
        self.directory.finished()
        self._run |= {"finished_utc": utc_now(), "interrupted": is_interrupted}
        self._write_run()
        self.directory.close()

    def _journal_crash(self, entry: Mapping[str, Any]) -> None:
        """Name the cell that ended the process, before another one is noted as running."""
        identity = {k: v for k, v in entry.items() if k not in ("decision", "reason", "estimate_s")}
        self._open = {"schema": 1, **identity, "settings_version": SETTINGS_VERSION, "launch": 1}
        self._started = time.monotonic()
        self._close("crashed", ["the process died while measuring it"])

    def _ceilings(self, tell: Tell) -> dict[str, Any]:
        told: list[str] = []

        def progress(what: str) -> None:
            if not told:
                tell("measuring the ceilings, what this machine can do at all (10 s; kept a week)")
            told.append(what)

        roofs = ceilings_for(self.device, self.options.threads, progress=progress)
        if roofs["contended"]:
            load = roofs["foreign_load"]
            tell(
                f"WARNING: other programs took {load:.0%} of the machine while the ceilings were "
                "measured: they are not kept, and % of bound may read high"
            )
        return roofs

    def _find_unavailable(self, implementations: Sequence[Implementation], tell: Tell) -> None:
        for implementation in implementations:
            started = time.monotonic()
            if not implementation.source.startswith("impls/"):
                # It may take the process down: then this line says who.
                tell(f"{implementation.name}: trying it once")
            before = torch_state.read()
            if reasons := availability(implementation, self.device):
                self._unavailable[implementation.name] = reasons
            # Its own cells tell of it; what is probed next must not run with it.
            torch_state.put_back(before)
            if (took := time.monotonic() - started) > 2:
                tell(f"{implementation.name}: tried once ({took:.0f} s)")

    def _decide(
        self, cells: Sequence[Cell], implementations: Sequence[Implementation], facts: Any
    ) -> list[Planned]:
        usable = [i for i in implementations if i.name not in self._unavailable]
        dtype = cells[0].problem.dtype if cells else "float32"
        before = torch_state.read()
        speeds = probe_speeds(usable, self.device, dtype, lambda: device.synchronize(self.device))
        torch_state.put_back(before)
        return decide(
            cells,
            speeds,
            Budget.of(self.options.budget, BUDGETS[self.options.budget]),
            device=self.device,
            unavailable=self._unavailable,
            free_bytes=facts.memory_free_bytes,
        )

    def _settings(self) -> Settings:
        budget = Budget.of(self.options.budget, BUDGETS[self.options.budget])
        limits: dict[str, Any] = {"budget_s": self.options.max_time_s or budget.sampling_s}
        if self.options.min_samples:
            least = self.options.min_samples
            limits |= {"min_samples": least, "least_samples": min(least, 3)}
        return Settings(**limits)

    def _write_run(self) -> None:
        assert self.directory is not None
        self._run["counts"] = dict(self.counts)
        self.directory.write_run(self._run)

    def _opened(self, cell: Cell) -> dict[str, Any]:
        self._started = time.monotonic()
        return (
            {"schema": 1}
            | cell.identity()
            | {
                "settings_version": SETTINGS_VERSION,
                "launch": 1,
                "started_utc": utc_now(),
                "version": version_of(cell.implementation),
            }
        )

    def _close(
        self, status: str, reasons: list[str], measured: Mapping[str, Any] | None = None
    ) -> tuple[str, list[str]]:
        assert self.directory is not None and self._open is not None
        record = self._open | {
            "elapsed_s": time.monotonic() - self._started,
            "status": status,
            "reasons": reasons,
            **(measured or {"flags": [], "timing": None}),
        }
        self._open = None
        self.directory.append(record)
        self.counts[status] = self.counts.get(status, 0) + 1
        self.last = record
        return status, reasons


def _clock_words(device_name: str, threads: int) -> str:
    if device_name == "cuda":
        return "CUDA events"
    return "1 thread, CPU-time clock" if threads == 1 else f"{threads} threads, wall clock"
