"""`python -m impls`: what implementations there are, are they right, what a problem costs."""

from __future__ import annotations

from impls.interface.streams import take_any_sign

# isort: split
import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from impls.interface.terminal import console
from impls.layer import cost_command

_EXAMPLES = """examples:
  python -m impls list
  python -m impls check sdpa_flash --impl mykernel.py:attention
"""
_LIST_EXAMPLES = """examples:
  python -m impls list
  python -m impls list --device cuda --json

exit codes: 0 listed, 2 usage"""
_CHECK_EXAMPLES = """examples:
  python -m impls check naive sdpa_flash
  python -m impls check --impl mykernel.py:attention

exit codes: 0 all that was checked is right, 1 something is wrong, or nothing
could be checked, 2 usage"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when all is right, 1 when a check is wrong, 2 when it was misused."""
    given = _parser().parse_args(arguments)
    try:
        return given.command(given)
    except ValueError as error:
        print(f"python -m impls: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m impls",
        description="What implementations there are, are they right, what a problem costs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="list | check | cost")

    def command(name: str, run: Any, text: str, examples: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(command=run)
        added.add_argument("--json", action="store_true", help="JSON on stdout, nothing else there")
        return added

    listing = command("list", _list, "every implementation, and whether it runs", _LIST_EXAMPLES)
    checking = command(
        "check", _check, "try the conformance matrix, against float64", _CHECK_EXAMPLES
    )
    costing = command(
        "cost",
        cost_command.run,
        "FLOP and bytes of a problem; parameters, cache and bounds of a model's attention",
        cost_command.EXAMPLES,
    )
    checking.add_argument("names", nargs="*", metavar="NAME", help="which; all without a name")
    for added in (listing, checking):
        added.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
        added.add_argument(
            "--impl",
            action="append",
            default=[],
            metavar="x.y:function",
            help="bring a kernel: package.module:function or path/to/file.py:function; repeatable",
        )
    cost_command.add_arguments(costing)
    return parser


def _list(given: argparse.Namespace) -> int:
    from impls.interface.availability import version_of
    from impls.interface.first_call import inability_tried_apart
    from impls.interface.registry import implementations
    from impls.interface.tables import print_implementations

    device = _device(given.device)
    rows = []
    for implementation in implementations(given.impl).values():
        _progress(f"trying {implementation.name}")
        unable = inability_tried_apart(implementation, device)
        reasons = list(unable.reasons) if unable else []
        rows.append((implementation, version_of(implementation), reasons))
    _progress("")
    if given.json:
        records = [_described(one, version, why, device) for one, version, why in rows]
        print(json.dumps(records, indent=2))
        return 0
    print_implementations(console(), rows, device)
    available = sum(not reasons for _, _, reasons in rows)
    print(f"{available} of {len(rows)} implementations are available on {device}")
    return 0


def _described(
    implementation: Any, version: str, reasons: list[str], device: str
) -> dict[str, Any]:
    from impls.interface.tables import supports

    can = implementation.capabilities
    return {
        "implementation": implementation.name,
        "summary": implementation.summary,
        "operator": implementation.operator,
        "version": version,
        "device": device,
        "available": not reasons,
        "reasons": reasons,
        "proven_in": implementation.proven_in,
        "needs_compiler": implementation.needs_compiler,
        "source": implementation.source,
        "supports_here": supports(implementation, device),
        "capabilities": {f.name: getattr(can, f.name) for f in fields(can) if f.name != "further"},
    }


def _check(given: argparse.Namespace) -> int:
    import torch

    from impls.interface import interpreted
    from impls.interface.conformance import Conformance, conformance
    from impls.interface.first_call import inability_tried_apart
    from impls.interface.named_object import is_of_an_object
    from impls.interface.problem import SOFTMAX
    from impls.interface.registry import select
    from impls.interface.tables import print_conformance, summary
    from impls.layer.operator_check import operator_conformance

    started = time.perf_counter()
    # Thousands of calls of microseconds: a second thread waits for the first, and for every
    # other process of the machine, 20 times longer than it computes.
    torch.set_num_threads(1)
    device = _device(given.device)
    # As for `pytest suites`, either will do in either place.
    typed = dict.fromkeys([*given.names, *given.impl])
    chosen = select(
        [name for name in typed if not is_of_an_object(name)],
        [text for text in typed if is_of_an_object(text)],
    )
    # The interpreter's processes run beside this one.
    children = {
        name: interpreted.start(one)
        for name, one in chosen.items()
        if interpreted.needs_interpreter(one, device)
    }
    found: list[Conformance] = []
    unavailable: dict[str, list[str]] = {}
    for name, one in chosen.items():
        _progress(f"{name}: starting")
        reasons: list[str] = []
        if name in children:
            result, reasons = interpreted.finish(one, children[name])
        elif unable := inability_tried_apart(one, device):
            result, reasons = None, list(unable.reasons)
            if unable.status != "unavailable":
                why = f"{unable.status}: {'; '.join(reasons)}"
                result = Conformance.failed(one, device, "the first call", why)
        elif one.operator != SOFTMAX:
            result = operator_conformance(one, device, progress=_counted(name))
        else:
            is_interpreted = one.proven_in == "interpreter" and interpreted.is_interpreting()
            result = conformance(
                one,
                device,
                where="interpreter" if is_interpreted else "device",
                progress=_counted(name),
            )
        if result is None:
            unavailable[name] = reasons
        else:
            found.append(result)
    _progress("")
    # Nothing checked is nothing proven.
    ok = bool(found) and all(one.ok for one in found)
    line = f"{summary(found, unavailable)} ({time.perf_counter() - started:.0f} s)"
    if given.json:
        record = {
            "ok": ok,
            "device": device,
            "implementations": [one.to_json() for one in found],
            "unavailable": unavailable,
        }
        print(json.dumps(record, indent=2, allow_nan=False))
        print(line, file=sys.stderr)
    else:
        print_conformance(console(), found, unavailable)
        print(f"\n{line}")
    return 0 if ok else 1


def _device(asked: str) -> str:
    from impls.interface.device_choice import choose

    try:
        chosen = choose(asked)
    except ValueError as error:
        raise ValueError(f"--device {asked}: {error}; try --device cpu") from error
    if chosen.notice:
        print(f"WARNING: {chosen.notice}", file=sys.stderr)
    return chosen.device


def _counted(name: str) -> Callable[[int, int], None]:
    return lambda done, of: _progress(f"{name}: check {done} of {of}")


def _progress(text: str) -> None:
    """One line on stderr, rewritten on a terminal; in a log only the lines that begin a subject."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
    elif text and ": check " not in text:
        print(text, file=sys.stderr)


if __name__ == "__main__":
    take_any_sign()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`) has gone: what it wanted is written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        # A full disk under stdout; 1 would say that a result is wrong.
        print(f"python -m impls: {error}", file=sys.stderr)
        code = 5
    sys.exit(code)
