"""What to type for more launches of what a run measured: its own command, as often as is asked."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath

from results.run import Header

_A_SWEEP, _SWEEPS = "bench_*.py", "suites"


def more_launches(header: Header, launches: int) -> str:
    """The command that measures the run's sweeps by its own options, so many launches of them.

    Of a run that does not say how it was made, all but those.
    """
    words = shlex.split(header.command or "")
    if words[:1] != ["pytest"]:
        budget = f" --budget {header.settings.budget}" if header.settings.budget else ""
        command = f"python -m suites run{budget} --launches {launches}"
        return f"{command}, with the sweeps and options of this run"
    sweeps, options = _told_apart(words[1:])
    return f"python -m suites run {shlex.join([*sweeps, *options, '--launches', str(launches)])}"


def _told_apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The sweeps by name, and the options, of what `pytest` was given."""
    sweeps, options = [], []
    given = iter(words)
    for word in given:
        place = PurePath(word)
        is_value = bool(options) and options[-1].startswith("-") and "=" not in options[-1]
        if word == "-p":
            # A plugin: of whoever supervised the run.
            next(given, None)
        elif word.startswith("-") or is_value:
            options += [word] * (word != "-s")
        elif place.match(_A_SWEEP):
            sweeps.append(place.stem.removeprefix("bench_"))
        elif place.name != _SWEEPS:
            options.append(word)
    return sweeps, options
