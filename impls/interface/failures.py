"""What a call into code we did not write may raise, and how a failure is told in one line."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path


def failures() -> tuple[type[BaseException], ...]:
    """The exception types to catch round a call of an implementation or an import of its file.

    torch raises RuntimeError and its kinds (out of memory, not implemented, every dynamo and
    inductor error); a missing C++ compiler is an OSError or a SubprocessError; Triton's own errors
    derive from none of these and are added once Triton has been imported. Not caught: an interrupt,
    an exit, and a warning turned into an error.
    """
    kinds: list[type[BaseException]] = [
        ArithmeticError,
        AssertionError,
        AttributeError,
        BufferError,
        ImportError,
        LookupError,
        MemoryError,
        NameError,
        OSError,
        RuntimeError,
        SyntaxError,
        TypeError,
        ValueError,
        subprocess.SubprocessError,
    ]
    triton_error = getattr(sys.modules.get("triton.errors"), "TritonError", None)
    return (*kinds, triton_error) if triton_error is not None else tuple(kinds)


def told(error: BaseException) -> str:
    """`RuntimeError: the first line of its message`, at most 200 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"


def where_in(error: BaseException, path: Path | None) -> str:
    """`file:line` where the error arose: in `path` where its frames pass through it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if path is not None and Path(f.filename) == path]
    outside_import = [f for f in frames if not f.filename.startswith("<frozen")]
    chosen = inside or outside_import
    return f"{chosen[-1].filename}:{chosen[-1].lineno}" if chosen else "unknown place"
