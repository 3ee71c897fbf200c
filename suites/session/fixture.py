"""pytest-benchmark's fixture, taught to take samples that were timed elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture, FixtureAlreadyUsed


class RecordingFixture(BenchmarkFixture):
    """A `benchmark` fixture with `record`: our clock's samples, their table, groups and JSON.

    Touches two private names of pytest-benchmark 5, `_make_stats` and `_mode`; a contract test
    watches them.
    """

    def record(
        self, samples_s: Sequence[float], *, timer: str, params: Mapping[str, Any], **info: Any
    ) -> None:
        """Hand over the samples of one cell, in seconds; small scalars name it.

        Raises:
            ValueError: there are no samples, or one is not a positive finite number.
        """
        if self._mode:
            self.has_error = True
            raise FixtureAlreadyUsed("one cell is recorded once")
        if self.disabled:
            return
        # Checked first: making the statistics object already hands it to the session, and an
        # empty one loses the whole session's JSON.
        if not samples_s or not all(math.isfinite(s) and s > 0 for s in samples_s):
            self.has_error = True
            raise ValueError("no usable samples: give positive finite seconds")
        self._mode = "benchmark.record(...)"
        self.params = dict(params)
        stats = self._make_stats(1)
        stats.options["timer"] = timer
        for sample in samples_s:
            stats.update(sample)
        self.extra_info.update(info)

    def replace(self, samples_s: Sequence[float]) -> None:
        """Put the samples of all looks at the recorded cell in place of its first, in seconds."""
        if self.stats is not None:
            self.stats.stats.data.clear()
            for sample in samples_s:
                self.stats.update(sample)


def recording_fixture(request: pytest.FixtureRequest) -> Iterator[RecordingFixture]:
    """What a `benchmark` fixture yields: a `RecordingFixture` with the session's options."""
    session = request.config._benchmarksession  # type: ignore[attr-defined]  # set by the plugin
    if session.skip:
        pytest.skip("benchmarks are skipped (--benchmark-skip)")
    marker = request.node.get_closest_marker("benchmark")
    options = dict(session.options, **(dict(marker.kwargs) if marker else {}))
    fixture = RecordingFixture(
        request.node,
        add_stats=session.benchmarks.append,
        logger=session.logger,
        warner=request.node.warn,
        disabled=session.disabled,
        **options,
    )
    yield fixture
    # A cell that is not ok has no samples to hand over; that is no mistake to warn of.
    fixture.skipped = fixture.skipped or not fixture._mode
    fixture._cleanup()
