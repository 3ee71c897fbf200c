"""An environment for each revision, where a command builds it; built before anything is timed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from suites.ab.children import place_of, tree_of
from suites.ab.launches import say
from suites.ab.manifest import Manifest
from suites.supervisor.stopping import Stopping

_POLL_S = 0.2
_ALSO = "attnbench.pth"
_WHERE = """
import importlib.util, sys
for name in sys.argv[1:]:
    found = importlib.util.find_spec(name)
    places = [*(found.submodule_search_locations or ()), found.origin or ""] if found else []
    print(next(filter(None, places), ""))
"""


class BuildFailed(RuntimeError):
    """A revision was not built, or what was built is not what would be measured."""


def build(manifest: Manifest, stopping: Stopping) -> None:
    """Make the environment of each side and type the build command in its files.

    It is a virtual environment that sees this one's packages too, so that torch is the same.

    Raises:
        BuildFailed: a command failed, or a kernel is not imported from the revision's files.
    """
    if manifest.build is None:
        return
    for side, one in manifest.sides.items():
        tree = tree_of(manifest, side)
        assert tree is not None, "only revisions are built"
        folder = Path(one.python).parents[1]
        say(f"building {side}: {manifest.build}")
        _typed(stopping, [sys.executable, "-m", "venv", "--clear", str(folder)], tree)
        if stopping.is_asked:
            return
        _see_this_one_too(folder)
        variables = {
            "PATH": os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")]),
            "VIRTUAL_ENV": str(folder),
        }
        inside = tree / manifest.inside
        _typed(stopping, ["/bin/sh", "-c", manifest.build], inside, variables)
        if not stopping.is_asked:
            _check_imports(manifest, side, tree)


def _see_this_one_too(folder: Path) -> None:
    """Let an environment find the packages of the one this process is of, behind its own."""
    (own,) = folder.glob("lib/python*/site-packages")
    lines = [
        f"import site; site.addsitedir({sysconfig.get_path(name)!r})"
        for name in ("purelib", "platlib")
    ]
    (own / _ALSO).write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")


def _check_imports(manifest: Manifest, side: str, tree: Path) -> None:
    """Refuse to measure a kernel that comes from elsewhere than the revision's files."""
    modules = _brought_modules(manifest.selection)
    if not modules:
        return
    place = place_of(manifest, side)
    done = subprocess.run(
        [manifest.sides[side].python, "-P", "-c", _WHERE, *modules],
        cwd=place.folder,
        env=os.environ | dict(place.variables),
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(zip(modules, done.stdout.splitlines(), strict=False))
    within = (tree.resolve(), Path(manifest.sides[side].python).parents[1].resolve())
    for module in modules:
        where = found.get(module, "")
        if not any(Path(where).resolve().is_relative_to(folder) for folder in within):
            place_told = where or "nowhere"
            raise BuildFailed(
                f"{side}: {module} is imported from {place_told}, not from its revision: "
                f'give a --build that installs it, such as "pip install -e ."'
            )


def _brought_modules(selection: Sequence[str]) -> list[str]:
    words = [
        one for flag, text in pairwise(selection) if flag == "--impl" for one in text.split(",")
    ]
    modules = [word.split(":")[0] for word in words if ":" in word]
    return [name.split(".")[0] for name in modules if not name.endswith(".py") and "/" not in name]


def _typed(
    stopping: Stopping, command: Sequence[str], folder: Path, variables: Mapping[str, str] = {}
) -> None:
    with subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        output = ""
        while process.returncode is None:
            try:
                output, _ = process.communicate(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                if stopping.is_asked:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode and not stopping.is_asked:
        last = " / ".join(output.strip().splitlines()[-3:])
        raise BuildFailed(f"`{command[-1]}` in {folder} ended with {process.returncode}: {last}")
