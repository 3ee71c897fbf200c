"""`python -m results merge`: one run out of the shards of a sweep, or out of its launches."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from results.judging_arguments import ArgumentMistake, examples
from results.merge import Merged, NotOneRun, merge
from results.reading import SchemaError
from results.store import find_run, load_run

NOT_COMPARABLE = 4
_CODES = (
    "0 merged, 2 usage or a shard is not there, 4 runs of other devices, methods or commits,\n"
    "5 unreadable"
)


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the parser of this command to those of `python -m results`."""
    command = commands.add_parser(
        "merge",
        parents=[shared],
        help="one run out of the shards of a sweep, or out of its launches",
        description="Write one run out of several of one machine, method and commit. A row that "
        "several have is the newest run's. The runs it is made of stay; beside it they count no "
        "more: for `latest`, history and folders of runs.",
        **examples(
            "merge shards/*/",
            "merge 20261129T19 20261130T07 --launches -o merged/",
            codes=_CODES,
        ),
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="names as `list` has them, paths")
    command.add_argument(
        "-o", "--out", metavar="FOLDER", help="the new run (default: in the store, named by now)"
    )
    command.add_argument(
        "--launches", action="store_true", help="each run is further launches of the same plan"
    )
    command.add_argument(
        "--allow-missing", action="store_true", help="without all shards: an interrupted run"
    )


def merge_runs(options: argparse.Namespace, store: Path) -> int:
    """Merge the runs that were named and tell of it → exit code.

    Raises:
        RunNotFound, ArgumentMistake, SchemaError, OSError: as reading and writing raise them.
    """
    paths = [find_run(name, store) for name in options.runs]
    into = Path(options.out).absolute() if options.out else _new_run(paths[0], store)
    try:
        merged = merge(paths, into, are_launches=options.launches, may_lack=options.allow_missing)
    except NotOneRun as error:
        print(f"results: {error}", file=sys.stderr)
        return NOT_COMPARABLE
    except SchemaError:
        raise
    except (FileExistsError, ValueError) as error:
        raise ArgumentMistake(str(error)) from None
    _tell(merged, paths, as_json=options.json)
    return 0


def _new_run(part: Path, store: Path) -> Path:
    """A folder of the store that no run has."""
    header = load_run(part).header
    utc = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{utc}-{header.commit[:7] if header.commit else 'nogit'}"
    folder, n = store / header.machine_key / name, 1
    while folder.exists():
        n += 1
        folder = folder.with_name(f"{name}-{n}")
    return folder


def _tell(merged: Merged, paths: list[Path], *, as_json: bool) -> None:
    for note in merged.notes:
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        record = {"run": merged.path.name, "path": str(merged.path), "counts": merged.counts}
        record |= {"runs": [path.name for path in paths], "repeated": merged.repeated}
        print(json.dumps(record | {"notes": list(merged.notes)}, indent=1, ensure_ascii=False))
        return
    counts = ", ".join(f"{n} {status}" for status, n in merged.counts.items())
    print(f"{len(paths)} runs merged: {counts or 'no cell'}")
    if merged.repeated:
        print(f"{merged.repeated} rows were in several of them: the newest counts")
    print(f"run {merged.path}")
