"""The code that travels to the nodes: our packages, and the files that the command line names."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suites.supervisor.request import ROOT

PARTS = ("impls", "suites", "conftest.py", "pyproject.toml", "results/ceilings")
"""What children import and read; no history of git, no environment, no runs."""
BROUGHT = "brought"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


@dataclass(frozen=True)
class Shipment:
    """A folder to be shipped, and what the command line means there.

    Attributes:
        folder: it holds what is shipped.
        arguments: of `pytest suites`, with absolute paths of this machine.
        files: where in the folder a file lies that the arguments name, by its path here.
    """

    folder: Path
    arguments: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)


def ship(
    folder: Path, arguments: Sequence[str], kernels: Sequence[str] = (), root: Path = ROOT
) -> Shipment:
    """Copy into the empty `folder` what measuring these arguments, and these kernels, needs.

    A kernel's file travels alone; on a node that has the same file in the same place it is that
    one which is imported, beside its neighbours.
    """
    for part in PARTS:
        source, target = root / part, folder / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=_LEFT_OUT)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    files: dict[str, str] = {}

    def take(path: str) -> str:
        file = Path(path).expanduser().absolute()
        if file.is_file():
            content = file.read_bytes()
            place = f"{BROUGHT}/{hashlib.sha256(content).hexdigest()[:12]}/{file.name}"
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_bytes(content)
            files[str(file)] = place
        return str(file)

    for text in kernels:
        _kernel(text, take)
    return Shipment(folder, tuple(_with_files(arguments, take)), files)


def unpacked(
    texts: Sequence[str], files: Mapping[str, str], home: Path, here: Path = ROOT
) -> list[str]:
    """The arguments, or names of brought kernels, as they are understood on a node.

    `home` is the checkout that they were shipped from, `here` the folder they were shipped into.
    """
    there = {path: str(_nearest(Path(path), here / place)) for path, place in files.items()}
    suites = str(home / "suites")
    found = []
    for text in texts:
        if text.startswith(suites):
            text = str(here / "suites") + text.removeprefix(suites)
        for path, place in there.items():
            text = text.replace(path, place)
        found.append(text)
    return found


def packed(texts: Sequence[str], files: Mapping[str, str]) -> list[str]:
    """Names of brought kernels, as a node understood them, by the paths of their files here."""
    found = []
    for text in texts:
        own = [path for path, place in files.items() if f"/{place}:" in text]
        found.append(f"{own[0]}:{text.rpartition(':')[2]}" if own else text)
    return found


def _nearest(own: Path, shipped: Path) -> Path:
    is_same = own.is_file() and own.read_bytes() == shipped.read_bytes()
    return own if is_same else shipped


def _with_files(arguments: Sequence[str], take: Callable[[str], str]) -> list[str]:
    """The arguments with every file that they name taken, and named as `take` does."""
    found: list[str] = []
    before = ""
    for word in arguments:
        flag, is_joined, value = word.partition("=") if word.startswith("--") else ("", "", word)
        option = flag if is_joined else before
        if option == "--impl":
            value = ",".join(_kernel(one, take) for one in value.split(","))
        elif option == "--shapes":
            value = take(value)
        found.append(f"{flag}={value}" if is_joined else word if flag else value)
        before = "" if is_joined or not flag else flag
    return found


def _kernel(text: str, take: Callable[[str], str]) -> str:
    """A brought kernel by the absolute path of its file; other names as they are."""
    place, colon, function = text.strip().rpartition(":")
    is_path = place.endswith(".py") or "/" in place
    return f"{take(place)}:{function}" if colon and is_path else text
