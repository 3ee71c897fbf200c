"""A word on stderr, now and then, while something takes long that has an end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

Item = TypeVar("Item")
TELL_AFTER_S = 2.0
# In a log every line stays.
_TELL_EVERY_S = 5.0


def told(items: Iterable[Item], total: Sized, what: str) -> Iterator[Item]:
    """The items; from two seconds on with lines that say how many of all are done.

    `what` is a sentence with `{done}`, `{total}` and `{left}`, the time left.
    """
    begin = time.monotonic()
    next_s = TELL_AFTER_S
    for done, item in enumerate(items, start=1):
        yield item
        passed_s = time.monotonic() - begin
        if passed_s > next_s:
            left_s = round(passed_s / done * (len(total) - done))
            left = f"{left_s // 60}:{left_s % 60:02d} left"
            print(what.format(done=done, total=len(total), left=left), file=sys.stderr)
            next_s = passed_s + _TELL_EVERY_S
