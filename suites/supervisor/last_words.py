"""What a process that died said last, in a few lines that people can use."""

from __future__ import annotations

import re

MOST_LINES = 4
MOST_CHARACTERS = 200
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OURS = re.compile(
    r"attnbench: |\[ *\d+/\d+\] |=+ .* =+$|collected \d"
    r"|(platform|rootdir|configfile|plugins|benchmark|cachedir)\b"
)
_FATAL = "Fatal Python error"


def last_words(output: str) -> list[str]:
    """The last lines a process printed by itself, without control characters, at most four.

    Python's own last words (`faulthandler`) tell the call that was running, the innermost first:
    of them, the two innermost frames.
    """
    lines = [_CONTROL.sub("", line.replace("\t", " ")).strip() for line in output.splitlines()]
    lines = [line for line in lines if line and not _OURS.match(line)]
    fatal = next((n for n in range(len(lines) - 1, -1, -1) if _FATAL in lines[n]), None)
    if fatal is not None:
        frames = [line for line in lines[fatal:] if line.startswith("File ")]
        lines = [*lines[max(0, fatal - 1) : fatal + 1], *frames[:2]]
    kept = lines[-MOST_LINES:]
    return [_shortened(line) for line in kept]


def _shortened(line: str) -> str:
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
