"""What the command line asks for, as the cells pytest runs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from suites.session import options as session_options
from suites.session import orders

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
    if any(path.is_relative_to(ROOT / "suites") for path in _named_paths(config)):
        asked(config)


def _named_paths(config: pytest.Config) -> list[Path]:
    """The files and folders the command names, without the ids of tests in them."""
    here = config.invocation_params.dir
    return [(here / str(argument).split("::")[0]).resolve() for argument in config.args]


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


def already_asked(config: pytest.Config) -> Asked | None:
    """What was asked for where it was read; None in a session without suites."""
    return config.stash.get(_ASKED, None)


def _read(config: pytest.Config) -> Asked:
    # What is wrong with the options is told before torch is imported, which takes seconds.
    given = session_options.read(config)
    _refuse_unknown_operators(given)
    _refuse_xdist(config)
    from impls.interface.device_choice import choose
    from impls.interface.registry import select
    from suites.session.resume import ordered, resume

    resumed = resume(given.store, given.resume) if given.resume else None
    wanted = orders.read().rows
    if resumed is not None and wanted is not None:
        resumed = ordered(resumed, wanted)
    if resumed is not None:
        if resumed.folder and resumed.folder not in sys.path:
            # Modules that were brought by name are found where the run was begun.
            sys.path.append(resumed.folder)
        was = resumed.header["settings"]
        given = replace(
            given,
            brought=resumed.brought,
            budget=was["budget"],
            seconds=was.get("seconds"),
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
    A bench file may say which of pytest's options do not move it:

    - `PASSES`: measured whatever --passes says, where a sweep is about a pass.
    - `BUDGETS`: the budgets it takes part in, and `Series.budgets` those of a part of it. A file
      that is named on the command line takes part in any, whole: who names it wants it.
    - `CPU_DTYPES`: on a CPU, where --dtype names none; the small budgets take the first alone.
    - `BESIDE`: the implementations of softmax attention that another operator stands beside; those
      asked for by name are measured too.
    """
    this = asked(metafunc.config)
    module: Any = metafunc.module
    found: list[Any] = []
    if this.resumed is not None:
        from impls.interface.registry import implementations

        found = this.resumed.cells(module.AXIS, implementations(this.options.brought))
    else:
        is_named = Path(module.__file__).resolve() in _named_paths(metafunc.config)
        for dtype in this.options.dtypes or _dtypes(module, this.chosen.device, this.options):
            found += _cells(this, module, _series(this, module, dtype, is_named))
    if not orders.read().looks_again:
        found = [replace(cell, is_looked_at_again=False) for cell in found]
    metafunc.parametrize("cell", found, ids=[c.id for c in found])


def _dtypes(module: Any, device: str, options: session_options.Options) -> tuple[str, ...]:
    if device == "cuda":
        return ("bfloat16",)
    dtypes = getattr(module, "CPU_DTYPES", ("float32", "bfloat16"))
    return dtypes if options.budget in ("default", "full") else dtypes[:1]


def _series(this: Asked, module: Any, dtype: str, is_named: bool) -> list[Any]:
    """The module's own series; where the user gave problems, those, in the sweep "given" alone.

    Of its own those that take part in the budget, unless the file was named.
    """
    from suites.session.sweep import Series

    given = this.options.sizes(dtype)
    if given is not None:
        return [Series("given", tuple(given))] if module.AXIS == "given" else []
    every = getattr(module, "BUDGETS", tuple(session_options.BUDGETS))
    return [
        line
        for line in module.series(this.chosen.device, dtype)
        if is_named or this.options.budget in (every if line.budgets is None else line.budgets)
    ]


def _cells(this: Asked, module: Any, series: list[Any]) -> list[Any]:
    """The cells of some series, without those of a baseline that nobody is set against.

    Nor is an implementation tried on problems of an operator that is not its own, unless it was
    asked for by name and the problem was given.
    """
    from impls.interface.attention import reasons_against
    from impls.interface.problem import SOFTMAX
    from suites.session.sweep import cells

    device = this.chosen.device
    if this.named:
        series = [replace(line, implementations=None) for line in series]
    found = cells(
        module.AXIS,
        series,
        list(this.implementations.values()),
        passes=getattr(module, "PASSES", this.options.passes),
        cache=this.options.cache or ("cold" if device == "cuda" else "hot"),
        device=device,
        threads=this.options.threads,
    )
    beside = [i for name, i in this.implementations.items() if name not in this.unasked]
    neighbours = getattr(module, "BESIDE", None)

    def is_wanted(cell: Any) -> bool:
        one = cell.implementation
        if one.operator != cell.problem.operator:
            return one.name in this.named and module.AXIS == "given"
        if neighbours and one.operator == SOFTMAX and one.name not in (*neighbours, *this.named):
            return False
        if cell.implementation.name not in this.unasked:
            return True
        return not all(reasons_against(i, cell.problem, device) for i in beside)

    return [cell for cell in found if is_wanted(cell)]


def drop_duplicates(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cells that their series has already, and suites with nothing to measure.

    Another series measures the same cell again: without it that line would have a gap, or a model
    no row. The rows that a supervisor asks for come in its order.

    Raises:
        pytest.UsageError: a run that is resumed was finished.
    """
    seen: set[str] = set()
    kept, dropped = [], []
    for item in items:
        row = _row(item)
        is_measured = "cell" in getattr(item, "fixturenames", ())
        (kept if row not in seen and (row or not is_measured) else dropped).append(item)
        if row is not None:
            seen.add(row)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
    place = {row: n for n, row in enumerate(orders.read().rows or ())}
    items[:] = sorted(kept, key=lambda item: place.get(_row(item) or "", len(place)))
    given = already_asked(config)
    resumed = given.resumed if given else None
    if resumed is not None and resumed.is_finished and not seen:
        raise pytest.UsageError(f"attnbench: run {resumed.path.name} has nothing left to measure")


def _row(item: pytest.Item) -> str | None:
    cell = cell_of(item)
    return None if cell is None else cell.row


def cell_of(item: pytest.Item) -> Any:
    """The cell of a test; None for other tests, and where a suite has none."""
    callspec = getattr(item, "callspec", None)
    cell = callspec.params.get("cell") if callspec else None
    return cell if hasattr(cell, "key") else None
