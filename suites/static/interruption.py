"""Ctrl-C and SIGTERM while kernels are compiled: taken once, and told by an exit code."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

NOTHING_KEPT = "nothing was compiled, nothing is kept"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """What was asked is to end here; the message says what is on the disk.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int, kept: str = NOTHING_KEPT) -> None:
        """By signal `number`; `kept` is what is on the disk."""
        super().__init__(kept)
        self.number = number

    @property
    def exit_code(self) -> int:
        """As shells have it: 130 of Ctrl-C, 143 of SIGTERM."""
        return 128 + self.number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """The first signal raises `Interrupted`; further ones do not hurry what ends in order."""
    before = {number: signal.signal(number, _raise) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def keeping(what: Callable[[], str]) -> Iterator[None]:
    """An interruption meanwhile says `what` is on the disk then."""
    try:
        yield
    except Interrupted as end:
        raise Interrupted(end.number, what()) from None


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """A process begun meanwhile never sees Ctrl-C, not even while Python starts: it is ours."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _raise(number: int, frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)
