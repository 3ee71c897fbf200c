"""Versions against what the checkout asks for, and libraries by one real call each."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from impls.interface.availability import availability
from impls.interface.registry import implementations
from suites.doctor.finding import Finding, note, ok, problem
from suites.measure import allocator

ROOT = Path(__file__).resolve().parents[2]
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def findings(device: str) -> Iterator[Finding]:
    """What is installed, whether it fits together, and whether it runs on `device`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from versions(project, installed())
    yield xformers(device)
    yield triton(device)
    yield from memory_allocator(allocator.make_steady(), HUGE_PAGES)


def installed() -> dict[str, str]:
    """Version by distribution, in lower case with hyphens."""
    found = {}
    for one in importlib.metadata.distributions():
        found[_normal(one.name or "")] = one.version
    return found


def versions(project: Mapping[str, object], here: Mapping[str, str]) -> Iterator[Finding]:
    """Python and packages against pyproject.toml's ranges."""
    wanted = str(project["requires-python"])
    python = platform.python_version()
    if python not in SpecifierSet(wanted):
        yield problem("versions", f"Python {python}, the checkout needs {wanted}", "make install")
    dependencies: list[str] = project["dependencies"]  # type: ignore[assignment]  # of a TOML file
    wrong = [*_unmet(dependencies, here)]
    yield from wrong
    if not wrong:
        torch = here.get("torch", "none")
        yield ok("versions", f"Python {python}, torch {torch}; all packages are in range")
    yield from _beside_torch(here)


def _unmet(dependencies: list[str], here: Mapping[str, str]) -> Iterator[Finding]:
    for text in dependencies:
        requirement = Requirement(text)
        version = here.get(_normal(requirement.name))
        install = f"{sys.executable} -m pip install '{requirement}'"
        if version is None:
            yield problem("versions", f"{requirement.name} is not installed", install)
        elif not requirement.specifier.contains(version, prereleases=True):
            told = f"{requirement.name} {version}, the checkout needs {requirement.specifier}"
            yield problem("versions", told, install)


def _beside_torch(here: Mapping[str, str]) -> Iterator[Finding]:
    """The Triton that torch was built with against the one that is here."""
    if "torch" not in here:
        return
    wanted = [Requirement(text) for text in importlib.metadata.requires("torch") or []]
    for requirement in wanted:
        version = here.get(_normal(requirement.name))
        applies = requirement.marker is None or requirement.marker.evaluate()
        if _normal(requirement.name) != "triton" or version is None or not applies:
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            told = f"triton {version}, torch {here['torch']} asks for {requirement.specifier}"
            install = f"{sys.executable} -m pip install '{requirement.name}{requirement.specifier}'"
            yield problem("versions", told, install)


def xformers(device: str) -> Finding:
    """Whether xformers computes here; that it imports, and lists operators, proves nothing."""
    if importlib.util.find_spec("xformers") is None:
        return note("xformers", "not installed: its rows will be unavailable (optional)")
    found = {
        name: availability(implementation, device)
        for name, implementation in implementations().items()
        if implementation.library == "xformers"
    }
    works = [name for name, reasons in found.items() if not reasons]
    if works:
        return ok("xformers", f"{', '.join(works)} compute here")
    reasons = list(dict.fromkeys(reason for each in found.values() for reason in each))
    if another := next((reason for reason in reasons if "built for" in reason), None):
        todo = "install the xformers of this torch (https://github.com/facebookresearch/xformers)"
        # All of its kernels are a GPU's: without one it spoils nothing.
        told = note if device == "cpu" else problem
        return told("xformers", f"{another}: unavailable", todo)
    return note("xformers", f"unavailable: {'; '.join(reasons) or 'no operator of it is known'}")


def triton(device: str) -> Finding:
    """Whether Triton kernels can be compiled, and run."""
    if importlib.util.find_spec("triton") is None:
        return note("triton", "not installed: Triton rows will be unavailable (optional)")
    version = importlib.metadata.version("triton")
    if device == "cuda":
        return ok("triton", f"{version}, on the GPU")
    return ok("triton", f"{version}, without a GPU: compiled ahead of time and interpreted only")


def memory_allocator(policy: str, huge_pages: Path) -> Iterator[Finding]:
    """Whether large temporaries stay where they are."""
    if not policy.startswith("glibc mmap_max"):
        yield problem(
            "allocator",
            f"{policy}: large cells may be two to ten times slower in some launches",
            "measure on a Linux with glibc, unpreloaded, or compare many launches",
        )
        return
    yield ok("allocator", policy)
    if huge_pages.exists() and "[never]" in huge_pages.read_text():
        todo = f"echo madvise | sudo tee {huge_pages}"
        yield note("huge pages", "off: launches differ by several % more", todo)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")
