"""A small repository whose commits differ in how long their cells take, and `suites ab` over it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from suites.ab import command

ROOT = Path(__file__).resolve().parents[1]
CHILD = (str(ROOT / "tests" / "fake_turns.py"),)
# Six launches a side of everything tell of three cells: 1 / C(12, 6) is below 0.01 / 3.
RULES = "[plan]\nscreen = {screen}\nconfirm = {confirm}\n{more}"
PROGRAM = """
import sys
from suites.ab import command
sys.exit(command.ab(sys.argv[2:], (sys.argv[1],)))
"""


class Turning:
    """A repository at `repo`, a store beside it, and what a comparison in them left."""

    def __init__(self, folder: Path, *, screen: int = 0, confirm: int = 6, more: str = "") -> None:
        """`more` are further lines of the rules, of the plan first."""
        self.repo, self.store, self.rules = folder / "repo", folder / "runs", folder / "rules.toml"
        self.repo.mkdir()
        rules = RULES.format(screen=screen, confirm=confirm, more=more)
        self.rules.write_text(rules, encoding="utf-8")
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        """What a git command in the repository printed."""
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=self.repo, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, **times_ms: float) -> str:
        """A commit whose cells take so long; `fine_1=2.0` is a cell "fine:1" of 2 ms."""
        self.write(**times_ms)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "times")
        return self.git("rev-parse", "HEAD")

    def write(self, **times_ms: float) -> None:
        """The same in the working tree alone."""
        lines = [f"{name.replace('_', ':')} {time_ms}\n" for name, time_ms in times_ms.items()]
        (self.repo / "cells.txt").write_text("".join(lines), encoding="utf-8")

    def arguments(self, *arguments: str) -> list[str]:
        """A whole command line after `suites ab`."""
        where = ("--repo", str(self.repo), "--store", str(self.store), "--rules", str(self.rules))
        return [*arguments, *where]

    def ab(self, *arguments: str) -> int:
        """`suites ab` in this process → its exit code."""
        whole = arguments if "--resume" in arguments else self.arguments(*arguments)
        return self.here(*whole)

    def here(self, *arguments: str) -> int:
        """The same without a repository: what is compared is not revisions."""
        return command.ab([*arguments, "--store", str(self.store)], CHILD)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The same in a process of its own, that can be killed."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *CHILD, *self.arguments(*arguments)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def state(self) -> dict[str, Any]:
        """All that must be as it was found."""
        listed = (
            "status --porcelain",
            "worktree list",
            "branch -a",
            "stash list",
            "rev-parse HEAD",
        )
        return {what: self.git(*what.split()) for what in listed}

    def count(self, side: str) -> int:
        """How many lines its journal has by now."""
        found = sorted(self.store.glob(f"ab/*/{side}/*/*/cells.jsonl"))
        return found[-1].read_bytes().count(b"\n") if found else 0

    def lines(self, side: str) -> list[dict[str, Any]]:
        """The journal of the newest comparison's side."""
        (journal,) = sorted(self.store.glob("ab/*"))[-1].glob(f"{side}/*/*/cells.jsonl")
        return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
