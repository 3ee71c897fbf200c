"""What the launches mean: `python -m results gate`, asked in a process of its own.

The statistics are not known here; see docs/gate.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from suites.ab.arguments import GATE_PATHS
from suites.supervisor.request import ROOT

RULES = ROOT / "results" / "gate.toml"
_TOLD = ("--json", "--junit", "--markdown", "--github", "--all")
DEFAULT_PLAN = {"screen": 5, "confirm": 20}


class CannotJudge(RuntimeError):
    """The gate did not answer; the message is what it said instead."""


def asked(folder: Path, sides: Sequence[str], gate: Sequence[str], *more: str) -> dict[str, Any]:
    """The gate's answer as JSON; of `gate` only what it is judged by.

    Raises:
        CannotJudge: it printed none.
    """
    quiet = _without(gate, _TOLD)
    done = _gate(folder, [*sides, *quiet, *more, "--json"], is_captured=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("store: ")]
        raise CannotJudge(" ".join(lines[-2:]) or "the gate said nothing") from None


def told(folder: Path, sides: Sequence[str], gate: Sequence[str], *more: str) -> int:
    """Let the gate tell its verdict, as the user wants it → its exit code."""
    return _gate(folder, [*sides, *gate, *more], is_captured=False).returncode


def plan_of(gate: Sequence[str]) -> Mapping[str, int]:
    """How many launches a side screen and confirm, as the rules have it.

    Raises:
        ValueError: the rules cannot be read.
    """
    file = next((Path(b) for a, b in pairwise(gate) if a == "--rules"), RULES)
    try:
        plan = tomllib.loads(file.read_text(encoding="utf-8")).get("plan", {})
        found = {name: int(plan.get(name, count)) for name, count in DEFAULT_PLAN.items()}
    except FileNotFoundError:
        raise ValueError(f"--rules {file}: no such file: it takes one like {RULES.name}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"--rules {file}: {error}") from None
    if found["screen"] == 1 or found["screen"] < 0 or found["confirm"] < 1:
        raise ValueError(
            f"--rules {file}: [plan] {found}: screen 0 or 2 and more, confirm 1 or more"
        )
    return found


def with_absolute_paths(gate: Sequence[str], folder: Path) -> list[str]:
    """The options with paths that hold wherever the gate is asked."""
    words: list[str] = []
    for word in gate:
        is_path = bool(words) and words[-1] in GATE_PATHS
        words.append(str((folder / Path(word).expanduser()).absolute()) if is_path else word)
    return words


def allowing(fields: Sequence[str]) -> list[str]:
    """The options that let these fields differ."""
    return [word for name in fields for word in ("--allow-mismatch", name)]


def _without(gate: Sequence[str], flags: Sequence[str]) -> list[str]:
    kept: list[str] = []
    words = iter(gate)
    for word in words:
        if word not in flags:
            kept.append(word)
        elif word in GATE_PATHS:
            next(words, None)
    return kept


def _gate(
    folder: Path, arguments: Sequence[str], *, is_captured: bool
) -> subprocess.CompletedProcess[str]:
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-P", "-m", "results", "gate", *arguments, "--store", str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE if is_captured else None,
        stderr=subprocess.PIPE if is_captured else None,
        text=True,
        start_new_session=True,
        check=False,
    )
