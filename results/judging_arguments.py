"""The arguments of the commands that judge: compare, gate, accept, history and spread."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results.static_baseline import FOLDER

_SIDES = (
    'A side is a run ("latest", a name or its beginning, a path), a folder of runs, an accepted '
    "baseline (.json), or several runs with commas between them. Each launch counts once."
)
_COMPARE_CODES = "0 told, 2 usage, 4 not comparable, 5 unreadable or nothing compared"
_GATE_CODES = (
    "0 pass, 1 regressed or wrong, 2 usage or too few launches, 3 could not tell (--strict), "
    "4 not comparable or missing (--static: also new), 5 broken or nothing compared"
)
_ACCEPT_CODES = "0 accepted, 1 failed, flagged or too few launches, 2 usage, 5 nothing to accept"
_HISTORY_CODES = "0 told, 1 an alert (--alert), 2 usage, 5 unreadable or no series"
_SPREAD_CODES = "0 told, 2 usage, 5 unreadable or fewer than two launches"


class ArgumentMistake(ValueError):
    """What was typed cannot be done; the message says what can."""


def examples(*lines: str, codes: str) -> dict[str, Any]:
    """The end of a command's help: how it is typed, and what its exit codes mean."""
    epilog = "\n".join(["examples:", *(f"  python -m results {line}" for line in lines)])
    epilog += "\n\n" + textwrap.fill(f"exit codes: {codes}", 79)
    return {"epilog": epilog, "formatter_class": argparse.RawDescriptionHelpFormatter}


def judging_command(options: argparse.Namespace) -> Callable[[argparse.Namespace, Path], int]:
    """The function of the command that was typed; only what it needs is imported.

    `list`, `show` and the static gate must start without numpy.
    """
    if getattr(options, "static", False):
        from results import static_command

        return {"gate": static_command.gate, "accept": static_command.accept}[options.command]
    from results import timed_commands

    return timed_commands.COMMANDS[options.command]


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the parsers of these commands to those of `python -m results`."""
    folder = argparse.ArgumentParser(add_help=False, parents=[shared])
    folder.add_argument(
        "--baselines",
        metavar="FOLDER",
        default=FOLDER,
        help="the folder of what was accepted (default: results/baselines of this checkout)",
    )
    rules = argparse.ArgumentParser(add_help=False, parents=[folder])
    rules.add_argument(
        "--rules",
        metavar="FILE",
        help="thresholds, tiers, waivers (default: results/gate.toml of this checkout)",
    )
    judged = _judged(rules)
    compare = commands.add_parser(
        "compare",
        parents=[judged],
        help="what changed between two sides",
        description=f"Head against base, cell by cell; a regression is told, not failed. {_SIDES}",
        **examples("compare 20261129T19 latest", "compare base/ head/ --all", codes=_COMPARE_CODES),
    )
    compare.add_argument("runs", nargs="*", metavar="SIDE", help="BASE HEAD")
    _add_gate(commands, judged)
    _add_accept(commands, rules)
    _add_history(commands, shared)
    spread = commands.add_parser(
        "spread",
        parents=[folder],
        help="how much each cell varies between unchanged launches",
        description="Of launches of one commit: each cell's spread, the floor that follows from it "
        f"and the smallest slowdown that can be seen. {_SIDES}",
        **examples("spread aa/", "spread aa/ --write --json", codes=_SPREAD_CODES),
    )
    spread.add_argument("run", metavar="SIDE", help="the launches")
    spread.add_argument(
        "--write", action="store_true", help="keep it as this machine's: gates use it"
    )


def _judged(rules: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """What compare and gate share."""
    judged = argparse.ArgumentParser(add_help=False, parents=[rules])
    judged.add_argument("--all", action="store_true", help="each cell, unchanged ones too")
    judged.add_argument(
        "--allow-mismatch",
        metavar="FIELD",
        action="append",
        default=[],
        help="compare although this field differs, torch for instance; may be repeated",
    )
    judged.add_argument("--impl-base", metavar="NAME", help="base is this implementation's cells")
    judged.add_argument("--impl-head", metavar="NAME", help="head is this implementation's cells")
    judged.add_argument("--junit", metavar="FILE", help="write JUnit XML, one test case a cell")
    judged.add_argument("--markdown", metavar="FILE", help="write a comment of ≤ 60 000 characters")
    judged.add_argument("--metrics", metavar="FILE", help="write OpenMetrics, as GitLab reads them")
    judged.add_argument("--github", action="store_true", help="print at most ten annotations")
    return judged


def _add_gate(commands: Any, judged: argparse.ArgumentParser) -> None:
    gate = commands.add_parser(
        "gate",
        parents=[judged],
        help="whether a run is as good as another, or as what was accepted",
        description=f"Judge HEAD against BASE by launches: docs/gate.md. {_SIDES} --baseline: "
        "against what was accepted on this machine, the oldest included. --static: compiled "
        "kernels exactly against the accepted ones, or the second of two runs against the first.",
        **examples("gate base/ head/", "gate --static", codes=_GATE_CODES),
    )
    gate.add_argument("runs", nargs="*", metavar="SIDE", help="BASE HEAD, or HEAD (default latest)")
    _add_static(gate)
    gate.add_argument("--baseline", action="store_true", help="against this machine's baseline")
    gate.add_argument("--screen-only", action="store_true", help="only look for suspects")
    gate.add_argument("--strict", action="store_true", help="what could not be told fails: 3")
    gate.add_argument("--allow-missing", action="store_true", help="cells may be missing in head")


def _add_accept(commands: Any, rules: argparse.ArgumentParser) -> None:
    accept = commands.add_parser(
        "accept",
        parents=[rules],
        help="make a run what the next ones are judged against",
        description="Make a run the baseline and print what changes by it. A run that fails, "
        "is flagged or has fewer than 20 launches is refused. "
        f"Commit the files with the change that made them. {_SIDES}",
        **examples("accept launches/", "accept --static 20261129T19", codes=_ACCEPT_CODES),
    )
    accept.add_argument("run", nargs="?", default="latest", metavar="SIDE", help="default: latest")
    _add_static(accept)
    accept.add_argument(
        "--without-flagged", action="store_true", help="leave flagged rows out instead of refusing"
    )
    accept.add_argument(
        "--restart", action="store_true", help="also as the oldest baseline, at a release"
    )


def _add_history(commands: Any, shared: argparse.ArgumentParser) -> None:
    history = commands.add_parser(
        "history",
        parents=[shared],
        help="when cells became slower or faster, over all runs of a machine",
        description="The changes of level in every series of runs, those at one run as one event, "
        "with the commits they lie between. A new level counts from its third run on.",
        **examples("history", "history --alert --cells 'sdpa_flash *'", codes=_HISTORY_CODES),
    )
    history.add_argument("--cells", metavar="PATTERN", default="*", help="cells by name, * is any")
    history.add_argument("--alert", action="store_true", help="exit 1 for a recent slowdown")
    history.add_argument(
        "--within", metavar="RUNS", type=int, default=10, help="what is recent (default: 10 runs)"
    )


def _add_static(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--static",
        action="store_true",
        help="of kernels compiled ahead of time, see python -m suites static",
    )
