"""`python -m results gate --static` and `accept --static`: a run against what was accepted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from impls.interface.streams import for_a_reader
from results.run import Run
from results.screen import Screen
from results.static_baseline import accepted, gated, read_baselines, write_baselines
from results.static_gate import belongs, counts, exit_code, judge
from results.static_printing import (
    conclusion,
    counts_text,
    lines,
    names,
    print_differences,
    record,
    told,
)
from results.static_profile import StaticProfile
from results.static_promises import breaches
from results.static_scope import is_of_shipped, looked_at, options_text, selection, widened
from results.store import find_run, load_run

FAILED, USAGE, NOT_COMPARABLE, BROKEN = 1, 2, 4, 5
_ACCEPT = "python -m results accept --static"
_GATES_SET = "the baseline is of what python -m suites static compiles without options"
_SAME = "nothing to accept: the baseline says the same"


def gate(options: argparse.Namespace, store: Path) -> int:
    """Judge a run against the baseline, or the second of two against the first → exit code.

    Raises:
        RunNotFound, SchemaError, OSError: as reading raises them.
    """
    if len(options.runs) > 2:
        print(f"results: {len(options.runs)} runs given: RUN, or BASE RUN", file=sys.stderr)
        return USAGE
    folder = Path(options.baselines)
    if len(options.runs) == 2:
        base, run = (_static_run(name, store) for name in options.runs)
        before = [accepted(p) for p in base.profiles if p.status == "ok"]
        profiles, against = run.profiles, f"run {base.name}"
    else:
        run = _static_run(options.runs[0] if options.runs else "latest", store)
        before = read_baselines(folder)
        profiles, against = gated(run.profiles), f"{len(before)} accepted profiles"
        asked = [one for one in before if looked_at(one, selection(run))]
        if len(asked) < len(before):
            against += f", of which it was asked for {len(asked)} ({options_text(run)})"
        before = asked
    judged = judge(profiles, before) if profiles and before else []
    code = exit_code(judged)
    last = conclusion(judged, code)
    if not profiles:
        last += f": {run.name} has none of a shipped kernel with its default block"
    elif not before and len(options.runs) == 2:
        last += f": {against} has no profile that compiled"
    elif not before:
        code = NOT_COMPARABLE
        last = f"NOT COMPARABLE: nothing of it was accepted in {folder}: {_ACCEPT}"
    with for_a_reader():
        if options.json:
            head = {"run": run.name, "against": against, "exit_code": code, "conclusion": last}
            _print_json(head | {"counts": counts(judged), "judgements": record(judged)})
        else:
            print(f"static gate: run {run.name} ({run.state}) against {against}")
            if len(options.runs) == 2:
                print_differences(judged, Screen())
            else:
                _print_lines(lines(judged))
            print(last)
    return code


def accept(options: argparse.Namespace, store: Path) -> int:
    """Make a run the baseline, with what changes by it printed → exit code.

    Raises:
        RunNotFound, SchemaError, OSError: as reading and writing raise them.
    """
    run = _static_run(options.run, store)
    profiles, folder = gated(run.profiles), Path(options.baselines)
    why_not = _against_accepting(run)
    if not profiles and not why_not:
        why_not = [f"{run.name} has none of a shipped kernel with its default block"]
    if why_not:
        last = f"NOT ACCEPTED: {told(why_not)}"
        if options.json:
            _print_json({"run": run.name, "files": [], "conclusion": last})
        else:
            _print_lines([*why_not, last] if len(why_not) > 1 else [last])
        return FAILED if profiles else BROKEN
    before = read_baselines(folder)
    asked = [one for one in before if looked_at(one, selection(run))]
    judged = judge(profiles, asked)
    kept = [one for one in before if one not in asked or not belongs(one, profiles)]
    after = [*kept, *map(accepted, profiles)]
    source = {"run": run.name, "commit": run.header.commit, "utc": run.header.created_utc}
    files = [str(file) for file in write_baselines(folder, before, after, source)]
    last = f"accepted {len(profiles)} profiles: {counts_text(judged)}" if files else _SAME
    if options.json:
        head = {"run": run.name, "files": files, "conclusion": last, "counts": counts(judged)}
        _print_json(head | {"judgements": record(judged)})
        return 0
    print(f"accepting run {run.name} into {folder}")
    _print_lines([*lines(judged), *_knowingly_broken(profiles), *files, last])
    return 0


def _static_run(name: str, store: Path) -> Run:
    return load_run(find_run(name, store, kind="static", is_meant=is_of_shipped))


def _against_accepting(run: Run) -> list[str]:
    """What failed never becomes the baseline; no half of a run does."""
    name = names(run.profiles)
    found = [
        f"{name[p.key]} is {p.status}: {p.reasons[0].strip().splitlines()[0]}"
        for p in run.profiles
        if p.status != "ok"
    ]
    if run.state != "finished":
        found.append(f"{run.name} is {run.state}")
    if wider := widened(run):
        found.append(f"{run.name} was asked for {', '.join(wider)}: {_GATES_SET}")
    return found


def _knowingly_broken(profiles: Sequence[StaticProfile]) -> list[str]:
    name = names(profiles)
    return [
        f"accepted although {name[p.key]} breaks a promise: {breach.text}"
        for p in profiles
        for breach in breaches(p)
    ]


def _print_lines(texts: Sequence[str]) -> None:
    for text in texts:
        print(text)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))
