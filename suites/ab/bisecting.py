"""`python -m suites bisect`: the commit that made a cell slower, by `git bisect run`.

Each commit is set against the good one by launches in turn, all of them to confirm. The search is
in a worktree of its own, whose state git keeps apart.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.ab import command
from suites.ab.arguments import parse_bisect
from suites.ab.launches import say
from suites.ab.revisions import GitFailed, Repository, git
from suites.measure.atomic_file import write_json
from suites.supervisor.request import PYTEST, ROOT
from suites.supervisor.stopping import Stopping

PASS, SLOWER, USAGE, NARROWED, BROKEN = 0, 1, 2, 3, 5
SKIP = 125
"""So `git bisect run` is told that a commit cannot be judged."""
_PARTS = ("--impl", "--problem", "--passes", "--cache")
_ASKED, _STEP = "bisect.json", "step"
_POLL_S = 0.1


def bisect(arguments: Sequence[str], child: Sequence[str] = PYTEST[1:]) -> int:
    """`bisect GOOD BAD CELL [options]` → its exit code. `child` is as `suites ab` has it."""
    options = parse_bisect(arguments)
    if options.step:
        return _step(Path(options.step))
    try:
        repository = Repository(Path(options.repo).expanduser() if options.repo else ROOT)
        asked: dict[str, Any] = {**_asked(options, repository), "child": list(child)}
    except ValueError as error:
        print(f"attnbench: {error}", file=sys.stderr)
        return USAGE
    say(f"is it slower in {options.words[1]} at all?")
    code = _told_on_stderr(asked, asked["bad"])
    if code == PASS:
        print(f"attnbench: {asked['cell']} is not slower in {options.words[1]}", file=sys.stderr)
        return SLOWER
    if code != SLOWER:
        return code
    with tempfile.TemporaryDirectory(prefix="attnbench-bisect-") as folder, Stopping() as stopping:
        tree = Path(folder) / "tree"
        try:
            repository.add_tree(tree, asked["bad"])
            log = _searched(Path(folder), tree, asked, stopping)
            found = _found(repository, log)
        except (GitFailed, OSError) as error:
            print(f"attnbench: {error}", file=sys.stderr)
            return BROKEN
        finally:
            repository.remove_tree(tree)
    if stopping.is_asked:
        return stopping.exit_code
    return _told(found, asked, is_json=options.json)


def _asked(options: argparse.Namespace, repository: Repository) -> dict[str, Any]:
    """The search: two commits and what `suites ab` is given for each step.

    Raises:
        ValueError: it cannot be one.
    """
    if len(options.words) != 3:
        raise ValueError('give GOOD, BAD and CELL, this one in quotes: bisect v1 HEAD "naive …"')
    good, bad, cell = options.words
    if options.launches < 5:
        # Of one cell p must reach 0.01: 1 / C(8, 4) is 0.014, 1 / C(10, 5) 0.004.
        raise ValueError(f"--launches {options.launches}: give 5 or more, or nothing can be shown")
    parts = cell.split()
    if not 2 <= len(parts) <= 5:
        raise ValueError(f'"{cell}" is no cell: give its name as `suites ab` prints it')
    selection = [word for pair in zip(_PARTS, parts, strict=False) for word in pair]
    if "--impl" in options.selection:
        # A kernel that is brought is told by its place; CELL has its name.
        selection = selection[2:]
    store = ["--store", str(Path(options.store).absolute())] if options.store else []
    own = ["--repo", str(repository.top / repository.inside)] if options.repo else []
    build = ["--build", options.build] if options.build else []
    return {
        "good": repository.commit(good),
        "bad": repository.commit(bad),
        "cell": cell,
        "launches": options.launches,
        "arguments": [*selection, *options.selection, *own, *build, *store],
    }


def _measured(asked: Mapping[str, Any], commit: str) -> int:
    """Set one commit against the good one → the exit code of `suites ab`."""
    with tempfile.TemporaryDirectory(prefix="attnbench-rules-") as folder:
        rules = Path(folder) / "rules.toml"
        rules.write_text(f"[plan]\nscreen = 0\nconfirm = {asked['launches']}\n", encoding="utf-8")
        how = ("--rules", str(rules), "--strict")
        return command.ab([asked["good"], commit, *asked["arguments"], *how], asked["child"])


def _told_on_stderr(asked: Mapping[str, Any], commit: str) -> int:
    """The same; stdout is for the commit that is looked for."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        return _measured(asked, commit)
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _step(folder: Path) -> int:
    """Judge the commit that `git bisect` put into the current folder: 0, 1, or 125."""
    asked = json.loads((folder / _ASKED).read_text(encoding="utf-8"))
    (folder / _STEP).write_text(str(os.getpid()), encoding="utf-8")
    code = _measured(asked, git(folder / "tree", "rev-parse", "HEAD"))
    (folder / _STEP).unlink()
    # 130 and the like end the search, as git has it.
    return code if code in (PASS, SLOWER) or code > SKIP else SKIP


def _searched(folder: Path, tree: Path, asked: Mapping[str, Any], stopping: Stopping) -> str:
    """Let git search → its log."""
    write_json(folder / _ASKED, asked)
    git(tree, "bisect", "start", asked["bad"], asked["good"])
    step = [sys.executable, "-P", "-m", "suites", "bisect", "--step", str(folder)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        ["git", "bisect", "run", "sh", "-c", shlex.join(step)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
    ) as process:
        asked_to_stop = 0
        while process.poll() is None:
            time.sleep(_POLL_S)
            if stopping.is_asked and (pid := _pid(folder)) not in (0, asked_to_stop):
                # The step alone: git ends when it hears how that ended.
                asked_to_stop = pid
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)
    return git(tree, "bisect", "log")


def _pid(folder: Path) -> int:
    """The process of the step that is being judged; 0 where none is."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / _STEP).read_text(encoding="utf-8"))
    return 0


def _found(repository: Repository, log: str) -> list[dict[str, str]]:
    """The commits that may have made it slower, by git's own log; one where git is sure."""
    marks = re.findall(r"^# (?:possible )?first bad commit: \[(\w+)\]", log, re.MULTILINE)
    return [
        {"commit": mark, "subject": git(repository.top, "show", "-s", "--format=%s", mark)}
        for mark in marks
    ]


def _told(found: Sequence[Mapping[str, str]], asked: Mapping[str, Any], *, is_json: bool) -> int:
    code = {0: BROKEN, 1: PASS}.get(len(found), NARROWED)
    if is_json:
        record = {"command": "bisect", "exit_code": code, "cell": asked["cell"]}
        print(json.dumps(record | {"candidates": list(found)}, indent=1))
        return code
    if not found:
        print("attnbench: git found no commit: its last lines say why", file=sys.stderr)
    if len(found) > 1:
        print(f"one of these {len(found)}: those between could not be judged")
    for one in found:
        print(f"{one['commit'][:12]} {one['subject']}")
    return code
