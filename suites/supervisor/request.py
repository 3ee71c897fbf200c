"""What a supervised run is asked to do."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_PLUGINS = ("-p", "suites.supervisor.plugin", "-p", "no:hypothesispytest")
PYTEST = (sys.executable, "-m", "pytest", *_PLUGINS, "-s")
"""Nothing is captured: what a kernel prints before it crashes would be lost with it.

Nor is hypothesis imported, which its plugin does at the end of every session.
"""
COMPILE_LIMIT_S = 120.0
"""What `--compile-limit` allows a first call, which the child itself watches."""
QUIET_LIMIT_S = 600.0
"""So long a child may do nothing that anybody sees: import, plan, measure ceilings, look again."""
OF_PATHS = ("--store", "--resume", "--shapes")


@dataclass(frozen=True)
class Place:
    """Where children are at home.

    Attributes:
        root: the checkout whose packages they import.
        folder: the current folder; None: as here.
        variables: what their environment has beside this one's.
    """

    root: Path = ROOT
    folder: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A sweep to be run or gone on with.

    Attributes:
        arguments: of the child, after `python -m pytest`: suites and options.
        launches: how many times the plan is measured, each in processes of its own; None: as the
            run says, or once.
        cell_limit_s: the longest a cell may take; None: by its estimate.
        quiet_limit_s: the longest a child may show nothing between cells.
        retry: cells that crashed or timed out are measured again.
        command: what starts a child; its arguments follow.
        place: where children are at home.
        looks_again: short cells are looked at again in every launch.
    """

    arguments: tuple[str, ...] = ()
    launches: int | None = None
    cell_limit_s: float | None = None
    quiet_limit_s: float = QUIET_LIMIT_S
    retry: bool = False
    command: tuple[str, ...] = PYTEST
    place: Place = field(default_factory=Place)
    looks_again: bool = True

    def limit_s(self, entry: Mapping[str, Any] | None) -> float:
        """Seconds a cell of the plan may take before it is called hung; of None, a first call."""
        if self.cell_limit_s is not None:
            return self.cell_limit_s
        estimate_s = (entry.get("estimate_s") or 0.0) if entry else 0.0
        return COMPILE_LIMIT_S + max(60.0, 10.0 * estimate_s)


def in_one_word(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments of pytest with `--store DIR` as `--store=DIR`, so for each of our paths.

    Before it knows our options pytest takes DIR for a suite, and loads what conftest.py is beside
    it or above: that of the checkout that the store is of, where children measure another.
    """
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in OF_PATHS:
            words[-1] += f"={word}"
        else:
            words.append(word)
    return tuple(words)


def seconds(text: str) -> float:
    """Seconds above 0 from the command line.

    Raises:
        ValueError: it is not a number, or none above 0.
    """
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value
