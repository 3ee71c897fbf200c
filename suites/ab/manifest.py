"""What a comparison is, written before it begins and gone on with after Ctrl-C or `kill -9`.

`manifest.json` has what was asked and what was settled; what is measured stands in the journals of
the two runs beside it, so that nothing has to be kept in step.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from suites.measure.atomic_file import unwritable, write_json

FILE = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True)
class SideOf:
    """One side as it was asked for and settled.

    Attributes:
        told: as the user named it.
        commit: whose files it has; None: those of the working tree, in place.
        python: the interpreter that measures it.
        implementation: as it was given, where two are set against each other.
    """

    told: str
    commit: str | None = None
    python: str = ""
    implementation: str | None = None


@dataclass(frozen=True)
class Manifest:
    """A comparison: its two sides, what is measured of them, and how it is judged.

    Attributes:
        kind: "revisions", "environments" or "implementations".
        repository: where the commits are; None without commits.
        inside: the folder in it that children are in.
        is_pinned: this checkout measures a kernel of that repository; else each commit measures
            itself.
        build: what is typed in each commit's files before it is measured.
        suites: the sweeps whose cells are measured.
        selection, gate: options of `pytest suites` and of `python -m results gate`.
        folder: where it was typed: relative paths begin there.
        trees: where the commits' files are while it goes on.
        screen, confirm: launches a side.
        allow: fields that may differ, as the environments that are compared do.
        start_s, cells_s: what a launch and each cell of it took when it was rehearsed.
        suspects: what is confirmed, known once the screen is over.
        exit_code: that of its verdict, once it has one.
    """

    name: str
    kind: str
    sides: Mapping[str, SideOf]
    seed: int
    suites: tuple[str, ...] = ("given",)
    selection: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    folder: str = ""
    repository: str | None = None
    inside: str = "."
    is_pinned: bool = False
    build: str | None = None
    trees: str = ""
    screen: int = 5
    confirm: int = 20
    is_slower_only: bool = False
    time_limit_s: float | None = None
    allow: tuple[str, ...] = ()
    start_s: float | None = None
    cells_s: Mapping[str, float] = field(default_factory=dict)
    suspects: tuple[str, ...] | None = None
    exit_code: int | None = None

    @property
    def question(self) -> Manifest:
        """What is to be measured alone: equal for the same command on the same files.

        How it is judged and told, and in which time, may change on the way.
        """
        return replace(
            self,
            name="",
            seed=0,
            trees="",
            gate=(),
            time_limit_s=None,
            sides={
                k: replace(side, python=_outside(side.python, self.trees))
                for k, side in self.sides.items()
            },
            allow=(),
            start_s=None,
            cells_s={},
            suspects=None,
            exit_code=None,
        )

    @property
    def is_rehearsed(self) -> bool:
        """Whether both sides were tried and their runs begun."""
        return self.start_s is not None


def _outside(python: str, trees: str) -> str:
    """The interpreter; one that is built for a side is none that was asked for."""
    return "" if trees and Path(python).is_relative_to(trees) else python


def new_name() -> tuple[str, int]:
    """A name for a comparison that begins now, and the seed of its order."""
    seed = secrets.randbelow(1 << 32)
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{seed:08x}", seed


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    write_json(folder / FILE, {"schema": SCHEMA} | asdict(manifest))


def read(folder: Path) -> Manifest:
    """The manifest of a folder.

    Raises:
        ValueError: there is none, or it is of another schema.
    """
    try:
        given: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if given.pop("schema") != SCHEMA:
            raise ValueError("it is of another version")
        sides = {name: SideOf(**_tupled(side)) for name, side in given.pop("sides").items()}
        return Manifest(sides=sides, **_tupled(given))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / FILE} is no comparison to go on with: {error}") from None


def find(store: Path, name: str) -> Path:
    """The folder of the comparison called `name`: "latest", a beginning of a name, or a path.

    Raises:
        ValueError: none is called so, or several.
    """
    if (Path(name) / FILE).is_file():
        return Path(name).absolute()
    known = sorted(path.parent for path in store.glob(f"*/{FILE}"))
    found = known[-1:] if name == "latest" else [p for p in known if p.name.startswith(name)]
    if len(found) != 1:
        newest = ", ".join(path.name for path in known[:-6:-1]) or f"none in {store}"
        count = "no comparison" if not found else f"{len(found)} comparisons"
        raise ValueError(f'{count} called "{name}": there are {newest}')
    return found[0]


def lock(folder: Path) -> IO[bytes]:
    """Hold the comparison until the file that is returned is closed, or this process ends.

    Raises:
        BlockingIOError: another process goes on with it.
        OSError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("ab")
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    os.set_inheritable(file.fileno(), False)
    return file


def _tupled(given: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
