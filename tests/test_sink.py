"""pytest-benchmark as the sink: groups of whatever is there, names as they were written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from impls.interface.brought import bring
from impls.interface.problem import Problem
from suites.session import launch_file, sink
from suites.session.sweep import Cell
from tests.suite_process import run_suites, strict

KERNEL = """
import torch

def 日本(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
"""


def benchmark(name, params=None, group=None):
    return {"name": name, "fullname": f"file::{name}", "params": params, "group": group}


def labels(found):
    return {label: [one["name"] for one in some] for label, some in found}


CELLS = [
    benchmark("bench_b[T64]", {"T": 64, "H": 2}),
    benchmark("bench_a[T64]", {"T": 64, "H": 4}),
    benchmark("bench_a[T8]", {"T": 8, "H": 4}),
]
PLAIN = benchmark("test_plain")
CONFIG: Any = SimpleNamespace()


def test_what_has_no_such_parameter_is_grouped_under_a_dash():
    """Case Y01, pytest-benchmark#268: it ended the session after everything was measured."""
    found = labels(sink.groups(CONFIG, [*CELLS, PLAIN], "param:T"))
    assert found == {
        "T=-": ["test_plain"],
        "T=64": ["bench_a[T64]", "bench_b[T64]"],
        "T=8": ["bench_a[T8]"],
    }
    two = labels(sink.groups(CONFIG, [*CELLS, PLAIN], "func, param:T"))
    assert "test_plain T=-" in two and two["bench_a T=64"] == ["bench_a[T64]"]


@pytest.mark.parametrize("group_by", ["group", "name", "func", "fullname", "fullfunc", "param:H"])
def test_where_all_have_it_the_groups_are_pytest_benchmarks_own(group_by):
    from pytest_benchmark.plugin import pytest_benchmark_group_stats

    ours = sink.groups(CONFIG, CELLS, group_by)
    assert ours == pytest_benchmark_group_stats(CONFIG, list(CELLS), group_by)


def test_a_name_that_is_not_ascii_is_a_label_and_no_identity(tmp_path):
    """Case Y03, pytest#12612: ids are written in escapes, and no label is what was typed."""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL, encoding="utf-8")
    kernel = bring(f"{file}:日本")
    cell = Cell(kernel, Problem.parse("T=8,H=1,d_h=8"), "forward", "hot", "cpu_time", "s", "s")
    assert cell.identity()["implementation"] == sink.params_of(cell)["implementation"] == "日本"
    assert cell.key.isascii() and len(cell.key) == 16


def test_options_that_move_no_cell_are_named():
    """One that is ignored in silence is believed (intel-xpu-backend-for-triton PR#2256)."""
    arguments = ("suites", "--benchmark-warmup=on", "--benchmark-max-time", "1")
    config: Any = SimpleNamespace(invocation_params=SimpleNamespace(args=arguments))
    assert sink.inert(config) == [
        "attnbench: --benchmark-warmup moves no cell: they warm up until their median is steady"
    ]


def test_of_very_many_rounds_a_thousand_are_written(tmp_path):
    """A trivial test has a hundred thousand, and made files of gigabytes (pytest-benchmark#96)."""
    rounds = [1e-6 * (1 + n / 1e6) for n in range(100_000)]

    def generate(include_data, **_):
        return {"benchmarks": [{"name": "test_plain", "stats": {"data": rounds, "min": 1e-6}}]}

    hook = SimpleNamespace(
        pytest_benchmark_generate_json=generate,
        pytest_benchmark_generate_commit_info=lambda **_: {},
    )
    session = SimpleNamespace(benchmarks=[1], get_machine_info=dict)
    config = SimpleNamespace(_benchmarksession=session, hook=hook)
    launch_file.write_launch(config, tmp_path)  # type: ignore[arg-type]  # a stand-in
    text = (tmp_path / "launch-1.json").read_text(encoding="utf-8")
    data = strict(text)["benchmarks"][0]["stats"]["data"]
    assert len(data) == 1000 and len(text) < 50_000
    assert set(data) <= set(rounds) and max(data) - min(data) > 0.09e-6


@pytest.mark.slow
def test_a_test_of_ones_own_beside_cells_of_any_name(tmp_path):
    (tmp_path / "test_mine.py").write_text("def test_plain(benchmark):\n    benchmark(int)\n")
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    found = run_suites(
        tmp_path,
        *(str(tmp_path / "test_mine.py"), "--impl", "kernel.py:日本"),
        *("--problem", "T=48,H=2,d_h=16", "--benchmark-max-time", "0.05"),
        "--benchmark-group-by=param:T",
    )
    assert found.code == 0, found.output
    assert {cell["implementation"] for cell in found.cells} == {"naive", "日本"}
    assert "benchmark 'T=-': 1 tests" in found.output
    assert "benchmark 'T=48': 2 tests" in found.output
    launch = strict((found.folder / "launch-1.json").read_text(encoding="utf-8"))
    assert all(len(one["stats"]["data"]) <= 1000 for one in launch["benchmarks"])
