"""What a child of the supervisor is beside an ordinary `pytest suites`; loaded with `-p`."""

from __future__ import annotations

import contextlib
import gc
import os
import resource

from suites.session import orders

# Read before anything else is imported: from here on this process ends with its supervisor.
_ORDERS = orders.read()
_PROCESS = os.getpid()
# Importing torch makes half a million objects that stay: looking for garbage takes 0.2 s of it.
gc.disable()


def pytest_configure() -> None:
    """A sweep that crashes leaves no core files of many GB behind."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def pytest_collection_finish() -> None:
    """Collect garbage from here on, of what is made from here on: pytest does so at its end."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Say that the end was reached: an exit code alone may be a kernel's."""
    if os.getpid() == _PROCESS:
        _ORDERS.note(ended=True)
