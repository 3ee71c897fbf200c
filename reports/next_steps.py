"""What to type now, as it works when pasted: the interpreter in use, the checkout, the run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from results.run import Run
from results.store import store_folder

CHECKOUT = Path(__file__).resolve().parent.parent
_FURTHER = {"smoke": "quick", "quick": "default", "default": "full"}
# A run of these was asked for by name: `make bench` would measure something else.
_CHOSEN = ("--impl", "--problem", "--shapes")
_UNFINISHED = ("interrupted", "crashed", "unfinished")


def next_steps(run: Run, cwd: Path | None = None) -> list[str]:
    """Commands to go on, go further, or look closer, as typed in `cwd` (the current folder)."""
    there = (cwd or Path.cwd()).resolve() != CHECKOUT
    begin = f"cd {shlex.quote(str(CHECKOUT))} && " if there else ""
    name = _known_as(run)
    if run.header.kind == "static":
        # The gate knows shipped kernels alone.
        is_brought = bool(run.profiles) and all(p.origin for p in run.profiles)
        lines = ["show"] if is_brought else ["gate --static", "show"]
        return [f"{begin}{python()} -m results {line} {name}" for line in lines]
    if run.state in _UNFINISHED:
        return [f"{begin}{python()} -m pytest suites --resume {name}"]
    lines = [f"{begin}{python()} -m results show {name}"]
    budget = _FURTHER.get(run.header.settings.budget or "")
    if budget and not was_chosen(run):
        lines.insert(0, f"{begin}make bench BUDGET={budget}")
    return lines


def python() -> str:
    """The interpreter in use, as it is typed in the checkout."""
    executable = Path(sys.executable)
    if executable.is_relative_to(CHECKOUT):
        executable = executable.relative_to(CHECKOUT)
    return shlex.quote(str(executable))


def was_chosen(run: Run) -> bool:
    """Whether the run's command named what to measure, rather than the built-in sweeps."""
    words = (run.header.command or "").split()
    return any(word.split("=")[0] in _CHOSEN for word in words)


def repeat_lines(run: Run) -> list[str]:
    """Commands that measure and report the run again, from the folder it was run in if known."""
    header = run.header
    lines: list[str] = []
    if header.commit and header.commit != "nogit":
        dirty = "   # plus changes that were not committed" if header.dirty else ""
        lines.append(f"git checkout {header.commit}{dirty}")
    command = header.command or "make bench"
    folder = header.environment.get("folder")
    store = run.path.parent.parent.resolve()
    where = "" if store == store_folder().resolve() else f" --store {shlex.quote(str(store))}"
    if command.startswith("python -m "):
        return [*lines, command.replace("python", python(), 1), f"{python()} -m reports{where}"]
    if not command.startswith("pytest ") or (not folder and " suites" in command):
        # As it stands it runs in the checkout and nowhere else.
        here = python()
        measure = command.replace("pytest ", f"{here} -m pytest ", 1)
        return [*lines, measure, f"{here} -m reports{where}"]
    there = f"cd {shlex.quote(str(folder))}" if folder else "# in the folder it was run in"
    measure = f"{shlex.quote(sys.executable)} -m {command}"
    report = f"cd {shlex.quote(str(CHECKOUT))} && {python()} -m reports{where}"
    return [*lines, there, measure, report]


def _known_as(run: Run) -> str:
    """The run's name where the default store has it, else its path."""
    if run.path.parent.parent.resolve() == store_folder().resolve():
        return run.name
    return shlex.quote(str(run.path.resolve()))
