"""What the command line asks for, as the cells pytest runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from suites.session import options as session_options

ROOT = Path(__file__).resolve().parents[2]
_ASKED: pytest.StashKey[Asked] = pytest.StashKey()


@dataclass(frozen=True)
class Asked:
    """What the command line asked for, resolved against what is here.

    `unasked` has the baseline where it is measured only because ratios need it.
    """

    options: session_options.Options
    chosen: Any
    implementations: dict[str, Any]
    resumed: Any
    unasked: frozenset[str]

    @property
    def named(self) -> frozenset[str]:
        """The implementations the user asked for by name; empty when all were meant."""
        if not self.options.impls and not self.options.brought:
            return frozenset()
        return frozenset(self.implementations) - self.unasked


def prepare(config: pytest.Config) -> None:
    """Read the options where suites are asked for by name, so that a mistake is told at once.

    Raises:
        pytest.UsageError: an option has no meaning here.
    """
    paths = [Path(str(arg).split("::")[0]) for arg in config.args]
    if any(
        (config.invocation_params.dir / p).resolve().is_relative_to(ROOT / "suites") for p in paths
    ):
        asked(config)


def asked(config: pytest.Config) -> Asked:
    """What the command line asked for; read once.

    Raises:
        pytest.UsageError: an option has no meaning here.
    """
    if _ASKED not in config.stash:
        try:
            config.stash[_ASKED] = _read(config)
        except ValueError as error:
            raise pytest.UsageError(f"attnbench: {error}") from error
    return config.stash[_ASKED]


def _read(config: pytest.Config) -> Asked:
    from impls.interface.device_choice import choose
    from impls.interface.registry import select
    from suites.session.resume import resume

    given = session_options.read(config)
    _refuse_unknown_operators(given)
    _refuse_xdist(config)
    resumed = resume(given.store, given.resume) if given.resume else None
    if resumed is not None:
        was = resumed.header["settings"]
        given = replace(
            given,
            brought=resumed.brought,
            budget=was["budget"],
            threads=was["threads"],
            flop_convention=was["flop_convention"],
            baseline=was["baseline"],
            device=resumed.header["device"],
        )
    names = list(given.impls)
    unasked: frozenset[str] = frozenset()
    if given.baseline and (names or given.brought):
        unasked = frozenset({given.baseline} - {*names})
        names.append(given.baseline)
    elif given.baseline:
        select([given.baseline])
    chosen = choose(given.device)
    if given.cache == "graph" and chosen.device != "cuda":
        raise ValueError("--cache graph is CUDA's: on a CPU give hot or cold")
    return Asked(given, chosen, select(names, given.brought), resumed, unasked)


def _refuse_unknown_operators(given: session_options.Options) -> None:
    from impls.interface.problem import SOFTMAX, Problem
    from impls.layer.lineage import operator_of

    for problem in map(Problem.parse, given.problems or ()):
        if problem.operator != SOFTMAX:
            operator_of(problem)


def _refuse_xdist(config: pytest.Config) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") or getattr(config.option, "dist", "no") != "no":
        raise ValueError(
            "0 cells would be measured: pytest-xdist is active and would time them side by side; "
            "run without -n (or with -p no:xdist)"
        )


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One test per cell of the bench file's series, or of the user's own problems.

    Given problems belong to the sweep "given" alone: a sweep over H has nothing to do with them.
    """
    from suites.session.sweep import Series

    this = asked(metafunc.config)
    module: Any = metafunc.module
    found: list[Any] = []
    if this.resumed is not None:
        from impls.interface.registry import implementations

        found = this.resumed.cells(module.AXIS, implementations(this.options.brought))
    else:
        for dtype in this.options.dtypes or _dtypes(this.chosen.device, this.options.budget):
            own = this.options.sizes(dtype)
            series = module.series(this.chosen.device, dtype)
            if own is not None:
                series = [Series("given", tuple(own))] if module.AXIS == "given" else []
            found += _cells(this, module.AXIS, series)
    metafunc.parametrize("cell", found, ids=[c.id for c in found])


def _cells(this: Asked, suite: str, series: list[Any]) -> list[Any]:
    """The cells of some series, without those of a baseline that nobody is set against.

    Nor is an implementation tried on problems of an operator that is not its own, unless it was
    asked for by name and the problem was given.
    """
    from impls.interface.attention import reasons_against
    from suites.session.sweep import cells

    device = this.chosen.device
    if this.named:
        series = [replace(line, implementations=None) for line in series]
    found = cells(
        suite,
        series,
        list(this.implementations.values()),
        passes=this.options.passes,
        cache=this.options.cache or ("cold" if device == "cuda" else "hot"),
        device=device,
        threads=this.options.threads,
    )
    beside = [i for name, i in this.implementations.items() if name not in this.unasked]

    def is_wanted(cell: Any) -> bool:
        one = cell.implementation
        if one.operator != cell.problem.operator:
            return one.name in this.named and suite == "given"
        if cell.implementation.name not in this.unasked:
            return True
        return not all(reasons_against(i, cell.problem, device) for i in beside)

    return [cell for cell in found if is_wanted(cell)]


def _dtypes(device: str, budget: str) -> tuple[str, ...]:
    if device == "cuda":
        return ("bfloat16",)
    return ("float32", "bfloat16") if budget in ("default", "full") else ("float32",)


def drop_duplicates(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cells that their series has already, and suites with nothing to measure.

    Another series measures the same cell again: without it that line would have a gap, or a model
    no row.

    Raises:
        pytest.UsageError: a run that is resumed has nothing left.
    """
    seen: set[tuple[str, str, str]] = set()
    kept, dropped = [], []
    for item in items:
        cell = cell_of(item)
        row = None if cell is None else (cell.key, cell.suite, cell.series)
        is_measured = "cell" in getattr(item, "fixturenames", ())
        (kept if row not in seen and (row or not is_measured) else dropped).append(item)
        if row is not None:
            seen.add(row)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    if _ASKED in config.stash and (resumed := config.stash[_ASKED].resumed) and not seen:
        raise pytest.UsageError(f"attnbench: run {resumed.path.name} has nothing left to measure")


def cell_of(item: pytest.Item) -> Any:
    """The cell of a test; None for other tests, and where a suite has none."""
    callspec = getattr(item, "callspec", None)
    cell = callspec.params.get("cell") if callspec else None
    return cell if hasattr(cell, "key") else None
