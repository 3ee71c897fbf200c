"""Which cells a bench file gets: its passes, the budgets it takes part in, its dtypes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from impls.interface.device_choice import Chosen
from impls.interface.problem import PASSES, Problem
from impls.interface.registry import select
from suites import bench_backward, bench_decode, bench_head_size, bench_heads
from suites.session import options, selection
from suites.session.sweep import Series

SUITES = Path(selection.ROOT) / "suites"


def series(device: str, dtype: str) -> list[Series]:
    return [Series("T", (Problem(B=1, T_q=8, T_kv=8, H=2, d_h=4, dtype=dtype),))]


def cells_of(
    *arguments: str, device: str = "cpu", budget: str = "quick", **module: Any
) -> list[Any]:
    """The cells of a bench file that declares `module`, as pytest would get them."""
    given: dict[str, Any] = dict.fromkeys(options.Options.__dataclass_fields__)
    given |= {"impls": ("naive",), "brought": (), "passes": ("forward",), "budget": budget}
    given |= {"threads": 1, "baseline": None}
    found: list[Any] = []
    this = selection.Asked(
        options.Options(**given), Chosen(device, ""), select(["naive"]), None, frozenset()
    )
    metafunc: Any = SimpleNamespace(
        config=SimpleNamespace(
            stash={selection._ASKED: this},
            args=list(arguments or ["suites"]),
            invocation_params=SimpleNamespace(dir=SUITES.parent),
        ),
        module=SimpleNamespace(
            **{"AXIS": "mine", "__file__": str(SUITES / "bench_mine.py"), "series": series} | module
        ),
        parametrize=lambda name, cells, ids: found.extend(cells),
    )
    selection.parametrize(metafunc)
    return found


def test_a_sweep_may_say_its_passes_whatever_is_asked():
    assert [c.pass_ for c in cells_of()] == ["forward"]
    both = ("backward", "forward_backward")
    assert [c.pass_ for c in cells_of(PASSES=both)] == list(both)


def test_a_sweep_takes_part_in_the_budgets_it_names_and_in_all_where_it_names_none():
    long: Any = {"BUDGETS": ("default", "full")}
    assert [len(cells_of(budget=word, **long)) for word in ("smoke", "quick")] == [0, 0]
    assert all(cells_of(budget=word, **long) for word in ("default", "full"))
    assert all(cells_of(budget=word) for word in options.BUDGETS)


@pytest.mark.parametrize(
    "name",
    ["suites/bench_mine.py", "suites/bench_mine.py::bench_mine", str(SUITES / "bench_mine.py")],
)
def test_a_sweep_that_is_named_takes_part_in_any_budget(name):
    assert cells_of("suites/bench_heads.py", name, BUDGETS=("full",))


def test_naming_another_sweep_or_the_folder_is_not_naming_this_one():
    assert not cells_of("suites/bench_heads.py", "suites", BUDGETS=("full",))


def test_a_series_may_leave_out_budgets_and_is_kept_where_the_file_is_named():
    def two(device, dtype):
        (short,) = series(device, dtype)
        return [short, Series("long", (short.problems[0].with_(B=9),), budgets=("full",))]

    assert {c.series for c in cells_of(series=two)} == {"T"}
    assert {c.series for c in cells_of(budget="full", series=two)} == {"T", "long"}
    assert {c.series for c in cells_of("suites/bench_mine.py", series=two)} == {"T", "long"}


@pytest.mark.parametrize(
    ("budget", "dtypes"), [("quick", ["bfloat16"]), ("default", ["bfloat16", "float32"])]
)
def test_on_a_cpu_the_small_budgets_take_a_sweeps_first_dtype(budget, dtypes):
    first_half: Any = {"CPU_DTYPES": ("bfloat16", "float32")}
    assert [c.problem.dtype for c in cells_of(budget=budget, **first_half)] == dtypes
    assert [c.problem.dtype for c in cells_of(budget="quick")] == ["float32"]


def test_on_cuda_every_sweep_is_of_16_bits():
    found = cells_of(device="cuda", budget="default", CPU_DTYPES=("float32",))
    assert {c.problem.dtype for c in found} == {"bfloat16"}


@pytest.mark.parametrize("path", sorted(SUITES.glob("bench_*.py")), ids=lambda p: p.stem)
def test_every_bench_file_says_its_question_and_declares_words_that_are_known(path):
    import importlib

    module = importlib.import_module(f"suites.{path.stem}")
    assert path.stem == f"bench_{module.AXIS}" and module.__doc__
    assert set(getattr(module, "PASSES", ())) <= set(PASSES)
    assert set(getattr(module, "BUDGETS", ())) <= set(options.BUDGETS)
    every = [line for dtype in ("float32", "bfloat16") for line in module.series("cpu", dtype)]
    every += module.series("cuda", "bfloat16")
    assert all(set(line.budgets or ()) <= set(options.BUDGETS) for line in every)
    assert all(not p.is_empty for line in every for p in line.problems)


@pytest.mark.parametrize("module", [bench_heads, bench_head_size, bench_decode, bench_backward])
def test_a_small_budget_sets_a_fused_kernel_against_the_formula_in_every_question(module):
    """At two sizes at least, in whatever is measured at all: of one cell nothing is learnt."""
    brief = [
        line
        for line in module.series("cpu", "float32")
        if line.budgets is None or "quick" in line.budgets
    ]
    assert brief
    for line in brief:
        assert line.implementations and {"naive", "sdpa_flash"} <= set(line.implementations)
        assert len(line.problems) * len(getattr(module, "PASSES", ("forward",))) >= 2
