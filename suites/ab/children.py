"""How the children of a side are started: their interpreter, files, folder and arguments."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from suites.ab.manifest import Manifest
from suites.ab.revisions import Repository
from suites.supervisor.request import ROOT, Place, Request

_CEILINGS = Path("results") / "ceilings"


def tree_of(manifest: Manifest, side: str) -> Path | None:
    """The folder of the files of a side's commit; None where it is measured in place."""
    return Path(manifest.trees) / side if manifest.sides[side].commit else None


def request_of(manifest: Manifest, side: str, store: Path, child: Sequence[str]) -> Request:
    """What the children of a side are asked to do, with their runs in `store`.

    `child` is what the side's interpreter is given before their arguments.
    """
    one, tree = manifest.sides[side], tree_of(manifest, side)
    root = tree if tree and not manifest.is_pinned else ROOT
    suites = [str(root / "suites" / f"bench_{name}.py") for name in manifest.suites]
    chosen = ["--impl", one.implementation] if one.implementation else []
    return Request(
        arguments=(*suites, "--store", str(store), *manifest.selection, *chosen),
        command=(one.python, *child),
        place=place_of(manifest, side),
        looks_again=False,
    )


def add_trees(manifest: Manifest) -> None:
    """Put the files of both commits where they are measured.

    Raises:
        GitFailed, RevisionMistake: git could not.
    """
    for side, one in manifest.sides.items():
        if one.commit and manifest.repository and (tree := tree_of(manifest, side)):
            Repository(Path(manifest.repository)).add_tree(tree, one.commit)
            if not manifest.is_pinned and (ROOT / _CEILINGS).is_dir():
                # Of this machine, and kept for a week: no need to measure them for each side.
                shutil.copytree(ROOT / _CEILINGS, tree / _CEILINGS, dirs_exist_ok=True)


def remove_trees(manifest: Manifest) -> None:
    """Leave the repository as it was found."""
    for side in manifest.sides:
        if manifest.repository and (tree := tree_of(manifest, side)):
            Repository(Path(manifest.repository)).remove_tree(tree)
    if manifest.trees:
        # With the environments that were built there.
        shutil.rmtree(manifest.trees, ignore_errors=True)


def place_of(manifest: Manifest, side: str) -> Place:
    """Where the children of a side are at home."""
    tree = tree_of(manifest, side)
    if tree is None:
        return Place(ROOT, Path(manifest.folder))
    inside = tree / manifest.inside
    if not manifest.is_pinned:
        return Place(tree, inside)
    # Another repository's own `suites` or `tests` must not stand before ours.
    path = [str(inside), str(inside / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
    return Place(ROOT, inside, variables)
