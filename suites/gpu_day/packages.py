"""What an environment lacks of the packages that a day needs, told before anything is begun."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from suites.supervisor.request import ROOT

_CARRIED = (
    "Where nothing can be fetched, carry wheels: pip download --no-deps -d wheels NAME, there "
    "pip install --no-index --no-deps --target site wheels/*.whl, then PYTHONPATH=$PWD/site"
)


def lacking(pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    """The requirements of `pyproject` that are not met here, each with what was found."""
    # With pytest, which needs it; where even that is missing, the list says so.
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return ["packaging (not installed)"]
    with pyproject.open("rb") as file:
        wanted = [Requirement(text) for text in tomllib.load(file)["project"]["dependencies"]]
    found = [(one, _version(one.name)) for one in wanted]
    return [
        f"{one} ({'not installed' if version is None else f'{version} is installed'})"
        for one, version in found
        if version is None or not one.specifier.contains(version, prereleases=True)
    ]


def told(lacks: list[str]) -> str:
    """What to do about it, in one line."""
    return f"this Python lacks {'; '.join(lacks)}. {_CARRIED}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
