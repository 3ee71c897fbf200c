"""What a child of the supervisor is beside an ordinary `pytest suites`; loaded with `-p`."""

from __future__ import annotations

import contextlib
import os
import resource

from suites.session import orders

# Read before anything else is imported: from here on this process ends with its supervisor.
_ORDERS = orders.read()
_PROCESS = os.getpid()


def pytest_configure() -> None:
    """A sweep that crashes leaves no core files of many GB behind."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def pytest_unconfigure() -> None:
    """Say that the end was reached: an exit code alone may be a kernel's."""
    if os.getpid() == _PROCESS:
        _ORDERS.note(ended=True)
