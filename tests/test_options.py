"""The options of `pytest suites`, read from a parser that stands in for pytest's."""

from __future__ import annotations

import argparse
import os
from types import SimpleNamespace
from typing import Any

import pytest

from suites.session import options, selection


class _Parser(argparse.ArgumentParser):
    """As much of pytest's parser as the options use."""

    def getgroup(self, *_: str) -> _Parser:
        return self

    addoption = argparse.ArgumentParser.add_argument


def read(*arguments: str) -> options.Options:
    parser = _Parser()
    options.add(parser)
    parser.add_argument("--benchmark-min-rounds", type=int, default=5)
    parser.add_argument("--benchmark-max-time", default="1.0")
    parser.add_argument("--benchmark-timer", default="perf")
    known = parser.parse_args(arguments)
    return options.read(
        SimpleNamespace(
            getoption=lambda flag: getattr(known, flag.lstrip("-").replace("-", "_")),
            invocation_params=SimpleNamespace(args=arguments),
            option=known,
        )
    )


def test_names_and_brought_kernels_are_told_apart_and_commas_split():
    found = read("--impl", "naive, chunked", "--impl", "mine.py:attention", "--impl", "naive")
    assert found.impls == ("naive", "chunked") and found.brought == ("mine.py:attention",)


def test_problems_take_the_dtype_they_do_not_name():
    found = read("--problem", "T=8,H=2,d_h=4", "--problem", "T=8,H=2,d_h=4,bfloat16,causal")
    first, second = found.sizes("float16") or []
    assert (first.dtype, second.dtype) == ("float16", "bfloat16") and second.causal
    assert read().sizes("float32") is None


def test_shapes_come_from_a_csv_file_with_a_byte_order_mark(tmp_path):
    table = tmp_path / "shapes.csv"
    table.write_text("B,T,H,H_kv,d_h,causal\n2,64,8,2,40,1\n1,32,4,,8,0\n", encoding="utf-8-sig")
    first, second = read("--shapes", str(table)).sizes("float32") or []
    assert (first.B, first.T_kv, first.H_kv, first.d_h, first.causal) == (2, 64, 2, 40, True)
    assert second.H_kv == 4 and not second.causal


def test_a_bad_row_of_a_csv_file_is_named_by_its_line(tmp_path):
    table = tmp_path / "shapes.csv"
    table.write_text("T,H,H_kv,d_h\n64,8,2,40\n64,8,3,40\n")
    with pytest.raises(ValueError, match="line 3: H=8 is not a multiple of H_kv=3"):
        read("--shapes", str(table))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("B,T,H,d_h\n1,128,8,64,causal\n", "line 2: more fields than the header's 4"),
        ("T,T,H,d_h\n128,256,8,64\n", "T is there twice"),
        ("T,H,d_h\n128,8,\xe9\n", "give a CSV file in UTF-8"),
    ],
)
def test_nothing_of_a_shapes_file_is_dropped_without_a_word(tmp_path, text, told):
    """A full problem was measured where the fifth field of a row said causal."""
    table = tmp_path / "shapes.csv"
    table.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=told):
        read("--shapes", str(table))


def test_shapes_come_from_a_pipe_too():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        pipe.write("T,H,d_h\n8,2,16\n")
    found = read("--shapes", f"/dev/fd/{reading}").sizes("float32")
    os.close(reading)
    assert found is not None and [p.id for p in found] == ["B=1,T=8,H=2,d_h=16,float32"]


def test_sampling_bounds_of_pytest_benchmark_count_only_when_given():
    assert read().min_samples is None and read().max_time_s is None
    found = read("--benchmark-min-rounds=20", "--benchmark-max-time=0.5")
    assert found.min_samples == 20 and found.max_time_s == 0.5


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--problem", "B=1,T=x,H=1,d_h=8"), "is not a whole number"),
        (("--problem", "B=0,T=4,H=1,d_h=8"), "nothing to measure"),
        (("--problem", "T=4,H=6,H_kv=4,d_h=8"), "H=6 is not a multiple of H_kv=4"),
        (("--problem", "T=4,H=4,d_h=8,H=2"), "given twice"),
        (("--dtype", "float8"), "one of float32, bfloat16, float16"),
        (("--passes", "sideways"), "one of forward, backward, forward_backward"),
        (("--shapes", "nowhere.csv"), "no such file"),
        (("--shapes", "tests"), "tests: a folder"),
        (("--baseline", "mine.py:attention"), "bring it by --impl mine.py:attention"),
        (("--threads", "0"), "give 1 to"),
        (("--threads", "99999"), "give 1 to"),
        (("--compile-limit", "nan"), "above 0"),
        (("--compile-limit", "0"), "above 0"),
        (("--compile-limit", "1e10"), "at most 86400"),
        (("--impl", ""), "names none"),
        (("--benchmark-timer", "time.time"), "--benchmark-timer is refused"),
    ],
)
def test_what_has_no_meaning_is_refused_with_what_would_do(arguments, told):
    with pytest.raises(ValueError, match=told):
        read(*arguments)


def test_the_store_never_depends_on_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNBENCH_STORE", raising=False)
    here = options.store_folder(None)
    monkeypatch.chdir(tmp_path)
    assert options.store_folder(None) == here and here.parts[-2:] == ("results", "runs")
    monkeypatch.setenv("ATTNBENCH_STORE", "~/runs")
    assert "~" not in str(options.store_folder(None)) and options.store_folder("x").is_absolute()


def test_cells_are_not_timed_side_by_side(monkeypatch):
    """Case A16, pytest-benchmark#293: under xdist nothing is measured, and all was green."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    config: Any = SimpleNamespace(option=SimpleNamespace(dist="no"))
    selection._refuse_xdist(config)
    config.option.dist = "load"
    with pytest.raises(ValueError, match="0 cells would be measured: pytest-xdist is active"):
        selection._refuse_xdist(config)
    config.option.dist = "no"
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    with pytest.raises(ValueError, match="run without -n"):
        selection._refuse_xdist(config)


@pytest.mark.parametrize("variable", [None, "~/runs", "~nobody-is-called-so", "elsewhere"])
def test_suites_write_runs_where_results_reads_them(monkeypatch, variable):
    """Neither package may import the other, so the rule stands in both: it must be one rule."""
    from results import store

    monkeypatch.delenv("ATTNBENCH_STORE", raising=False)
    if variable is not None:
        monkeypatch.setenv("ATTNBENCH_STORE", variable)
    assert options.store_folder(None) == store.store_folder(None)
    assert options.store_folder("given") == store.store_folder("given")
