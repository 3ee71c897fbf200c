"""`--shard 2/5`: parts of a sweep that are the whole together, alike on every machine."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from impls.interface.device_choice import Chosen
from impls.interface.registry import select
from suites.session import options, selection
from suites.session.dealing import NOMINAL, part_of
from suites.session.options import BUDGETS
from suites.session.plan import Budget, decide
from suites.session.shard import Shard
from suites.session.speeds import Speed
from suites.session.sweep import Series
from tests.suite_process import ROOT, command, run_suites, strict
from tests.test_plan import LADDER, plan, swept

QUICK = Budget.of("quick", BUDGETS["quick"])
SERIES = (
    Series("T", LADDER),
    Series("B", tuple(p.with_(B=B) for p in LADDER[:3] for B in (2, 3, 5))),
    # As long as the first: their names decide.
    Series("bthd", tuple(p.with_(layout="bthd") for p in LADDER)),
    # The last has cells that the first has too.
    Series("T again", tuple(p.with_(causal=True) for p in LADDER) + LADDER[1:3]),
)


def parts(planned, count, budget=QUICK):
    return [part_of(planned, Shard(n, count), budget, "cpu") for n in range(1, count + 1)]


def rows(planned):
    return [p.cell.row for p in planned]


@pytest.mark.parametrize(
    "text", ["", "2", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/3/5", "1.5/3", "²/3"]
)
def test_a_shard_that_is_none_is_refused_with_one_that_is(text):
    with pytest.raises(ValueError, match="1/5 to 5/5"):
        Shard.parse(text)


def test_a_shard_is_printed_as_it_is_typed():
    assert [str(Shard.parse(text)) for text in ("1/1", "3/7", "10/12")] == ["1/1", "3/7", "10/12"]


@pytest.mark.parametrize("count", [1, 2, 5, 17])
def test_shards_are_the_whole_together_and_each_cell_is_in_one(count):
    planned = plan(swept(*SERIES))
    found = parts(planned, count)
    assert sorted(row for part in found for row in rows(part)) == sorted(rows(planned))
    assert all(rows(part) == [r for r in rows(planned) if r in {*rows(part)}] for part in found)


def test_what_is_compared_is_measured_on_one_machine():
    by_problem = defaultdict(set)
    for number, part in enumerate(parts(plan(swept(*SERIES)), 5)):
        for p in part:
            by_problem[p.cell.problem, p.cell.pass_].add(number)
    assert {len(numbers) for numbers in by_problem.values()} == {1}


@pytest.mark.parametrize("seed", range(5))
def test_machines_of_other_speed_and_memory_cut_alike_in_whatever_order(seed):
    found, rng = swept(*SERIES), random.Random(seed)
    here = [{*rows(part)} for part in parts(plan(found), 4)]
    speeds = {
        (name, "float32"): Speed(*(10 ** rng.uniform(8, 12) for _ in range(3)))
        for name in ("fast", "slow")
    }
    rng.shuffle(found)
    there = plan(
        found,
        speeds=speeds,
        free_bytes=rng.randrange(1 << 20, 1 << 34),
        unavailable={"slow": ["not here"]},
    )
    assert [{*rows(part)} for part in parts(there, 4)] == here


@pytest.mark.parametrize("total_s", [2.0, 10.0, 78.0, 600.0])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_wherever_the_budget_ends_no_part_has_more_than_one_problem_beyond_another(total_s, count):
    """Dealt to and fro, two parts' sums differ by the longest that was dealt at most."""
    budget = Budget.of("quick", total_s)
    speeds = {(name, "float32"): NOMINAL for name in ("fast", "slow")}
    planned = plan(swept(*SERIES[:2]), budget=budget, speeds=speeds)
    spent = []
    longest = defaultdict(float)
    for part in parts(planned, count, budget):
        ran = [p for p in part if p.decision == "run"]
        spent.append(sum(p.estimate_s for p in ran))
        for p in ran:
            longest[p.cell.problem] += p.estimate_s
    # An estimate has its problem's set-up besides; a problem may be half beyond the budget.
    assert max(spent) - min(spent) <= 1.5 * max(longest.values())


def test_more_shards_than_problems_are_refused_with_how_many_there_may_be():
    planned = plan(swept(Series("T", LADDER[:3])))
    with pytest.raises(ValueError, match="give 3 at most"):
        part_of(planned, Shard(1, 4), QUICK, "cpu")


