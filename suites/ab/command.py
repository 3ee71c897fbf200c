"""`python -m suites ab`: what is typed, what is left as it was found, and how it ends."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from suites.ab import children, environments, judging, manifest
from suites.ab.arguments import parse_ab
from suites.ab.judging import CannotJudge
from suites.ab.launches import HeadCannot, say
from suites.ab.manifest import Manifest
from suites.ab.revisions import GitFailed
from suites.ab.settling import settled
from suites.ab.stages import Stages
from suites.session.options import store_folder
from suites.supervisor.request import PYTEST, ROOT
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn

USAGE, NOT_COMPARABLE, BROKEN = 2, 4, 5
NOTHING = "0 cells would be measured"
"""So children begin to say that what was asked for is in order, and yet there is nothing."""


def ab(arguments: Sequence[str], child: Sequence[str] = PYTEST[1:]) -> int:
    """`ab BASE [HEAD] [options]` → its exit code. `child` follows the interpreter of a side."""
    options = parse_ab(arguments)
    store = store_folder(options.store) / "ab"
    try:
        one, folder = _begun(options, store)
    except (ValueError, OSError, GitFailed) as error:
        return _failed(error, USAGE)
    return compared(one, folder, child)


def compared(one: Manifest, folder: Path, child: Sequence[str] = PYTEST[1:]) -> int:
    """Measure what a comparison lacks and tell its verdict → the exit code."""
    try:
        held = manifest.lock(folder)
    except BlockingIOError:
        return _failed(f"{folder} is being measured by another process", USAGE)
    with closing(held), Stopping() as stopping:
        try:
            manifest.write(folder, one)
            for side, it in one.sides.items():
                say(f"{side} is {it.told}" + (f" ({it.commit[:7]})" if it.commit else ""))
            code = _measured(one, folder, stopping, child)
        except CannotGoOn as error:
            code = _failed(error, _code_of(error))
        except (CannotJudge, GitFailed, environments.BuildFailed, OSError, ValueError) as error:
            code = _failed(error, BROKEN)
        if stopping.is_asked:
            code = stopping.exit_code
            say(f"to go on: {_go_on(folder)}")
    return code


def _measured(one: Manifest, folder: Path, stopping: Stopping, child: Sequence[str]) -> int:
    try:
        children.add_trees(one)
        environments.build(one, stopping)
        if stopping.is_asked:
            return stopping.exit_code
        return Stages(one, folder, stopping, child).run()
    finally:
        children.remove_trees(one)


def _begun(options: argparse.Namespace, store: Path) -> tuple[Manifest, Path]:
    """The comparison to go on with: the one that is named, an unfinished same one, or a new one."""
    _sweep(store)
    if options.resume:
        folder = manifest.find(store, options.resume)
        begun = manifest.read(folder)
        gate = (*begun.gate, *judging.with_absolute_paths(options.gate, Path.cwd()))
        limit_s = options.time_limit or begun.time_limit_s
        return replace(begun, gate=gate, time_limit_s=limit_s), folder
    asked = settled(options, Path.cwd())
    for folder in sorted((path.parent for path in store.glob(f"*/{manifest.FILE}")), reverse=True):
        begun = manifest.read(folder)
        if begun.exit_code is None and begun.question == asked.question:
            say(f"going on with {begun.name}; nothing of it is measured again")
            return replace(begun, gate=asked.gate, time_limit_s=asked.time_limit_s), folder
    return asked, store / asked.name


def _sweep(store: Path) -> None:
    """Take away the worktrees of comparisons whose process was killed."""
    for path in store.glob(f"*/{manifest.FILE}"):
        try:
            one = manifest.read(path.parent)
        except ValueError:
            continue
        if Path(one.trees).exists():
            try:
                held = manifest.lock(path.parent)
            except OSError:
                # Its process is alive, or it is another user's.
                continue
            with closing(held):
                children.remove_trees(one)


def _code_of(error: CannotGoOn) -> int:
    if isinstance(error, HeadCannot):
        return NOT_COMPARABLE
    return USAGE if error.is_usage and NOTHING not in str(error) else BROKEN


def _go_on(folder: Path) -> str:
    there = "" if Path.cwd() == ROOT else f"cd {shlex.quote(str(ROOT))} && "
    command = f"{shlex.quote(sys.executable)} -m suites ab --resume {shlex.quote(str(folder))}"
    return there + command


def _failed(error: object, code: int) -> int:
    print(f"attnbench: {error}", file=sys.stderr)
    return code
