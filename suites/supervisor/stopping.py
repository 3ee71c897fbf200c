"""Ctrl-C and its kin: noted when they come, acted on where nothing is half done."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """While it is entered, SIGINT, SIGTERM and SIGHUP ask for the end and do nothing else."""

    def __init__(self) -> None:
        """Nothing was asked."""
        self.signals: list[int] = []
        self._before: dict[signal.Signals, Any] = {}

    @property
    def is_asked(self) -> bool:
        """Whether the run is to end when what is being written is written."""
        return bool(self.signals)

    @property
    def is_urgent(self) -> bool:
        """Whether it was asked for twice."""
        return len(self.signals) > 1

    @property
    def exit_code(self) -> int:
        """As shells have it: 128 and the signal's number."""
        return 128 + self.signals[0]

    def __enter__(self) -> Stopping:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
