"""The two fixtures of a suite: `benchmark`, which takes finished samples, and `measure`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from suites.session.fixture import RecordingFixture, recording_fixture
from suites.session.wiring import SESSION, report_status

if TYPE_CHECKING:
    from suites.session.sweep import Cell

FAILED = ("error", "oom", "timeout")


@pytest.fixture
def benchmark(request: pytest.FixtureRequest) -> Iterator[RecordingFixture]:
    """pytest-benchmark's fixture, extended by `record(samples_s, …)`."""
    yield from recording_fixture(request)


@pytest.fixture
def measure(request: pytest.FixtureRequest, benchmark: RecordingFixture) -> Callable[[Cell], None]:
    """`measure(cell)`: measure it, write its journal line, and tell pytest how it went."""
    session = request.config.stash[SESSION]

    def measure_cell(cell: Cell) -> None:
        if session.last is not None and session.last["status"] in FAILED:
            # pytest keeps an error's frames, and what they had allocated, until it is collected.
            gc.collect()
        report_status(*session.measure(cell, benchmark))

    return measure_cell
