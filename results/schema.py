"""The run files: what stands in them and what it means. The one place that says so.

A run is a folder `results/runs/<machine-key>/<utc>-<commit>/`:

- `run.json`: environment, ceilings, settings and the plan, see `results.run`.
- `cells.jsonl`: the journal, one line a finished cell: `Cell` and its parts in
  `results.measured`, or `results.static_profile`.
- `running.json`: the cell being measured, there only meanwhile: `results.run.Running`.
- `launch-<n>.json`: pytest-benchmark's own JSON; nothing here reads it.

All are strict JSON in UTF-8 and SI units. null is "not known" or "not measured", never 0. Fields
that are not known here are left out, so that newer writers may add some; a change of a meaning
raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from impls.interface.problem import PASSES, Problem
from results.measured import Bound, Check, Counters, Counts, DeviceState, Host, Memory, Timing
from results.reading import Place, SchemaError, read_record

SCHEMA_VERSION = 1
STATUSES = (
    *("ok", "wrong", "unsupported", "unavailable", "oom"),
    *("error", "crashed", "timeout", "skipped"),
)
FLAGS = (
    *("host_bound", "near_floor", "throttled", "above_ceiling"),
    *("low_n", "unsteady", "contended", "swapped", "warm", "approximate"),
)
TIMED = ("ok", "wrong")
_SHORTEST_S, _LONGEST_S = 1e-15, 1e9


@dataclass(frozen=True)
class Cell:
    """One implementation on one problem, pass, cache state and clock, in one launch.

    Attributes:
        cell: identity by content: the first 16 hex digits of a SHA-256 over implementation,
            problem, pass, cache, clock and settings version. Never a pytest id.
        suite, series: the sweep that asked for it and its part of it, for figures.
        status: one of `STATUSES`; only "ok" and "wrong" have a timing, and "ok" has a check.
        reasons: why it is not ok, in full.
        flags: what is doubtful about an ok row, from `FLAGS`.
        version: library and version of the implementation.
        repeats: by gradient, "dq", "dk" and "dv": whether a second call on equal inputs gave the
            same bits; null for a pass without a backward.
        ran: the operators or kernels a profile saw, or "unknown".
        counts, counters: what a call is worth by arithmetic, and what was counted of one.
    """

    cell: str
    implementation: str
    problem: Problem
    pass_: str
    cache: str
    clock: str
    settings_version: int
    suite: str
    launch: int
    status: str
    series: str = ""
    started_utc: str | None = None
    elapsed_s: float | None = None
    reasons: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    version: str | None = None
    timing: Timing | None = None
    counts: Counts | None = None
    bound: Bound | None = None
    memory: Memory | None = None
    counters: Counters | None = None
    check: Check | None = None
    repeats: Mapping[str, bool] | None = None
    ran: tuple[str, ...] = ()
    host: Host | None = None
    device_state: DeviceState | None = None

    @property
    def is_deterministic(self) -> bool | None:
        """Whether every gradient came out the same twice, bit by bit; None where none was tried."""
        return all(self.repeats.values()) if self.repeats else None

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What is one row of a run: identity, launch and the series it belongs to."""
        return (self.cell, self.launch, self.suite, self.series)

    @property
    def is_comparable(self) -> bool:
        """May enter best-of, speed-ups, baselines and gates: ok and without a flag."""
        return self.status == "ok" and not self.flags

    @property
    def time_s(self) -> float | None:
        """The median of a call on the cell's clock."""
        return None if self.timing is None else self.timing.median_s

    @property
    def _proven_s(self) -> float | None:
        """The time that a rate may be made of: a wrong result has none, however fast it was."""
        return self.time_s if self.status == "ok" else None

    @property
    def flop_per_s(self) -> float | None:
        """Useful FLOP a second at the median; None for a wrong result."""
        return self.counts.flop / self._proven_s if self.counts and self._proven_s else None

    @property
    def bytes_per_s(self) -> float | None:
        """Compulsory bytes a second at the median; a lower bound of what really moved."""
        moved = self.counts.compulsory_bytes if self.counts else None
        return moved / self._proven_s if moved is not None and self._proven_s else None

    @property
    def intensity(self) -> float | None:
        """FLOP per compulsory byte."""
        if self.counts is None or not self.counts.compulsory_bytes:
            return None
        return self.counts.flop / self.counts.compulsory_bytes

    @property
    def percent_of_bound(self) -> float | None:
        """The headline: 100 where the median is the least time the ceilings allow."""
        return 100.0 * self.bound.time_s / self._proven_s if self.bound and self._proven_s else None


def read_cell(value: Any, place: Place) -> Cell:
    """The cell of one parsed journal line.

    Raises:
        SchemaError: another schema version, a field missing or of another type, an unknown
            status, flag or pass, a timing without "ok" or "wrong", or "ok" without its proof.
    """
    check_version(value, place)
    cell = read_record(Cell, value, place)
    _one_of(cell.status, STATUSES, place.at("status"))
    _one_of(cell.pass_, PASSES, place.at("pass"))
    for flag in cell.flags:
        _one_of(flag, FLAGS, place.at("flags"))
    if cell.status not in TIMED and cell.timing is not None:
        raise SchemaError(f'{place.at("timing")}: expected null beside status "{cell.status}"')
    if cell.status == "ok" and cell.timing is None:
        raise SchemaError(f'{place.at("timing")}: expected an object beside status "ok", got null')
    if cell.timing is not None:
        _times_of_a_clock(cell.timing, place.at("timing"))
    if cell.status == "ok" and not (cell.check and cell.check.ok):
        raise SchemaError(f'{place.at("check")}: status "ok" needs a check that is ok')
    return cell


def _times_of_a_clock(timing: Timing, place: Place) -> None:
    """Refuse seconds that no clock shows: rates of them are negative or infinite.

    Raises:
        SchemaError: one is below 0, above thirty years, or so small that its inverse is none.
    """
    for name in ("median_s", "min_s", "q1_s", "q3_s", "mean_s", "ci_low_s", "ci_high_s"):
        time_s = getattr(timing, name)
        if time_s and not _SHORTEST_S < time_s < _LONGEST_S:
            raise SchemaError(f"{place.at(name)}: expected the seconds of a call, got {time_s:g}")


def check_version(value: Any, place: Place) -> None:
    """Refuse what another schema version wrote, with what to do.

    Raises:
        SchemaError: not an object, no version, or another one.
    """
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise SchemaError(f"{place.at('schema')}: missing, expected the whole number of a version")
    written = value["schema"]
    if written > SCHEMA_VERSION:
        todo = "update the checkout (git pull) to read it"
    else:
        todo = "measure again (make bench), or read it with the commit that run.json names"
    if written != SCHEMA_VERSION:
        raise SchemaError(
            f"{place.at('schema')}: version {written}, this checkout reads {SCHEMA_VERSION}: {todo}"
        )


def _one_of(word: str, known: tuple[str, ...], place: Place) -> None:
    if word not in known:
        raise SchemaError(f'{place}: "{word}" is not known: one of {", ".join(known)}')
