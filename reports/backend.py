"""The reader's choice of a matplotlib backend, which what draws into files has no use for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_backend() -> Iterator[None]:
    """Import matplotlib as if MPLBACKEND were not set: an unknown one would break the import."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
