"""Further looks at short cells, some time later, so that one bad second does not decide."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from impls.interface.failures import failures
from suites.measure.pace import Pace
from suites.measure.samples import Samples, pooled
from suites.session.cell import Conditions, look_again
from suites.session.progress import time_left
from suites.session.record import timed_again
from suites.session.subject import SubjectMemory
from suites.session.sweep import Cell

LOOKS = 6
LEAST_LOOKS = 3
"""So many are taken even where the time planned is spent."""
MOST_LOOKS = 9
"""A cell that was often disturbed is looked at so many times."""
ENOUGH_UNDISTURBED = 4
SHORT_S = 1.2
"""Samples that span so long have met good and bad moments already."""


class Sink(Protocol):
    """Takes the samples of a cell: pytest-benchmark's fixture."""

    def record(self, samples_s: Any, **named: Any) -> None:
        """The samples of the first look."""

    def replace(self, samples_s: Any) -> None:
        """Those of all looks, in its place."""


@dataclass
class _Seen:
    cell: Cell
    record: Mapping[str, Any]
    fields: Mapping[str, Any]
    sink: Sink
    looks: list[Samples]
    look_s: float


class Looks:
    """The cells to be looked at again, in the order they were measured."""

    def __init__(self) -> None:
        """None yet."""
        self._seen: list[_Seen] = []
        self.are_cut_short = False
        self._until = math.inf

    def end_after(self, seconds: float) -> None:
        """From now on: a round of looks that would take longer than that is not begun."""
        self._until = time.monotonic() + seconds

    def due_s(self) -> float:
        """Seconds that the looks still to come will take, as long as the last of each cell did."""
        due = [seen for seen in self._seen if len(seen.looks) < LOOKS]
        whole_s = sum(seen.look_s * (LOOKS - len(seen.looks)) for seen in due)
        least_s = sum(seen.look_s * (LEAST_LOOKS - len(seen.looks)) for seen in due)
        return min(whole_s, max(least_s, self._until - time.monotonic(), 0.0))

    def add(
        self, cell: Cell, record: Mapping[str, Any], fields: Mapping[str, Any], sink: Sink
    ) -> None:
        """Note an ok cell, its journal record and its measured fields, when another look pays.

        It does not for long calls, nor where a look would cost a compilation, nor where the series
        does without.
        """
        samples: Samples = fields["samples"]
        span_s = samples.calls_per_sample * sum(samples.wall_samples_s or samples.samples_s)
        is_meant = cell.is_looked_at_again and not cell.implementation.needs_compiler
        if span_s < SHORT_S and is_meant:
            self._seen.append(_Seen(cell, record, fields, sink, [samples], span_s))

    def again(
        self,
        conditions: Conditions,
        memory: SubjectMemory,
        *,
        write: Callable[[Mapping[str, Any]], None],
        tell: Callable[[str], None],
    ) -> list[Cell]:
        """Take the further looks; `write` gets each cell's new record. → Cells that turned wrong.

        A look that raises changes nothing: the cell's earlier record stands.
        """
        brief = replace(conditions.settings, min_samples=4, least_samples=2, overrun=3.0)
        conditions = replace(conditions, settings=brief)
        wrong: list[Cell] = []
        self.are_cut_short = True
        for look in range(2, MOST_LOOKS + 1):
            due = [s for s in self._seen if look <= LOOKS or _is_in_doubt(s, conditions.pace)]
            if not due:
                break
            if look > LEAST_LOOKS and not self._has_time_for(due):
                tell(f"no further looks: the time planned is spent after {look - 1}")
                break
            told = f"looking again at {len(due)} short cells ({_words(look)})"
            tell(f"{told}  {time_left(self.due_s())}")
            for seen in due:
                started = time.monotonic()
                with suppress(*failures()):
                    fields = look_again(seen.cell, seen.fields, conditions, memory)
                    _take_in(seen, fields, conditions)
                    if seen.fields["status"] != "ok":
                        wrong.append(seen.cell)
                        self._seen.remove(seen)
                    journalled = {k: v for k, v in seen.fields.items() if k != "samples"}
                    seen.record = {**seen.record, **journalled}
                    write(seen.record)
                    seen.sink.replace(seen.fields["samples"].samples_s)
                seen.look_s = time.monotonic() - started
        self.are_cut_short = False
        return wrong

    def _has_time_for(self, due: list[_Seen]) -> bool:
        return time.monotonic() + sum(seen.look_s for seen in due) <= self._until


def undisturbed(looks: list[Samples], pace: Pace | None) -> list[Samples]:
    """The looks during which the machine kept its pace; all of them where fewer than two did."""
    kept = _keeping_pace(looks, pace)
    return kept if len(kept) >= 2 else looks


def _take_in(seen: _Seen, fields: Mapping[str, Any], conditions: Conditions) -> None:
    seen.looks.append(fields["samples"])
    kept = undisturbed(seen.looks, conditions.pace)
    counts = {"looks": len(seen.looks), "looks_set_aside": len(seen.looks) - len(kept)}
    host = {**(fields["host"] or {}), **counts}
    seen.fields = timed_again({**fields, "host": host}, pooled(kept, conditions.settings))


def _is_in_doubt(seen: _Seen, pace: Pace | None) -> bool:
    return len(_keeping_pace(seen.looks, pace)) < ENOUGH_UNDISTURBED


def _keeping_pace(looks: list[Samples], pace: Pace | None) -> list[Samples]:
    return [look for look in looks if pace is None or not pace.is_disturbed(look.pace_s)]


def _words(look: int) -> str:
    return f"{look} of {LOOKS}" if look <= LOOKS else "others disturbed them"
