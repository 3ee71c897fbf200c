"""A clock that moves only by what a test lets happen, in place of the module `time`."""

from __future__ import annotations


class FakeTime:
    """`perf_counter` and `process_time` of a machine that nobody else uses.

    A reading takes a tenth of a microsecond, so that what waits for time to pass comes to an end.
    """

    READING_S = 1e-7

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    def compute(self, seconds: float) -> None:
        """So much CPU time of this process passes."""
        self.wall_s += seconds
        self.cpu_s += seconds

    def wait(self, seconds: float) -> None:
        """So much time passes in which this process does not run."""
        self.wall_s += seconds

    def perf_counter(self) -> float:
        self.compute(self.READING_S)
        return self.wall_s

    def process_time(self) -> float:
        self.compute(self.READING_S)
        return self.cpu_s
