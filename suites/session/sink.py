"""pytest-benchmark as the sink of finished cells: its options, groups and commit in our terms."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from impls.interface.problem import Problem
from suites.session.selection import ROOT

if TYPE_CHECKING:
    from suites.session.sweep import Cell

# Given one of these, the user wants pytest-benchmark's own table; else ours says the same.
_SHOW_ITS_TABLE = (
    "--benchmark-autosave",
    "--benchmark-columns",
    "--benchmark-compare",
    "--benchmark-compare-fail",
    "--benchmark-group-by",
    "--benchmark-histogram",
    "--benchmark-json",
    "--benchmark-name",
    "--benchmark-save",
    "--benchmark-sort",
    "--benchmark-verbose",
)
_WARM_UP = "they warm up until their median is steady"
_LENGTH = "a sample is as long as the clock needs"
# What moves a test of one's own beside the cells, and not the cells.
_INERT = {
    "--benchmark-warmup": _WARM_UP,
    "--benchmark-warmup-iterations": _WARM_UP,
    "--benchmark-min-time": _LENGTH,
    "--benchmark-calibration-precision": _LENGTH,
    "--benchmark-cprofile": "it would time the profiler; the operators that ran are in every row",
}
_OWN_GROUPS = ("group", "name", "func", "fullfunc", "fullname", "param")


def configure(config: pytest.Config) -> None:
    """Keep its files in the checkout, its table for those who ask, its columns to a screen.

    Raises:
        pytest.UsageError: it is to group by a parameter that cells do not have, or to draw without
            the library that it draws with.
    """
    option: Any = config.option
    if not hasattr(option, "benchmark_storage"):
        raise pytest.UsageError("attnbench needs pytest-benchmark: it is switched off (-p no:…)")
    given = _given(config)
    if option.benchmark_storage.startswith("file://./"):
        option.benchmark_storage = f"file://{ROOT / '.benchmarks'}"
    if option.benchmark_columns is None:
        option.benchmark_columns = ["min", "median", "iqr", "rounds"]
    if option.benchmark_autosave:
        # Its own name is of the current folder's commit.
        moment = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
        option.benchmark_autosave = f"{commit_info()['id']}_{moment}"
    if not given & set(_SHOW_ITS_TABLE):
        option.benchmark_quiet = True
    if option.tbstyle == "auto":
        # The long form prints whole tensors.
        option.tbstyle = "short"
    _check_groups(option.benchmark_group_by)
    if option.benchmark_histogram and importlib.util.find_spec("pygal") is None:
        # It would be told after everything was measured.
        raise pytest.UsageError(
            "attnbench: --benchmark-histogram draws with pygal, which is not installed: "
            "pip install pygal, or let `python -m reports` draw"
        )


def inert(config: pytest.Config) -> list[str]:
    """A line for each option that was given and does not change how cells are measured."""
    given = _given(config)
    return [
        f"attnbench: {flag} moves no cell: {why}" for flag, why in _INERT.items() if flag in given
    ]


def params_of(cell: Cell) -> dict[str, Any]:
    """Small scalars that name a cell in pytest-benchmark's groups, names and JSON."""
    problem = cell.problem
    return {
        "implementation": cell.implementation.name,
        "problem": problem.id,
        "pass": cell.pass_,
        "cache": cell.cache,
        "suite": cell.suite,
        "series": cell.series,
        "T": problem.T_kv,
        **problem.to_json(),
    }


def groups(config: pytest.Config, benchmarks: Sequence[Any], group_by: str) -> list[Any]:
    """The groups that pytest-benchmark makes; what lacks a parameter is grouped under "-".

    A test of the user's own beside our cells has none, and its grouping would end the session.
    """
    from pytest_benchmark.plugin import pytest_benchmark_group_stats as grouped

    def label(benchmark: Any, part: str) -> str | None:
        kind, _, name = part.partition(":")
        if name:
            return f"{name}={(benchmark['params'] or {}).get(name, '-')}"
        return grouped(config, [benchmark], kind)[0][0]

    found: dict[str | None, list[Any]] = defaultdict(list)
    for benchmark in benchmarks:
        parts = [label(benchmark, part.strip()) for part in group_by.split(",")]
        found[" ".join(filter(None, parts)) or None].append(benchmark)
    for some in found.values():
        some.sort(key=itemgetter("fullname" if "full" in group_by else "name"))
    return sorted(found.items(), key=lambda pair: pair[0] or "")


def commit_info() -> dict[str, Any]:
    """Commit and dirtiness of the checkout, in pytest-benchmark's fields."""
    from suites.measure.environment import checkout

    commit, is_dirty = checkout()
    return {"id": commit or "unversioned", "dirty": is_dirty, "project": "attnbench", "time": None}


def _given(config: pytest.Config) -> set[str]:
    return {str(argument).split("=")[0] for argument in config.invocation_params.args}


def _check_groups(group_by: str) -> None:
    named = ["implementation", "problem", "pass", "cache", "suite", "series", "T"]
    known = [*named, *(f.name for f in fields(Problem))]
    for part in group_by.split(","):
        kind, _, name = part.strip().partition(":")
        if kind not in _OWN_GROUPS or (name and name not in known):
            raise pytest.UsageError(
                f"attnbench: --benchmark-group-by={part.strip()}: cells have no such parameter; "
                f"give param:NAME with one of {', '.join(known)}"
            )
