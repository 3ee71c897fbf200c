"""Garbage is not looked for while many objects that stay are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_looked_for() -> Iterator[None]:
    """Within it, or the function it decorates, Python looks for no garbage in circles.

    It looks each time that objects have become a quarter more: while ten thousand runs are read,
    again and again through all that were read so far.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
