"""`python -m results accept`: make launches what the next ones are judged against."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from results.baseline import OLDEST, files, joined, of_suite, read_baseline, write_baseline
from results.compare import Asked, compare
from results.more_launches import more_launches
from results.rules import read_rules
from results.side import NOT_MEASURED, Side
from results.side_names import read_side
from results.store import find_run, load_run
from results.units import counted
from results.verdict import NOT_COMPARABLE, REGRESSED, Comparison, exit_code
from results.verdict_text import change_text, conclusion

FAILED, BROKEN = 1, 5


def accept_side(options: argparse.Namespace, store: Path) -> int:
    """Write the baseline of each suite and print what changes by it → exit code.

    Raises:
        RunNotFound, SchemaError, RulesError, SideMistake, OSError: as files raise them.
    """
    head = read_side(options.run, store)
    rules = read_rules(Path(options.rules) if options.rules else None)
    if options.without_flagged:
        head = _unflagged(head, rules.plan.confirm)
    folder, key = Path(options.baselines), head.headers[0].machine_key
    suites = sorted({cell.suite for cell in head.cells.values() if cell.times_s})
    before = [read_baseline(file) for file in files(folder, key)]
    against = [*_unfit(head, rules.plan.confirm, options.without_flagged)]
    against += _states(options.run, store)
    judged = _judged(before, head, Asked(rules, is_single=True), suites)
    against += _failing(judged, "")
    if not options.restart:
        oldest = [read_baseline(file) for file in files(folder, key, oldest=True)]
        asked = Asked(rules, is_single=True, cumulative=True)
        against += _failing(_judged(oldest, head, asked, suites), "against the oldest baseline: ")
    if not suites:
        against.append("nothing to accept: no cell has a time without a flag")
    if against:
        return _refused(options, against, FAILED if suites else BROKEN)
    return _told(options, head, judged, _written(head, folder / key, suites, options.restart))


def _written(head: Side, folder: Path, suites: list[str], is_restart: bool) -> list[Path]:
    """Write each suite's baseline, and its oldest one where there is none → the files."""
    files = []
    for suite in suites:
        oldest = folder / OLDEST / f"{suite}.json"
        is_first = is_restart or not oldest.exists()
        for file in [folder / f"{suite}.json", *([oldest] if is_first else [])]:
            write_baseline(file, head, suite)
            files.append(file)
    return files


def _unflagged(head: Side, least: int) -> Side:
    """The side without the cells that have too few launches once flagged rows are left out."""
    kept = {key: cell for key, cell in head.cells.items() if len(cell.times_s) >= least}
    return replace(head, cells=kept)


def _unfit(head: Side, least: int, without_flagged: bool) -> Iterable[str]:
    """Why these launches should be no baseline."""
    yield from _too_few(head, least)
    for cell in head.cells.values():
        doubts = [status for status in cell.statuses if status not in (*NOT_MEASURED, "ok")]
        if cell.broken:
            yield f"{cell.name} is {cell.broken}: {cell.reason or 'no reason was written'}"
        elif doubts and not without_flagged:
            counts = ", ".join(f"{cell.statuses[flag]} {flag}" for flag in doubts)
            yield f"{cell.name} is flagged ({counts}); --without-flagged leaves such rows out"


def _too_few(head: Side, least: int) -> Iterable[str]:
    """The unflagged cells with too few launches by their number, and what would measure enough."""
    few: dict[int, list[str]] = defaultdict(list)
    for cell in head.cells.values():
        is_sound = set(cell.statuses) <= {*NOT_MEASURED, "ok"}
        if cell.times_s and is_sound and len(cell.times_s) < least:
            few[len(cell.times_s)].append(cell.name)
    command = more_launches(head.headers[0], least)
    for n, names in few.items():
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        yield (
            f"{names[0]} has {n} launch{'es' * (n != 1)}, a baseline needs {least}{more}: {command}"
        )


def _states(text: str, store: Path) -> Iterable[str]:
    for name in text.split(","):
        if not Path(name).is_dir() or (Path(name) / "run.json").is_file():
            run = load_run(find_run(name.strip(), store, kind="timed"))
            if run.state != "finished":
                yield f"{run.name} is {run.state}"


def _failing(judged: Comparison | None, words: str) -> Iterable[str]:
    if judged is None:
        return
    code = exit_code(judged)
    if code in (REGRESSED, NOT_COMPARABLE):
        yield f"{words}{conclusion(judged, code)} (a waiver in gate.toml lets it pass)"


def _judged(before: list[Side], head: Side, asked: Asked, suites: list[str]) -> Comparison | None:
    known = [one for one in before if any(of_suite(one, suite).cells for suite in suites)]
    if not known:
        return None
    return compare(joined(known), head, asked)


def _refused(options: argparse.Namespace, against: list[str], code: int) -> int:
    shown = against[:10] + [f"and {len(against) - 10} more"] * (len(against) > 10)
    last = f"NOT ACCEPTED: {against[0]}"
    if options.json:
        record = {"exit_code": code, "files": [], "conclusion": last, "against": against}
        print(json.dumps(record, indent=1, ensure_ascii=False))
    else:
        print("\n".join([*shown, last] if len(shown) > 1 else [last]))
    return code


def _told(
    options: argparse.Namespace, head: Side, judged: Comparison | None, written: list[Path]
) -> int:
    timed = sum(bool(cell.times_s) for cell in head.cells.values())
    last = f"accepted {counted(timed, 'cell')} of {len(head.launches)} launches"
    if judged is None:
        last += ": the first of this machine"
    changes = [] if judged is None else [one for one in judged.verdicts if one.ratio or one.reasons]
    if options.json:
        record = {"exit_code": 0, "files": [str(file) for file in written], "conclusion": last}
        record["changes"] = [
            {"name": one.name, "verdict": one.verdict, "ratio": one.ratio} for one in changes
        ]
        print(json.dumps(record, indent=1, ensure_ascii=False))
        return 0
    for one in changes:
        if one.verdict != "unchanged":
            print(f"{one.verdict:12} {change_text(one.ratio):>8}  {one.name}")
    if judged is not None:
        counts = ", ".join(f"{n} {verdict}" for verdict, n in judged.counts.items())
        last += f": {counts}"
    print("\n".join([*map(str, written), last]))
    return 0
