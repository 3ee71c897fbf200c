"""What the commands of `python -m reports` share: a parser, a run by its name, and complaints."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from reports.backend import without_backend
from results.reading import SchemaError
from results.run import Run
from results.store import RunNotFound, find_run, load_run, store_folder

WRONG, USAGE, INCOMPARABLE, BROKEN = 1, 2, 4, 5


class CommandMistake(Exception):
    """What was typed cannot be done: the message says what can, `code` is the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def command_parser(
    name: str, does: str, *examples: str, codes: str, json_help: str = "print JSON, complete"
) -> argparse.ArgumentParser:
    """A command's parser with its examples and exit codes, `--store` and `--json`."""
    lines = "\n".join(f"  python -m reports {name} {example}".rstrip() for example in examples)
    parser = argparse.ArgumentParser(
        prog=f"python -m reports {name}",
        description=wrapped(f"{does} Needs no torch."),
        epilog=f"examples:\n{lines}\n\n{wrapped(f'exit codes: {codes}')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--store",
        metavar="FOLDER",
        help="the folder of runs (default: $ATTNBENCH_STORE, or results/runs of this checkout)",
    )
    if json_help:
        parser.add_argument("--json", action="store_true", help=json_help)
    return parser


def wrapped(text: str) -> str:
    """The text in lines that a terminal of 80 columns shows whole."""
    return textwrap.fill(text, width=79, break_long_words=False, break_on_hyphens=False)


def open_run(name: str, store: str | None, kind: str | None = "timed") -> Run:
    """The run that is called so.

    Raises:
        CommandMistake: there is none (2), or it cannot be read (5), or it is of another kind (2).
    """
    try:
        run = load_run(find_run(name, store_folder(store), kind=kind))
    except RunNotFound as error:
        raise CommandMistake(str(error)) from None
    except (SchemaError, OSError) as error:
        raise CommandMistake(str(error), BROKEN) from None
    if kind is not None and run.header.kind != kind:
        raise CommandMistake(f"{run.name} is a {run.header.kind} run: this is told of times alone")
    return run


def add_summary_option(parser: argparse.ArgumentParser) -> None:
    """`--summary [FILE]`, which `summary_file` reads."""
    parser.add_argument(
        "--summary",
        nargs="?",
        const="",
        metavar="FILE",
        help="append the Markdown to FILE (default: $GITHUB_STEP_SUMMARY, a job's page on GitHub)",
    )


def summary_file(given: str | None) -> Path | None:
    """The file that `--summary` names; None where it was not typed.

    Raises:
        CommandMistake: no file was named, and $GITHUB_STEP_SUMMARY has none.
    """
    if given is None:
        return None
    if name := given or os.environ.get("GITHUB_STEP_SUMMARY"):
        return Path(name)
    raise CommandMistake("--summary: $GITHUB_STEP_SUMMARY is not set; type --summary FILE")


def append_summary(file: Path | None, text: str) -> None:
    """Append Markdown after what other steps wrote there."""
    if file is not None:
        with file.open("a", encoding="utf-8", newline="") as summary:
            summary.write(f"{text.rstrip()}\n\n")


def complaining(command: Callable[..., int]) -> Callable[..., int]:
    """The command with its mistakes told on stderr → its exit code."""

    @wraps(command)
    @without_backend()
    def told(*arguments: object) -> int:
        try:
            return command(*arguments)
        except CommandMistake as error:
            print(f"reports: {error}", file=sys.stderr)
            return error.code

    return told
