"""Further looks at short cells, some time later, so that one bad second does not decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from impls.interface.failures import failures
from suites.measure.samples import Samples
from suites.session.cell import Conditions, ProblemMemory, look_again
from suites.session.sweep import Cell

LOOKS = 4
SHORT_S = 0.8
"""Samples that span so long have met good and bad moments already."""


class Sink(Protocol):
    """Takes the samples of a cell: pytest-benchmark's fixture."""

    def record(self, samples_s: Any, **named: Any) -> None:
        """The samples of the first look."""

    def extend(self, samples_s: Any) -> None:
        """Those of a further one."""


@dataclass
class _Seen:
    cell: Cell
    record: Mapping[str, Any]
    fields: Mapping[str, Any]
    sink: Sink


class Looks:
    """The cells to be looked at again, in the order they were measured."""

    def __init__(self) -> None:
        """None yet."""
        self._seen: list[_Seen] = []

    def add(
        self, cell: Cell, record: Mapping[str, Any], fields: Mapping[str, Any], sink: Sink
    ) -> None:
        """Note an ok cell, its journal record and its measured fields, when another look pays.

        It does not for long calls, nor where a look would cost a compilation.
        """
        samples: Samples = fields["samples"]
        span_s = samples.calls_per_sample * sum(samples.wall_samples_s or samples.samples_s)
        if span_s < SHORT_S and not cell.implementation.needs_compiler:
            self._seen.append(_Seen(cell, record, fields, sink))

    def again(
        self,
        conditions: Conditions,
        memory: ProblemMemory,
        *,
        write: Callable[[Mapping[str, Any]], None],
        tell: Callable[[str], None],
    ) -> list[Cell]:
        """Take the further looks; `write` gets each cell's new record. → Cells that turned wrong.

        A look that raises changes nothing: the cell's first record stands.
        """
        brief = replace(conditions.settings, min_samples=4, least_samples=2, overrun=3.0)
        conditions = replace(conditions, settings=brief)
        wrong: list[Cell] = []
        for look in range(2, LOOKS + 1):
            if self._seen:
                tell(f"looking again at {len(self._seen)} short cells ({look} of {LOOKS})")
            for seen in list(self._seen):
                before = len(seen.fields["samples"].samples_s)
                with suppress(*failures()):
                    seen.fields = look_again(seen.cell, seen.fields, conditions, memory)
                    if seen.fields["status"] != "ok":
                        wrong.append(seen.cell)
                        self._seen.remove(seen)
                    journalled = {k: v for k, v in seen.fields.items() if k != "samples"}
                    seen.record = {**seen.record, **journalled}
                    write(seen.record)
                    seen.sink.extend(seen.fields["samples"].samples_s[before:])
        return wrong