def whole(budget: str) -> list[Any]:
    """The cells of every sweep in a budget, as pytest collects them on a CPU."""
    given: dict[str, Any] = dict.fromkeys(options.Options.__dataclass_fields__)
    given |= {"impls": (), "brought": (), "passes": ("forward",), "budget": budget}
    given |= {"threads": 1, "baseline": "naive"}
    this = selection.Asked(
        options.Options(**given), Chosen("cpu", ""), select([]), None, frozenset()
    )
    found: list[Any] = []
    for file in sorted(Path(ROOT / "suites").glob("bench_*.py")):
        metafunc: Any = SimpleNamespace(
            config=SimpleNamespace(
                stash={selection._ASKED: this},
                args=["suites"],
                invocation_params=SimpleNamespace(dir=ROOT),
            ),
            module=importlib.import_module(f"suites.{file.stem}"),
            parametrize=lambda name, cells, ids: found.extend(cells),
        )
        selection.parametrize(metafunc)
    return list({cell.row: cell for cell in found}.values())


@pytest.mark.slow
@pytest.mark.parametrize("word", ["default", "full"])
def test_the_shards_of_a_long_budget_take_about_as_long_on_machines_of_any_speed(word):
    found, rng = whole(word), random.Random(5)
    budget = Budget.of(word, BUDGETS[word])
    names = {(c.implementation.name, c.problem.dtype) for c in found}
    absent = {name: ["not here"] for name, _ in names if name.startswith(("triton", "xformers"))}
    for _ in range(3):
        speeds = {
            name: Speed(rng.uniform(10e9, 150e9), rng.uniform(1e9, 20e9), rng.uniform(5e9, 20e9))
            for name in sorted(names)
        }
        planned = decide(
            found, speeds, budget, device="cpu", unavailable=absent, free_bytes=4 << 30
        )
        for count in (2, 5):
            ran = [
                [p for p in part if p.decision == "run"] for part in parts(planned, count, budget)
            ]
            spent = [sum(p.estimate_s for p in part) for part in ran]
            longest: dict[Any, float] = defaultdict(float)
            for p in (p for part in ran for p in part):
                longest[p.cell.problem, p.cell.pass_] += p.estimate_s
            # Invented speeds: over 9 draws of them five shards come to 1.29 at most.
            assert max(spent) <= 1.35 * sum(spent) / count + max(longest.values()), spent


KERNEL = """
import torch

def attention(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
"""
SWEEP = ("--impl", "kernel.py:attention", "--benchmark-max-time", "0.05")
SIZES = [x for T in (17, 33, 49) for x in ("--problem", f"T={T},H=2,d_h=16")]


@pytest.mark.slow
def test_shards_that_were_measured_and_merged_are_the_run_of_all(tmp_path):
    def cells(folder, *arguments):
        folder.mkdir()
        found = run_suites(folder, *SWEEP, *SIZES, *arguments, kernel=KERNEL)
        assert found.code == 0, found.output
        return found

    serial = cells(tmp_path / "serial")
    first, second = (cells(tmp_path / n, "--shard", f"{n}/2") for n in "12")
    assert (first.header["shard"], len(first.header["plan"])) == ("1/2", len(first.cells))
    assert len(first.cells) + len(second.cells) == 6
    line = [sys.executable, "-m", "results", "merge", str(first.folder), str(second.folder)]
    line += ["-o", str(tmp_path / "m"), "--json"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert strict(done.stdout)["counts"] == {"ok": 6}
    journal = (tmp_path / "m" / "cells.jsonl").read_text(encoding="utf-8")
    assert {json.loads(x)["cell"] for x in journal.splitlines()} == {
        c["cell"] for c in serial.cells
    }


@pytest.mark.slow
def test_a_supervised_shard_goes_on_in_its_own_part(tmp_path):
    """A child that goes on gets --shard and --resume: it must not cut its part once more."""
    (tmp_path / "kernel.py").write_text(
        KERNEL.replace("    return", "    import os; q.shape[2] == 33 and os._exit(0)\n    return")
    )
    line, environment = command(tmp_path)
    given = line[line.index("-p") :]
    sizes = [x for T in (17, 33, 49, 65) for x in ("--problem", f"T={T},H=2,d_h=16")]
    codes = []
    for n in "12":
        argv = [sys.executable, "-m", "suites", "run", *given, *SWEEP, *sizes, "--shard", f"{n}/2"]
        environment["PYTHONPATH"] += f":{ROOT}"
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        codes.append(done.returncode)
    journals = [f.read_text() for f in (tmp_path / "store").glob("*/*/cells.jsonl")]
    found = [json.loads(x) for journal in journals for x in journal.splitlines()]
    last = {(c["implementation"], c["problem"]["T_q"]): c["status"] for c in found}
    assert sorted(codes) == [0, 5]
    assert len(last) == 8 and list(last.values()).count("crashed") == 1
    assert list(last.values()).count("ok") == 7
