"""Whatever stands in the files of a run: no command ends in a traceback, no other run is hidden."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from impls.interface.problem import Problem
from results.__main__ import main
from results.store import list_runs, load_run
from tests.fake_cells import cell
from tests.fake_run import write_run
from tests.indexed_store import note

PROBLEM = Problem.parse("T=63,H=4,d_h=40")
CODES = {0, 1, 2, 5}
# What a program that was no good, an editor or a disk may leave in the place of any value.
NASTY: list[Any] = [
    *(None, True, "", "x" * 5000, "\ud800", "\x00\x1b[31m", "naïve ∞"),
    *(math.nan, math.inf, -math.inf, -1, 0, -0.0, 1e308, 5e-324, 10**30, 10**400, 2**63),
    *([], {}, [[]], [None], {"": None}, "2026-13-45T99:99:99Z", "../../etc"),
]


# Written so, it is a number of JSON, and read as an infinite one.
INFINITE = "<1e999>"
NASTY.append(INFINITE)


@st.composite
def damages(draw) -> tuple[str, list[int], Any]:
    """A file, a path into it as numbers, and what is put there; None takes the field away."""
    file = draw(st.sampled_from(["run.json", "cells.jsonl", "running.json"]))
    return file, draw(st.lists(st.integers(0, 40), max_size=4)), draw(st.sampled_from(NASTY))


def put(value: Any, path: list[int], nasty: Any) -> Any:
    """The value with another one somewhere inside, the way to it by numbers of fields."""
    if path and isinstance(value, dict) and value:
        key = list(value)[path[0] % len(value)]
        return value | {key: put(value[key], path[1:], nasty)}
    if path and isinstance(value, list) and value:
        n = path[0] % len(value)
        return [*value[:n], put(value[n], path[1:], nasty), *value[n + 1 :]]
    return nasty


def run_in(store: Path) -> Path:
    """A run of two cells, which died in a third."""
    records = [cell("naive", PROBLEM, 0.02), cell("chunked", PROBLEM, 0.03)]
    path = write_run(store, records=records)
    (path / "running.json").write_text(json.dumps(note()))
    return path


def ends(*arguments: str) -> tuple[int, str]:
    """How a command ends, and what it says to a terminal that takes UTF-8 and nothing else."""
    screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(io.StringIO()):
        code = main(arguments)
    return code, screen.buffer.getvalue().decode()  # type: ignore[attr-defined]  # a BytesIO


def strict(text: str) -> Any:
    def refuse(word: str) -> float:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def all_answer_with_a_value(file: str, way: list[int], nasty: Any) -> None:
    """Every command of a store where a run has this value there."""
    with TemporaryDirectory() as folder:
        store = Path(folder)
        path = run_in(store)
        good = write_run(store, created="20270101T000000Z")
        lines = (path / file).read_text(encoding="utf-8").splitlines()
        text = json.dumps(put(json.loads(lines[0]), way, nasty))
        lines[0] = text.replace(json.dumps(INFINITE), "1e999")
        (path / file).write_text("\n".join(lines), encoding="utf-8")
        for command in (["list"], ["show", str(path)], ["history"]):
            code, _ = ends(*command, "--store", folder)
            assert code in CODES, command
        code, listed = ends("list", "--json", "--store", folder)
        assert code == 0 and [run["run"] for run in strict(listed)].count(good.name) == 1
        code, shown = ends("show", str(path), "--json", "--store", folder)
        assert code == 5 or strict(shown)["run"] is not None
        if file == "cells.jsonl":
            assert "chunked" in [one.implementation for one in load_run(path).cells]


@settings(max_examples=8)
@given(damages())
@example(("run.json", [10, 0], INFINITE)).via("the environment may hold anything")
@example(("run.json", [1], "\ud800"))
@example(("cells.jsonl", [3, 1], 10**400)).via("T_q")
@example(("cells.jsonl", [3, 8], [])).via("causal")
@example(("cells.jsonl", [12], 10**400)).via("elapsed_s")
@example(("cells.jsonl", [17, 0], 5e-324)).via("median_s")
@example(("cells.jsonl", [17, 0], 1e308))
@example(("cells.jsonl", [17, 2], -1)).via("q1_s")
@example(("cells.jsonl", [18, 1], 1e308)).via("counts.flop")
@example(("running.json", [5], "no problem"))
@example(("running.json", [6], 10**30)).via("pid")
def test_no_value_in_a_file_of_a_run_is_a_traceback(damage):
    all_answer_with_a_value(*damage)


@pytest.mark.slow
@settings(max_examples=500)
@given(damages())
def test_none_of_many_values_is_a_traceback(damage):
    all_answer_with_a_value(*damage)


BYTES = [b"\xff\xfe", b"\x00" * 300, b"\xef\xbb\xbf", b"\r\n", b"}" * 50, b"[" * 100_000, b""]


CUTS = st.tuples(
    st.sampled_from(["run.json", "cells.jsonl", "running.json"]),
    st.floats(0, 1),
    st.sampled_from(BYTES),
    st.integers(0, 60),
)


def all_answer_with_bytes(file: str, where: float, given_bytes: bytes, lost: int) -> None:
    """Every command of a store where a run has these bytes there, in place of some."""
    with TemporaryDirectory() as folder:
        store = Path(folder)
        path = run_in(store)
        good = write_run(store, created="20270101T000000Z")
        whole = (path / file).read_bytes()
        at = int(where * len(whole))
        (path / file).write_bytes(whole[:at] + given_bytes + whole[at + lost :])
        for command in (["list"], ["show", str(path)], ["history"]):
            code, _ = ends(*command, "--store", folder)
            assert code in CODES, command
        assert good.name in [summary.name for summary in list_runs(store)]


@settings(max_examples=8)
@given(CUTS)
def test_no_bytes_in_a_file_of_a_run_are_a_traceback(cut):
    all_answer_with_bytes(*cut)


@pytest.mark.slow
@settings(max_examples=300)
@given(CUTS)
def test_none_of_many_cuts_is_a_traceback(cut):
    all_answer_with_bytes(*cut)
