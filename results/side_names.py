"""What a side is called on the command line, and the side that is meant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from results.baseline import joined, read_baseline
from results.run import Run
from results.side import Side, SideMistake, side
from results.store import find_run, load_run


def read_side(text: str, store: Path, *, implementation: str | None = None) -> Side:
    """The side that is called so.

    Raises:
        RunNotFound: no run is called so.
        SideMistake: a run is named twice, or a baseline beside runs; a run is of static profiles.
        SchemaError, OSError: as reading raises them.
    """
    names = [name for name in text.split(",") if name.strip()]
    baselines = [name for name in names if name.endswith(".json")]
    if baselines and len(baselines) < len(names):
        raise SideMistake(
            f'"{text}": a baseline and runs cannot be one side: name one or the other'
        )
    if baselines:
        return joined([read_baseline(Path(name)) for name in baselines])
    runs = [run for name in names for run in _runs(name.strip(), store)]
    return side(text, runs, implementation=implementation)


def _runs(name: str, store: Path) -> list[Run]:
    folder = Path(name)
    if folder.is_dir() and not (folder / "run.json").is_file():
        found = sorted(file.parent for file in folder.glob("**/run.json"))
        if found:
            return [_timed(run) for run in _without_parts(map(load_run, found))]
    return [_timed(load_run(find_run(name, store, kind="timed")))]


def _without_parts(runs: Iterable[Run]) -> list[Run]:
    """Those that were not merged into another one of them: a launch counts once."""
    found = list(runs)
    parts = {(run.header.machine_key, part.run) for run in found for part in run.header.merged}
    return [run for run in found if (run.header.machine_key, run.name) not in parts]


def _timed(run: Run) -> Run:
    if run.header.kind != "timed":
        raise SideMistake(f"{run.name} is a {run.header.kind} run: gate it with --static")
    return run
