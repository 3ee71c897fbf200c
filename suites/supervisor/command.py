"""`python -m suites run` and `resume`: their options, what they print and how they end."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from suites.fleet import arguments as fleet_arguments
from suites.fleet import command as fleet
from suites.session.options import store_folder
from suites.session.run_on_disk import MOST_LAUNCHES, find
from suites.supervisor import plan_table
from suites.supervisor.display import Display, JsonLines, Lines
from suites.supervisor.ending import BROKEN, USAGE, tell_the_end
from suites.supervisor.request import PYTEST, ROOT, Request, seconds
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn, Supervisor, finish

RUN_HELP = "measure in child processes that may crash or hang, and go on after them"
RESUME_HELP = "go on with a run: what is left, and with --retry what crashed or timed out"
_CODES = """exit codes: 0 all that could be measured was, 1 a wrong result, 2 usage, 5 a cell
crashed, failed or timed out, or nothing more could be measured (a full disk); 130 Ctrl-C, 143
SIGTERM. Whatever the code, what is finished is kept.
"""
_RUN = f"""examples:
  python -m suites run
  python -m suites run heads --impl mykernel.py:attention --launches 5
  python -m suites run sequence_length --budget full --plan
  python -m suites run --fleet ray --address auto --accelerator-type H100
  python -m suites run --device cuda:0,cuda:1

Every other option is of `pytest suites`. {_CODES}"""
_RESUME = f"""examples:
  python -m suites resume latest
  python -m suites resume 20261129T193000Z-0123456 --retry

{_CODES}"""


def run(arguments: Sequence[str], child: Sequence[str] = PYTEST) -> int:
    """`run [SUITE …] [options]`; → its exit code. `child` is what its arguments are given to."""
    parser = _parser("run", "[SUITE …] [options of pytest suites]", RUN_HELP, _RUN)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="what each sweep will take; with -v or --json each cell; nothing is measured",
    )
    parser.add_argument("--json", action="store_true", help="with --plan: the cells as JSON")
    parser.add_argument(
        "--once", action="store_true", help="no further looks at short cells: room for more cells"
    )
    _add_common(parser)
    fleet_arguments.add_options(parser)
    suites, rest = leading(arguments)
    options, passed_on = parser.parse_known_args(rest)
    try:
        paths = _suite_paths(suites)
        _refuse_its_own(passed_on)
        if options.json and not options.plan:
            raise ValueError("--json is of --plan: type --json-lines for what is measured")
        devices = fleet_arguments.read(options, passed_on)
        request = _request(options, child, (*paths, *passed_on))
    except ValueError as error:
        return _usage(error)
    if devices is not None:
        return fleet.measured(request, devices, options.json_lines)
    if options.plan:
        return _plan(request, _plan_shown(options.json, passed_on))
    return _supervised(request, _display(options), None)


def resume(arguments: Sequence[str], child: Sequence[str] = PYTEST) -> int:
    """`resume RUN [options]`; → its exit code. `child` is what its arguments are given to."""
    parser = _parser("resume", "RUN [options of pytest suites]", RESUME_HELP, _RESUME)
    parser.add_argument("--retry", action="store_true", help="also what crashed or timed out")
    parser.add_argument("--store", metavar="DIR", help="folder of runs (default: results/runs)")
    _add_common(parser)
    fleet_arguments.add_options(parser)
    names, rest = leading(arguments)
    options, passed_on = parser.parse_known_args(rest)
    try:
        if len(names) != 1:
            raise ValueError("name one run: `python -m suites resume latest`")
        files = RunFiles(find(store_folder(options.store), names[0]).absolute())
        files.grown()
        # One run, one way of measuring: as many looks as it began with.
        options.once = files.header["settings"].get("looks") == 1
        devices = fleet_arguments.read(options, passed_on)
        request = _request(options, child, (str(ROOT / "suites"), *passed_on))
    except (ValueError, OSError) as error:
        return _usage(error)
    if devices is not None:
        return fleet.measured(request, devices, options.json_lines, files)
    return _supervised(request, _display(options), files)


def _supervised(request: Request, display: Display, files: RunFiles | None) -> int:
    failure: str | None = None
    code = 0
    with Stopping() as stopping:
        supervisor = Supervisor(request, display, stopping, files)
        try:
            supervisor.run()
        except CannotGoOn as error:
            failure, code = str(error), USAGE if error.is_usage else BROKEN
        except ValueError as error:
            # Another process writes this run: it is its to end.
            return _usage(error)
        except OSError as error:
            failure, code = str(error), BROKEN
        failure = finish(supervisor) or failure
        if failure:
            code = code or BROKEN
            display.line(f"cannot go on: {failure}")
        code = stopping.exit_code if stopping.is_asked else code
    if supervisor.files is None:
        return code or BROKEN
    return tell_the_end(supervisor.files, display, code, supervisor.watch.children)


def _plan_shown(is_json: bool, passed_on: Sequence[str]) -> Callable[[plan_table.Entries], str]:
    """How the plan is printed: `-v` is pytest's own, and asks for each cell here."""
    if is_json:
        return plan_table.as_json
    is_whole = any(re.fullmatch("-v+|--verbose", word) for word in passed_on)
    return plan_table.as_cells if is_whole else plan_table.as_text


def _plan(request: Request, shown: Callable[[plan_table.Entries], str]) -> int:
    display = Lines()
    with Stopping() as stopping:
        try:
            entries = Supervisor(request, display, stopping).plan()
        except CannotGoOn as error:
            print(f"attnbench: {error}", file=sys.stderr)
            return USAGE if error.is_usage else BROKEN
        if stopping.is_asked:
            return stopping.exit_code
    print(shown(entries))
    return 0


def _parser(name: str, usage: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"python -m suites {name}",
        usage=f"python -m suites {name} {usage}",
        description=description[0].upper() + description[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--launches", type=int, metavar="N", help="measure the plan N times, anew each")
    option(
        "--cell-limit",
        type=seconds,
        metavar="S",
        help="the longest a cell may take (default: 10 times its estimate, and 3 minutes more)",
    )
    option("--json-lines", action="store_true", help="one JSON object a line, as it happens")


def leading(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first option, and the rest: a later word may be an option's value."""
    first = next((n for n, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    return list(arguments[:first]), list(arguments[first:])


def _suite_paths(names: Sequence[str]) -> tuple[str, ...]:
    folder = ROOT / "suites"
    known = {path.stem.removeprefix("bench_"): path for path in sorted(folder.glob("bench_*.py"))}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f'no suite "{unknown[0]}": one of {", ".join(known)}')
    return tuple(str(known[name]) for name in names) or (str(folder),)


def _refuse_its_own(passed_on: Sequence[str]) -> None:
    if any(word.split("=")[0] == "--resume" for word in passed_on):
        raise ValueError("--resume is of `pytest suites`: type `python -m suites resume RUN`")


def _request(
    options: argparse.Namespace, child: Sequence[str], arguments: tuple[str, ...]
) -> Request:
    if options.launches is not None and not 1 <= options.launches <= MOST_LAUNCHES:
        raise ValueError(f"--launches {options.launches}: give 1 to {MOST_LAUNCHES}")
    return Request(
        arguments=arguments,
        launches=options.launches,
        cell_limit_s=options.cell_limit,
        retry=getattr(options, "retry", False),
        looks_again=not getattr(options, "once", False),
        command=tuple(child),
    )


def _display(options: argparse.Namespace) -> Display:
    return JsonLines() if options.json_lines else Lines()


def _usage(error: Exception) -> int:
    print(f"attnbench: {error}", file=sys.stderr)
    return USAGE
