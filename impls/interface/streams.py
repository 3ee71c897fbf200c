"""Standard streams that cannot show every sign."""

from __future__ import annotations

import contextlib
import io
import sys


def take_any_sign() -> None:
    """Let stdout and stderr write "?" for what their encoding lacks, "≠" in ASCII say."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # It asks where the stream stands, which one that a process inherited may not know.
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="replace")
