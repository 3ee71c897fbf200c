"""What was typed, settled: the commits, interpreters and cells that a comparison is of."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suites.ab import default_cells, judging
from suites.ab.manifest import Manifest, SideOf, new_name
from suites.ab.revisions import WORKING_TREE, Repository
from suites.supervisor.request import ROOT


def settled(options: argparse.Namespace, folder: Path) -> Manifest:
    """The comparison that was asked for in `folder`, not begun.

    Raises:
        ValueError: it cannot be one; the message says what would do.
    """
    kind = _kind(options)
    name, seed = new_name()
    # Not below the checkout: what looks through its files would find them twice.
    trees = Path(tempfile.gettempdir()).resolve() / f"attnbench-ab-{name}"
    gate = judging.with_absolute_paths(options.gate, folder)
    plan = judging.plan_of(gate)
    has_own_kernels = kind != "implementations" and not options.repo
    python = _interpreter(options.env_a) if options.env_a else sys.executable
    selection, is_default = default_cells.completed(
        _with_absolute_paths(options.selection, folder),
        options.suite,
        python,
        has_own_kernels=has_own_kernels,
    )
    default_limit_s = default_cells.LIMIT_S if is_default else None
    settled = Manifest(
        name=name,
        kind=kind,
        sides={},
        seed=seed,
        suites=_suites(options.suite),
        selection=tuple(selection),
        gate=tuple(gate),
        folder=str(folder),
        trees=str(trees),
        screen=plan["screen"],
        confirm=plan["confirm"],
        is_slower_only=options.slower_only,
        time_limit_s=options.time_limit or default_limit_s,
    )
    if kind == "revisions":
        return _of_revisions(settled, options, folder)
    return replace(settled, sides=_in_place(kind, options))


def _kind(options: argparse.Namespace) -> str:
    pairs = {
        "implementations": (options.impl_a, options.impl_b),
        "environments": (options.env_a, options.env_b),
    }
    for kind, pair in pairs.items():
        if any(pair) and not all(pair):
            flag = {"implementations": "--impl", "environments": "--env"}[kind]
            raise ValueError(f"{flag}-a and {flag}-b go together: give both")
    asked = [kind for kind, pair in pairs.items() if all(pair)]
    if asked and (len(asked) > 1 or options.revisions or options.repo or options.build):
        raise ValueError(f"{' and '.join(asked)} and revisions at once could not be told apart")
    if asked:
        return asked[0]
    if not 1 <= len(options.revisions) <= 2:
        given = " ".join(options.revisions) or "none"
        raise ValueError(f"revisions: {given}: give BASE, or BASE HEAD, such as `suites ab HEAD~1`")
    return "revisions"


def _of_revisions(settled: Manifest, options: argparse.Namespace, folder: Path) -> Manifest:
    where = Path(options.repo).expanduser() if options.repo else ROOT
    if not options.repo and folder.is_relative_to(ROOT):
        where = folder
    repository = Repository(where)
    sides = {}
    for side, told in zip(("base", "head"), [*options.revisions, None], strict=False):
        commit = repository.commit(told) if told else repository.snapshot()
        own = Path(settled.trees) / f"{side}-env" / "bin" / "python"
        python = str(own) if options.build else sys.executable
        sides[side] = SideOf(told or WORKING_TREE, commit, python)
    return replace(
        settled,
        sides=sides,
        repository=str(repository.top),
        inside=str(repository.inside),
        is_pinned=bool(options.repo),
        build=options.build,
    )


def _in_place(kind: str, options: argparse.Namespace) -> dict[str, SideOf]:
    if kind == "environments":
        pair = (options.env_a, options.env_b)
        sides = [SideOf(told, python=_interpreter(told)) for told in pair]
    else:
        if any(word.split("=")[0] == "--impl" for word in options.selection):
            raise ValueError("--impl beside --impl-a and --impl-b: those two are measured")
        pair = (options.impl_a, options.impl_b)
        sides = [SideOf(told, python=sys.executable, implementation=told) for told in pair]
    return dict(zip(("base", "head"), sides, strict=True))


def _interpreter(told: str) -> str:
    """The path of an interpreter; a link stays one, as it may be that of an environment."""
    found = shutil.which(Path(told).expanduser())
    if found is None:
        raise ValueError(
            f"{told} is no interpreter: give python3, or a path such as .venv/bin/python"
        )
    return str(Path(found).absolute())


def _suites(names: Sequence[str]) -> tuple[str, ...]:
    known = [path.stem.removeprefix("bench_") for path in sorted(ROOT.glob("suites/bench_*.py"))]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f'no suite "{unknown[0]}": one of {", ".join(known)}')
    return tuple(names) or ("given",)


def _with_absolute_paths(selection: Sequence[str], folder: Path) -> list[str]:
    """The options with `--shapes` as it is here, whichever revision reads it."""
    words: list[str] = []
    for word in selection:
        is_path = bool(words) and words[-1] == "--shapes"
        words.append(str((folder / Path(word).expanduser()).absolute()) if is_path else word)
    return words
