"""The supervisor over fake children, as a process of its own that tests may kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from suites.supervisor import command as supervisor_command

ROOT = Path(__file__).resolve().parents[1]
FAKE = str(ROOT / "tests" / "fake_child.py")
_PROGRAM = """
import sys
from suites.supervisor import command
which, store, words, *rest = sys.argv[1:]
child = (sys.executable, {child!r}, store, *words.split())
sys.exit(getattr(command, which)(rest, child))
"""


def command(which: str, folder: Path, words: str, *rest: str) -> list[str]:
    """The command of `run` or `resume` over children that have the cells of `words`."""
    program = _PROGRAM.format(child=FAKE)
    where = ["--store", str(folder / "store")] if which == "resume" else []
    line = [sys.executable, "-c", program, which, str(folder / "store"), words]
    return [*line, *rest, "--json-lines", *where]


def environment() -> dict[str, str]:
    """Where the supervisor and its children find the checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


def start(which: str, folder: Path, words: str, *rest: str, **how: Any) -> subprocess.Popen[str]:
    """The process, started; its stdout is to be read."""
    return subprocess.Popen(
        command(which, folder, words, *rest),
        env=environment(),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **how,
    )


def run(which: str, folder: Path, words: str, *rest: str, **how: Any) -> tuple[int, list[Any]]:
    """Its exit code and its events."""
    process = start(which, folder, words, *rest, **how)
    output, _ = process.communicate(timeout=300)
    return process.returncode, events(output)


def events(output: str) -> list[Any]:
    """The lines of `--json-lines`; another line is a "printed" event."""
    found = []
    for line in output.splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            found.append({"event": "printed", "text": line})
    return found


def run_folder(folder: Path) -> Path:
    """The only run of the store."""
    (only,) = (folder / "store").glob("fake/*/run.json")
    return only.parent


def lines(folder: Path) -> list[dict[str, Any]]:
    """The journal's lines."""
    text = (run_folder(folder) / "cells.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def name_of(line: dict[str, Any]) -> str:
    """The word a cell was planned with: "fine:7", with its series where it had one."""
    series = "" if line["series"] == "T, full" else f":{line['series']}"
    return f"{line['implementation']}:{line['problem']['T_q'] - 16}{series}"


def times_finished(folder: Path) -> Counter[tuple[str, int, str]]:
    """How many lines there are by word, launch and status."""
    return Counter((name_of(line), line["launch"], line["status"]) for line in lines(folder))


def header(folder: Path) -> dict[str, Any]:
    """run.json."""
    return json.loads((run_folder(folder) / "run.json").read_text(encoding="utf-8"))


def here(folder: Path, words: str, *rest: str, which: str = "run") -> int:
    """The command in this process: quick, and its parts can be replaced. → Its exit code."""
    child = (sys.executable, FAKE, str(folder / "store"), *words.split())
    if which == "resume":
        rest = (*rest, "--store", str(folder / "store"))
    given = ("given",) if which == "run" else ("latest",)
    return getattr(supervisor_command, which)((*given, *rest, "--json-lines"), child)


def statuses(folder: Path) -> dict[str, str]:
    """The last status of each cell by the word it was planned with."""
    return {name_of(line): line["status"] for line in lines(folder)}
