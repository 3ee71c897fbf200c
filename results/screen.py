"""The terminal, or the pipe, that a command of ours writes its tables to."""

from __future__ import annotations

from rich.console import Console


class Screen(Console):
    """A console whose reader may go: a `BrokenPipeError` as of `print`, not exit code 1.

    1 is what a regression ends with.
    """

    def on_broken_pipe(self) -> None:
        """Raise what rich would end the process for."""
        raise BrokenPipeError
