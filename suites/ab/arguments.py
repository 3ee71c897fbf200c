"""The arguments of `suites ab`: its own, those of measuring and those of judging, told apart."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from suites.session import options as measuring

BISECT_HELP = "the commit that made a cell slower, by git bisect"
AB_HELP = "whether a commit, a kernel or an environment is slower than another, by turns"
_CODES = """exit codes: 0 pass, 1 regressed or wrong, 2 usage, 3 could not tell (--strict),
4 not comparable or missing, 5 broken or nothing compared; 130 Ctrl-C, 143
SIGTERM: --resume goes on."""
_AB = f"""examples:
  python -m suites ab HEAD~1
  python -m suites ab main --repo ~/mylib --build "pip install -e ." \\
      --impl mylib:attention
  python -m suites ab --env-a python3 --env-b ~/new/bin/python --time-limit 15m
  python -m suites ab --impl-a naive --impl-b chunked --problem T=64,H=2,d_h=16

Options of `pytest suites` choose what is measured (--impl, --problem, --passes,
--dtype …; paths are those of each revision), options of `python -m results
gate` how it is judged and told (--json, --junit, --markdown, --github …).

{_CODES}
"""
_BISECT = """examples:
  python -m suites bisect v1.2 HEAD "naive B=1,T=256,H=8,d_h=64,float32 forward"
  python -m suites bisect v1 HEAD "flash T=512,H=8,d_h=64" --repo ~/mylib \\
      --impl mylib:flash

CELL is a cell's name as `suites ab` has it; pass, cache and clock may be left
out. Each commit that `git bisect run` asks for is measured against GOOD, in
turns; what is inconclusive is skipped (125).

exit codes: 0 found, 1 CELL is not slower in BAD, 2 usage, 3 only narrowed down,
4 not comparable, 5 cannot go on; 130 Ctrl-C, 143 SIGTERM.
"""
# Of `python -m results gate`, and how many words follow; it alone knows what they mean.
GATE = {
    "--json": 0,
    "--all": 0,
    "--github": 0,
    "--strict": 0,
    "--allow-missing": 0,
    "--allow-mismatch": 1,
    "--rules": 1,
    "--baselines": 1,
    "--junit": 1,
    "--markdown": 1,
    "--metrics": 1,
}
GATE_PATHS = ("--rules", "--baselines", "--junit", "--markdown", "--metrics")
_OF_PYTEST = ("-k", "--benchmark-max-time", "--benchmark-min-rounds")
_OURS = ("--resume", "--store")
_NEITHER = {
    "--shard": "launches of two sides are compared cell by cell, on one machine: choose cells with "
    "--suite, --problem or -k",
}
"""Options of `pytest suites` that have no meaning where two sides take turns, and what would do."""


class _Kept(argparse.Action):
    """Keeps an option as it was typed, for the command that it is of."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        words = [option_string, *([values] if self.nargs != 0 else [])]
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *words])


class _Group:
    """Takes what `session.options.add` declares on pytest's parser."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def getgroup(self, *_: str) -> _Group:
        return self

    def addoption(self, flag: str, **how: Any) -> None:
        if flag not in (*_OURS, *_NEITHER):
            _keep(self._group, flag, "selection", 1, how.get("metavar"))


def parse_ab(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of `ab`; `selection` and `gate` are lists for others."""
    parser = _parser("ab", "[BASE [HEAD]] [options]", AB_HELP, _AB)
    parser.add_argument("revisions", nargs="*", metavar="BASE HEAD", help=argparse.SUPPRESS)
    own = parser.add_argument_group("what is compared")
    own.add_argument("--env-a", metavar="PYTHON", help="base is measured by this interpreter")
    own.add_argument("--env-b", metavar="PYTHON", help="head is measured by this interpreter")
    own.add_argument("--impl-a", metavar="IMPL", help="base is this implementation")
    own.add_argument("--impl-b", metavar="IMPL", help="head is this implementation")
    _add_shared(own)
    own.add_argument(
        "--suite", action="append", default=[], metavar="NAME", help="the cells of this sweep"
    )
    own.add_argument(
        "--slower-only", action="store_true", help="what seems faster is not confirmed"
    )
    own.add_argument(
        "--time-limit",
        type=seconds,
        metavar="TIME",
        help="15m, 90s, 1h: plan within it, or say what cannot be promised; what it leaves no time "
        "to confirm is inconclusive (default: 8m with the default cells, else none)",
    )
    own.add_argument(
        "--resume", metavar="NAME", nargs="?", const="latest", help="go on with a comparison"
    )
    _add_others(parser)
    return _parsed(parser, arguments)


def parse_bisect(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of `bisect`; `selection` is a list for those who measure."""
    parser = _parser("bisect", "GOOD BAD CELL [options]", BISECT_HELP, _BISECT)
    parser.add_argument("words", nargs="*", metavar="GOOD BAD CELL", help=argparse.SUPPRESS)
    own = parser.add_argument_group("what is looked for")
    own.add_argument(
        "--launches", type=int, default=12, metavar="N", help="a side and commit (default: 12)"
    )
    own.add_argument("--json", action="store_true", help="print what was found as JSON")
    own.add_argument("--step", metavar="FOLDER", help=argparse.SUPPRESS)
    _add_shared(own)
    _add_measuring(parser)
    return _parsed(parser, arguments)


def seconds(text: str) -> float:
    """Seconds of "15m", "90s", "1h" or "300".

    Raises:
        ValueError: it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    value = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if value <= 0:
        raise argparse.ArgumentTypeError(f'"{text}" is no time: give 15m, 90s or 1h')
    return value


def _add_shared(group: Any) -> None:
    group.add_argument(
        "--repo", metavar="PATH", help="revisions are of this repository, its kernel measured by us"
    )
    group.add_argument(
        "--build",
        metavar="COMMAND",
        help="typed in the files of each revision first, with a virtual environment of their own",
    )
    group.add_argument("--store", metavar="DIR", help="folder of runs (default: results/runs)")


def _add_others(parser: argparse.ArgumentParser) -> None:
    _add_measuring(parser)
    judged = parser.add_argument_group("how it is judged (see `python -m results gate --help`)")
    for flag, words in GATE.items():
        _keep(judged, flag, "gate", words)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(selection=[], gate=[])
    measured = parser.add_argument_group("what is measured (see `pytest suites --help`)")
    measuring.add(_Group(measured))
    for flag in _OF_PYTEST:
        _keep(measured, flag, "selection", 1)


def _keep(group: Any, flag: str, dest: str, words: int, metavar: str | None = None) -> None:
    more = {} if words else {"nargs": 0}
    group.add_argument(
        flag, action=_Kept, dest=dest, default=argparse.SUPPRESS, metavar=metavar or "…", **more
    )


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    options, unknown = parser.parse_known_intermixed_args(list(arguments))
    for flag, instead in _NEITHER.items():
        if any(word.split("=")[0] == flag for word in unknown):
            parser.error(f"{flag} has no meaning here: {instead}")
    # Flags of pytest's that we do not know, -v for instance, are pytest's to refuse.
    options.selection = [*options.selection, *unknown]
    return options


def _parser(name: str, usage: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m suites {name}",
        usage=f"python -m suites {name} {usage}",
        description=description[0].upper() + description[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
