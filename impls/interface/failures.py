"""What a call into code we did not write may raise, and how a failure is told in one line."""

from __future__ import annotations

import traceback
from pathlib import Path


def failures() -> tuple[type[BaseException], ...]:
    """The exception types to catch round a call of an implementation or an import of its file.

    Code we did not write raises what it likes: torch RuntimeError and its kinds, Triton a class of
    its own, a kernel someone brings its own again, a script brought as a kernel may end in
    `sys.exit`, and a test in pytest's outcomes, which are no `Exception`. Only here is that whole
    width caught; an interrupt passes.
    """
    kinds: list[type[BaseException]] = BaseException.__subclasses__()
    return tuple(kind for kind in kinds if kind is not KeyboardInterrupt)


def message_of(error: BaseException) -> str:
    """What the error says; nothing where its own `__str__` fails."""
    try:
        return str(error)
    except failures():
        return ""


def told(error: BaseException) -> str:
    """`RuntimeError: the first line of its message`, at most 200 characters."""
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
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
