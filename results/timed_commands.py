"""The commands that judge times, by name, and their mistakes as `python -m results` tells them."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path

from results.accept_command import accept_side
from results.gate_command import compare_sides, gate_sides
from results.history_command import history
from results.judging_arguments import ArgumentMistake
from results.rules import RulesError
from results.side import SideMistake
from results.spread_command import spread

Command = Callable[[argparse.Namespace, Path], int]


def _telling(command: Command) -> Command:
    @functools.wraps(command)
    def told(options: argparse.Namespace, store: Path) -> int:
        try:
            return command(options, store)
        except (RulesError, SideMistake) as error:
            raise ArgumentMistake(str(error)) from None

    return told


COMMANDS: dict[str, Command] = {
    "compare": _telling(compare_sides),
    "gate": _telling(gate_sides),
    "accept": _telling(accept_side),
    "history": _telling(history),
    "spread": _telling(spread),
}
