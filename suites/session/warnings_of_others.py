"""Warnings of kernels and of their libraries while they are measured: shown, and no error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from suites.session.selection import already_asked


@contextmanager
def shown(config: pytest.Config) -> Iterator[None]:
    """Within it a warning ends up in pytest's summary; in our own tests it is an error."""
    if already_asked(config) is None:
        yield
        return
    # For each test pytest sets its filters anew, the last line first.
    config.addinivalue_line("filterwarnings", "default")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield
