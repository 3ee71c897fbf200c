"""What people read of a command: any sign that it writes, and of Ctrl-C a word.

Imported before all else that a command needs: loading it takes long enough to be interrupted.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from types import TracebackType


def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """As Python ends what nobody caught; where Ctrl-C came does not matter to who typed it."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = end


def take_any_sign() -> None:
    """Let stdout and stderr write "?" for what their encoding lacks, "≠" in ASCII say."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # It asks where the stream stands, which one that a process inherited may not know.
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="replace")


@contextlib.contextmanager
def for_a_reader() -> Iterator[None]:
    """Let what is printed find no reader, as under `| head`: a verdict stays what it is."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter's last flush must not complain of it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
