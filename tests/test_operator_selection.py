"""Which cells other operators get: on their own problems alone, beside a few of softmax."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from impls.interface.device_choice import Chosen
from impls.interface.problem import Problem
from impls.interface.registry import implementations, select
from suites import bench_heads, bench_lineage
from suites.session import options, selection
from suites.session.sweep import Series
from tests.suite_process import refused, run_suites

SUITES = Path(selection.ROOT) / "suites"
EVERY = tuple(implementations())
ADDITIVE = Problem(B=1, T_q=8, T_kv=8, H=2, d_h=4, operator="additive")


def cells_of(
    module: Any, *names: str, given: tuple[str, ...] | None = None
) -> set[tuple[str, str]]:
    """(implementation, operator of the problem) of the cells that pytest would get."""
    read: dict[str, Any] = dict.fromkeys(options.Options.__dataclass_fields__)
    read |= {"impls": names, "brought": (), "passes": ("forward",), "budget": "full"}
    read |= {"threads": 1, "baseline": "naive", "problems": given}
    unasked = frozenset({"naive"} - {*names}) if names else frozenset()
    chosen = select([*names, "naive"] if names else [])
    this = selection.Asked(options.Options(**read), Chosen("cpu", ""), chosen, None, unasked)
    found: list[Any] = []
    metafunc: Any = SimpleNamespace(
        config=SimpleNamespace(
            stash={selection._ASKED: this},
            args=["suites"],
            invocation_params=SimpleNamespace(dir=SUITES.parent),
        ),
        module=module,
        parametrize=lambda name, cells, ids: found.extend(cells),
    )
    selection.parametrize(metafunc)
    return {(cell.implementation.name, cell.problem.operator) for cell in found}


def test_the_sweep_measures_each_operator_by_its_own_and_two_of_softmax_beside():
    assert cells_of(bench_lineage) == {
        ("naive", "softmax"),
        ("sdpa_flash", "softmax"),
        ("additive", "additive"),
        ("multiplicative", "multiplicative"),
        ("linear_chunked", "linear"),
        ("linear_recurrent", "linear"),
    }


def test_no_other_sweep_tries_another_operator():
    names = {name for name, _ in cells_of(bench_heads)}
    assert names == {name for name in EVERY if implementations()[name].operator == "softmax"}


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("additive", {("additive", "additive")}),
        ("linear_chunked", {("linear_chunked", "linear")}),
        ("chunked", {("chunked", "softmax"), ("naive", "softmax")}),
    ],
)
def test_what_is_asked_for_by_name_is_measured_on_what_it_computes(name, cells):
    assert cells_of(bench_lineage, name) == cells


def test_a_given_problem_goes_to_its_operator_and_tells_who_was_asked_that_it_is_another():
    from suites import bench_given

    softmax, own = "T=8,H=2,d_h=4", ADDITIVE.id
    assert cells_of(bench_given, given=(own,)) == {("additive", "additive")}
    told = cells_of(bench_given, "additive", given=(softmax, own))
    assert told == {("additive", "softmax"), ("additive", "additive")}


def test_the_ladder_is_the_same_for_every_operator_and_none_is_another_sweeps():
    """A cell that two sweeps share is measured in the first of them alone."""
    for device in ("cpu", "cuda"):
        ladders: dict[str, list[Problem]] = {}
        for line in bench_lineage.series(device, "float32"):
            assert isinstance(line, Series)
            for problem in line.problems:
                core = problem.with_(operator="softmax")
                ladders.setdefault(problem.operator, []).append(core)
        assert len({tuple(ladder) for ladder in ladders.values()}) == 1 and len(ladders) == 4
    from suites import bench_sequence_length

    others = {p for s in bench_sequence_length.series("cpu", "float32") for p in s.problems}
    mine = {p for s in bench_lineage.series("cpu", "float32") for p in s.problems}
    assert not others & mine


def test_an_operator_that_is_not_there_is_refused_with_close_names(tmp_path, capsys):
    code = refused(tmp_path, "--problem", "T=8,H=2,d_h=4,operator=aditive")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert 'no operator "aditive": did you mean "additive"?' in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_names_finds_again_and_proves_another_operator(tmp_path):
    """`--resume` looks an implementation up by its name."""
    asked = ("--impl", "additive,linear_chunked", "--problem", "T=96,H=2,d_h=8,operator=additive")
    more = ("--problem", "T=64,H=2,d_h=8,causal,operator=linear")
    first = run_suites(tmp_path, *asked, *more, "--budget", "smoke")
    assert first.code == 0, first.output
    found = {(c["implementation"], c["problem"].get("operator")): c for c in first.cells}
    assert {key: cell["status"] for key, cell in found.items()} == {
        ("additive", "additive"): "ok",
        ("linear_chunked", "linear"): "ok",
        ("additive", "linear"): "unsupported",
        ("linear_chunked", "additive"): "unsupported",
    }
    assert "operator=additive (not softmax)" in " ".join(first.output.split())
    # As if it had been interrupted before the last two.
    journal = first.folder / "cells.jsonl"
    kept = [one for one in journal.read_text().splitlines() if '"linear_chunked"' not in one]
    journal.write_text("".join(f"{line}\n" for line in kept))
    again = run_suites(tmp_path, "--resume", str(first.folder))
    assert again.code == 0, again.output
    assert ("linear_chunked", "linear") in {
        (c["implementation"], c["problem"].get("operator")) for c in again.cells
    }
