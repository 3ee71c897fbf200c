"""A run: what `run.json` and `running.json` say, and the run as it is read with its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from impls.interface.problem import Problem
from results.reading import Place, read_record
from results.schema import STATUSES, Cell, check_version
from results.static_profile import StaticProfile


@dataclass(frozen=True)
class GemmProvider:
    """What one way to multiply matrices reached: best and median window."""

    flop_per_s: float
    median_flop_per_s: float | None = None
    spaced_flop_per_s: float | None = None


@dataclass(frozen=True)
class Gemm:
    """The compute ceiling of one dtype: the best provider's best window, at `size`³.

    `spaced_flop_per_s`: on a GPU, measured with pauses as cells are; bounds use it.
    """

    flop_per_s: float
    provider: str
    median_flop_per_s: float | None = None
    size: int | None = None
    spaced_flop_per_s: float | None = None
    providers: Mapping[str, GemmProvider] = field(default_factory=dict)

    @property
    def bound_flop_per_s(self) -> float:
        """What a cell's bound is made of."""
        return self.flop_per_s if self.spaced_flop_per_s is None else self.spaced_flop_per_s


@dataclass(frozen=True)
class Bandwidth:
    """The ceiling of one memory level: the better of copy (read + write) and read only."""

    bytes_per_s: float
    provider: str
    copy_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    spaced_bytes_per_s: float | None = None
    working_set_bytes: int | None = None
    capacity_bytes: int | None = None

    @property
    def bound_bytes_per_s(self) -> float:
        """What a cell's bound is made of."""
        return self.bytes_per_s if self.spaced_bytes_per_s is None else self.spaced_bytes_per_s


@dataclass(frozen=True)
class ExpRate:
    """Exponentials a second: the line 4·d_h·exp_per_s of useful FLOP/s, never part of a bound."""

    exp_per_s: float
    median_exp_per_s: float | None = None


@dataclass(frozen=True)
class Datasheet:
    """The published dense peaks of the device, drawn beside what was measured, never mixed in."""

    key: str
    source: str
    confidence: str
    fp32_flop_per_s: float | None = None
    tf32_flop_per_s: float | None = None
    bf16_flop_per_s: float | None = None
    fp16_flop_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class Ceilings:
    """The roofs measured on this machine: `gemm` and `exp` by dtype, `bandwidth` by level."""

    device: str
    gemm: Mapping[str, Gemm]
    bandwidth: Mapping[str, Bandwidth]
    exp: Mapping[str, ExpRate] = field(default_factory=dict)
    device_name: str | None = None
    threads: int | None = None
    measured_utc: str | None = None
    contended: bool | None = None
    foreign_load: float | None = None
    clock: str | None = None
    datasheet: Datasheet | None = None


@dataclass(frozen=True)
class Settings:
    """How it was measured; `all` has every setting that was written, for printing."""

    settings_version: int
    budget: str | None = None
    threads: int | None = None
    flop_convention: str = "exact"
    baseline: str | None = None
    all: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """One cell of the plan, written before the first is measured.

    `decision` is "run" or "skip".
    """

    cell: str
    implementation: str
    problem: Problem
    pass_: str
    cache: str
    clock: str
    suite: str
    decision: str
    series: str = ""
    reason: str | None = None
    estimate_s: float | None = None


@dataclass(frozen=True)
class Running:
    """The cell that is being measured and the process that does it (`running.json`).

    `pid_started` is the process's creation time, seconds since 1970: a pid alone is used again.
    """

    cell: str
    implementation: str
    problem_id: str
    pass_: str
    pid: int
    pid_started: float | None = None
    started_utc: str | None = None
    launch: int = 1
    suite: str = "unknown"
    series: str = ""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """The row it will have, as `Cell.key` says it."""
        return (self.cell, self.launch, self.suite, self.series)


@dataclass(frozen=True)
class Part:
    """One run that a merged run was made of."""

    run: str
    created_utc: str | None = None
    shard: str | None = None


@dataclass(frozen=True)
class Header:
    """What `run.json` says of a run; `kind` is "timed", or "static" where code was only read.

    `shard` is "2/5" where it is a part of a sweep; `merged` are the runs that it was made of.
    `doubts` are brought implementations that were found wrong before the first cell, each with
    what is wrong, although cells may be right.
    """

    run: str
    created_utc: str
    machine_key: str
    device: str
    settings: Settings
    kind: str = "timed"
    finished_utc: str | None = None
    interrupted: bool = False
    commit: str | None = None
    dirty: bool | None = None
    command: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    plan: tuple[Planned, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    shard: str | None = None
    merged: tuple[Part, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run as it is read: its header, its cells in journal order, and what reading it met.

    Attributes:
        state: "finished", "interrupted", "in progress", "crashed", or "unfinished" where nothing
            tells whether it still goes on.
        notes: what a reader should know of the files, "1 line … cut short" for instance.
        running: the cell being measured now, where the run is in progress.
        profiles: the static profiles among the lines of the journal: `cells` has the others.
    """

    path: Path
    header: Header
    cells: tuple[Cell, ...]
    state: str
    notes: tuple[str, ...] = ()
    running: Running | None = None
    profiles: tuple[StaticProfile, ...] = ()

    @property
    def name(self) -> str:
        """The run's own name, `<utc>-<commit>`."""
        return self.header.run

    @property
    def baseline(self) -> str:
        """The implementation the others are set against."""
        return self.header.settings.baseline or "naive"

    @property
    def has_baseline(self) -> bool:
        """Whether ratios are wanted, or can be had: not of a run with `--baseline none`."""
        named = self.header.settings.baseline is not None
        return named or any(cell.implementation == self.baseline for cell in self.cells)

    @property
    def comparable_cells(self) -> tuple[Cell, ...]:
        """The cells that may enter best-of and speed-ups: ok and without a flag."""
        return tuple(cell for cell in self.cells if cell.is_comparable)

    @property
    def trusted_cells(self) -> tuple[Cell, ...]:
        """The comparable cells of implementations that gave no wrong result, in cells or before."""
        wrong = {cell.implementation for cell in self.cells if cell.status == "wrong"}
        wrong |= set(self.header.doubts)
        return tuple(c for c in self.comparable_cells if c.implementation not in wrong)

    @property
    def launches(self) -> int:
        """How many launches the cells come from; a figure of one describes and infers nothing."""
        return len({cell.launch for cell in self.cells})

    @property
    def counts(self) -> dict[str, int]:
        """Cells and profiles by status, in the order of `STATUSES`, without zeros."""
        return count_statuses((*self.cells, *self.profiles))


def count_statuses(cells: Iterable[Cell | StaticProfile]) -> dict[str, int]:
    """Cells by status, in the order of `STATUSES`, without zeros."""
    counted = Counter(cell.status for cell in cells)
    return {status: counted[status] for status in STATUSES if counted[status]}


def read_header(value: Any, place: Place) -> Header:
    """The header out of a parsed `run.json`.

    Raises:
        SchemaError: another schema version, or a field missing or of another type.
    """
    check_version(value, place)
    settings = value.get("settings")
    if isinstance(settings, dict):
        value = value | {"settings": settings | {"all": settings}}
    return read_record(Header, value, place)
