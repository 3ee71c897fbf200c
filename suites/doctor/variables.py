"""Environment variables that change what is measured, and nobody sees in the number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from suites.doctor.finding import Finding, note, ok, problem
from suites.measure.spoilers import spoilers

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


def findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """What is set that should not be."""
    found = [*_threads(environment), *_spoilers(environment), *_allocators(environment)]
    yield from found
    if not found:
        yield ok("variables", "none is set that changes a time")


def _threads(environment: Mapping[str, str]) -> Iterator[Finding]:
    given = {name: environment[name] for name in _THREADS if name in environment}
    for name, text in given.items():
        first = text.split(",")[0].strip()
        if not first.isdecimal() or int(first) == 0:
            told = f'{name}="{text}" is not a number of threads, and is ignored'
            yield problem("thread variables", told, f"unset {name}; --threads N says how many")
    if len(set(given.values())) > 1:
        told = ", ".join(f"{name}={text}" for name, text in given.items())
        yield problem("thread variables", f"they differ: {told}", f"unset {' '.join(given)}")
    elif given:
        told = ", ".join(f"{name}={text}" for name, text in given.items())
        yield note("thread variables", f"{told}; cells set their own number, --threads (1)")
    for name in _PINNING:
        if name in environment:
            told = f"{name}={environment[name]} pins threads: another machine's runs will differ"
            yield note("thread variables", told, f"unset {name}")


def _spoilers(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, told in spoilers(environment).items():
        yield problem("variables", told, f"unset {name}")


def _allocators(environment: Mapping[str, str]) -> Iterator[Finding]:
    preloaded = environment.get("LD_PRELOAD", "")
    if other := next((name for name in _ALLOCATORS if name in preloaded), None):
        told = f"{other} is preloaded: the policy that keeps glibc's malloc steady does not hold"
        yield problem("allocator", told, "unset LD_PRELOAD")
