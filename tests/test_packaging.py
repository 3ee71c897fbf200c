"""What is tracked, packed and pinned: the lock, the wheel, the hooks, and nobody's machine."""

from __future__ import annotations

import itertools
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Home folders, mount points of one machine, and indexes other than the one pip is set to.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.$}])/(?:home|root|Users|work|opt)/\w|[a-z]+://\S*(?:simple|pythonhosted)|index-ur[l]"
)


def pinned() -> dict[str, str]:
    """Version by canonical name, from requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def declared() -> list[Requirement]:
    """Every requirement of pyproject.toml that is locked: not what is installed apart."""
    project = PYPROJECT["project"]
    optional = project["optional-dependencies"]
    extras = [e for name, e in optional.items() if name not in ("cpu-rivals", "fleet")]
    lines = [*project["dependencies"], *itertools.chain(*extras)]
    return [Requirement(line) for line in lines]


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_the_lock_satisfies(requirement: Requirement):
    assert pinned()[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_lock_holds_for_every_machine():
    versions = pinned()
    assert (versions["torch"], versions["triton"]) == ("2.13.0", "3.7.1")
    # a local version (+cpu), a hash or a file of the machine that made the lock
    assert [version for version in versions.values() if not re.fullmatch(r"[\w.]+", version)] == []
    cuda_wheels = [name for name in versions if name.startswith(("nvidia-", "cuda-"))]
    assert cuda_wheels == ["nvidia-ml-py"]
    assert "attnbench" not in versions


def test_the_wheel_is_empty_and_never_uploaded():
    """PyPI has a `results` and a `reports`; ours must not overwrite them in site-packages."""
    build = PYPROJECT["tool"]["hatch"]["build"]
    assert build == {"dev-mode-dirs": ["."], "targets": {"wheel": {"bypass-selection": True}}}
    assert "Private :: Do Not Upload" in PYPROJECT["project"]["classifiers"]


def test_hooks_use_the_tools_of_the_lock():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (\S+)", hooks)) == {"local"}
    entries = re.findall(r"entry: (.+)", hooks)
    assert entries
    assert all(entry.startswith(".venv/bin/python -m ") for entry in entries)


def test_ci_runs_the_two_commands():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "make test" in script
    assert "make bench BUDGET=smoke" in script
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert ".ci/run" in workflow and "make fleet" in workflow
    nightly = (ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8")
    assert "make test-all" in nightly
    assert "make another-triton TRITON=3.6.0 NUMPY='<2.4'" in nightly
    assert "make cpu-rivals" in nightly


def test_tests_run_side_by_side_and_measuring_never_does():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    started = [line for line in makefile.splitlines() if "-m pytest" in line]
    assert len(started) == 7
    is_beside = [" -n " in line or "$(BESIDE)" in line for line in started]
    assert is_beside == [" suites " not in line for line in started]
    options = PYPROJECT["tool"]["pytest"]["ini_options"]["addopts"]
    assert not [word for word in options if word.startswith(("-n", "--numprocesses", "--dist"))]


def test_no_tracked_file_names_a_machine():
    text_files = [path for path in tracked() if path.suffix not in {".png", ".svg", ".gz", ".npz"}]
    assert text_files
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in text_files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OF_ONE_MACHINE.search(line)
    ]
    assert found == []
    for planted in (" /ho" + "me/ada/x", "'/ro" + "ot/y'", "https://a.b/sim" + "ple/torch"):
        assert OF_ONE_MACHINE.search(planted), planted
    assert not OF_ONE_MACHINE.search("/path/to/attnbench/suites")
