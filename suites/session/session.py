"""One session of measuring: what is decided before the first cell, and the way of each cell."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from impls.interface import torch_state
from impls.interface.attention import Implementation, reasons_against
from impls.interface.availability import version_of
from impls.interface.device_choice import Chosen
from suites.measure import allocator, device, trust
from suites.measure.environment import machine_key, read_environment
from suites.measure.journal import DECIDED, RunDirectory, utc_now
from suites.measure.pace import Pace
from suites.measure.samples import SETTINGS_VERSION, Settings
from suites.session import faults, orders
from suites.session.cell import Conditions, measure_cell
from suites.session.dealing import part_of
from suites.session.header import header
from suites.session.looks import Looks, Sink
from suites.session.memory_needed import asked_for, shortage
from suites.session.options import Options
from suites.session.plan import Budget, Planned, decide
from suites.session.resume import Resumed
from suites.session.sink import params_of
from suites.session.speeds import probe_speeds
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell
from suites.session.trials import Tell, roofs_of, try_each


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
        self.orders = orders.read()
        self._budget = Budget.of(options.budget, options.planned_s, options.seconds)
        self._unavailable: dict[str, tuple[str, list[str]]] = {}
        self._memory = SubjectMemory()
        self.looks = Looks()
        self._open: dict[str, Any] | None = None
        self.last: Mapping[str, Any] | None = None
        self.is_interrupted = False
        self.lost: str | None = None
        self._run: dict[str, Any] = {}
        self._measured: set[str] = set()
        self._n_left = 0
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
        self._unavailable, doubts = try_each(
            implementations, self.device, tell, self.orders, self.options.compile_limit_s
        )
        if self.orders.is_plan_only:
            for planned in self._decide(cells, implementations, facts):
                self.orders.note(planned=planned.to_json())
            return
        resumed = self.resumed.header if self.resumed else None
        roofs = resumed["ceilings"] if resumed else roofs_of(self.device, self.options, tell)
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
            self.directory = self.resumed.taken(self.orders.lock)
            self.counts = dict(self.resumed.counts)
            if self.resumed.crashed is not None:
                self._journal_crash(self.resumed.crashed)
            self._run = dict(self.resumed.header) | {"finished_utc": None, "interrupted": False}
        else:
            self.plan = {p.cell.row: p for p in self._decide(cells, implementations, facts)}
            self.directory = RunDirectory.create(store, key, environment.get("commit"))
            self._run = header(
                self.directory.run_id,
                self.options,
                settings,
                environment=environment,
                machine_key=key,
                ceilings=roofs,
                plan=self.plan.values(),
                doubts=doubts,
            )
        self._n_left = len(self.plan)
        self.looks.end_after(sum(self.to_measure.values()) if resumed else self._budget.longest_s)
        self._write_run()
        self.orders.note(run=str(self.directory.path))
        beyond = sum(p.decision == "skip" for p in self.plan.values())
        planned = f"{len(self.to_measure)} cells planned, {beyond} beyond the budget"
        tell(f"run {self.directory.run_id}: {planned}")

    @property
    def to_measure(self) -> dict[str, float]:
        """Seconds planned for each cell, by row; without those that cannot be measured here."""
        chosen = (p for p in self.plan.values() if p.decision == "run")
        return {p.cell.row: p.estimate_s for p in chosen if p.estimate_s}

    def measure(self, cell: Cell, sink: Sink) -> tuple[str, list[str]]:
        """Take one cell as far as it goes; → its status and reasons, already in the journal.

        `sink` takes the samples of an ok cell. What the implementation raises passes through:
        `fail` then closes the cell.
        """
        assert self.directory is not None
        self._open = self._opened(cell)
        planned = self.plan[cell.row]
        if planned.decision == "skip":
            return self._close("skipped", [planned.reason or "not in the plan"])
        name = cell.implementation.name
        if name in self._unavailable:
            return self._close(*self._unavailable[name])
        needs = () if cell.pass_ == "forward" else ("backward",)
        reasons = reasons_against(cell.implementation, cell.problem, self.device, needs)
        if reasons:
            return self._close("unsupported", reasons)
        device.empty_cache(self.device)
        if short := shortage(cell, self.device):
            return self._close("oom", [short])
        self.directory.start(cell.identity(), cell.problem.id, self.orders.launch)
        before, trusted = torch_state.read(), trust.read(self.device)
        try:
            measured = measure_cell(cell, self._conditions, self._memory)
        finally:
            changed = torch_state.put_back(before)
        if changed:
            raise faults.ChangedTorch(f"it changed for all: {', '.join(changed)}")
        self._measured.add(name)
        measured = trust.told(measured, trusted, trust.read(self.device))
        samples = measured.pop("samples")
        told = measured.pop("status"), measured.pop("reasons")
        status, why = self._close(*told, measured)
        if status == "ok" and samples:
            sink.record(samples.samples_s, timer=cell.clock, params=params_of(cell), cell=cell.key)
            self.looks.add(cell, self.last or {}, {**(self.last or {}), "samples": samples}, sink)
        return status, why

    def look_again(self, tell: Tell) -> list[Cell]:
        """Take further looks at short cells, each a new line of its cell; → those turned wrong."""
        assert self.directory is not None
        wrong = self.looks.again(
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
        self.lost = device.reason_unusable(self.device)
        if self.lost is None:
            device.empty_cache(self.device)
            if status == "oom":
                reason += f" ({asked_for(self._cell, self.device)})"
        return self._close(status, [reason, *([self.lost] if self.lost else [])])

    def finish(self, is_interrupted: bool) -> None:
        """Write the run's end and give the machine back as it was.

        A run that lacks nothing but further looks is finished.
        """
        torch.set_num_threads(self._threads_before)
        self.is_interrupted = is_interrupted and self._n_left > 0
        if self.directory is None:
            return
        self.directory.finished()
        if not self.orders.is_supervised:
            self._run |= {"finished_utc": utc_now(), "interrupted": self.is_interrupted}
        self._write_run()
        self.directory.close()

    def _journal_crash(self, entry: Mapping[str, Any]) -> None:
        """Name the cell that ended the process, before another one is noted as running."""
        identity = {k: v for k, v in entry.items() if k not in DECIDED}
        self._open = {
            "schema": 1,
            **identity,
            "settings_version": SETTINGS_VERSION,
            "launch": self.orders.launch,
        }
        self._started = time.monotonic()
        self._close("crashed", ["the process died while measuring it"])

    def _decide(
        self, cells: Sequence[Cell], implementations: Sequence[Implementation], facts: Any
    ) -> list[Planned]:
        usable = [i for i in implementations if i.name not in self._unavailable]
        dtypes = sorted({cell.problem.dtype for cell in cells})
        with torch_state.kept():
            speeds = probe_speeds(
                usable, self.device, dtypes, lambda: device.synchronize(self.device), self.orders
            )
        plan = decide(
            cells,
            speeds,
            self._budget,
            device=self.device,
            unavailable={name: why for name, (_, why) in self._unavailable.items()},
            free_bytes=facts.memory_free_bytes,
        )
        shard = self.options.shard
        return plan if shard is None else part_of(plan, shard, self._budget, self.device)

    def _settings(self) -> Settings:
        if self.resumed is not None:
            # One run, one way of measuring: whatever is asked for now.
            was = self.resumed.header["settings"]
            return Settings(**{f.name: was[f.name] for f in fields(Settings) if f.name in was})
        limits: dict[str, Any] = {"budget_s": self.options.max_time_s or self._budget.sampling_s}
        if self.options.min_samples:
            least = self.options.min_samples
            limits |= {"min_samples": least, "least_samples": min(least, 3)}
        return Settings(**limits)

    def _write_run(self) -> None:
        assert self.directory is not None
        self._run["counts"] = dict(self.counts)
        self.directory.write_run(self._run)

    def _opened(self, cell: Cell) -> dict[str, Any]:
        self._cell = cell
        self._started = time.monotonic()
        return (
            {"schema": 1}
            | cell.identity()
            | {
                "settings_version": SETTINGS_VERSION,
                "launch": self.orders.launch,
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
        self._n_left -= 1
        self.counts[status] = self.counts.get(status, 0) + 1
        self.last = record
        return status, reasons


def _clock_words(device_name: str, threads: int) -> str:
    if device_name == "cuda":
        return "CUDA events"
    return "1 thread, CPU-time clock" if threads == 1 else f"{threads} threads, wall clock"
