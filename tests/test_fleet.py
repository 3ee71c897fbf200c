"""A fleet without Ray: an engine that loses its workers, and what is shipped and refused."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.store import load_run
from suites.fleet import arguments, asking, command, shipping
from suites.fleet.display import FleetJsonLines
from suites.fleet.engine import Ended, Node, Told
from suites.fleet.fleet import Fleet
from suites.fleet.kind import FRUITLESS
from suites.measure.journal import RunDirectory, row_of
from suites.supervisor import command as supervisor_command
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn, finish_run
from tests.fake_child import header_of, records_of

ROOT = Path(__file__).resolve().parents[1]
HERE = "a machine of this kind"


class Losing:
    """An engine whose tasks tell and are lost as a random generator has it."""

    def __init__(self, nodes: dict[Node, str], words: list[str], draw: random.Random, deadly=()):
        self._all, self._words, self._draw = list(nodes), words, draw
        self._kinds = {node.id: kind for node, kind in nodes.items()}
        self._deadly = deadly
        self._tasks: dict[int, list[Told | Ended]] = {}
        self._nodes: dict[int, Node] = {}
        self.measured = Counter()
        self.losses = 0

    def nodes(self):
        return self._all

    def start(self, task, node, order):
        self._nodes[task] = node
        at_once = Counter(self._nodes[n].id for n in self._tasks)
        assert at_once[node.id] < node.devices, "a device has two tasks"
        said: list[Any] = [
            {"holds": {"node": node.name, "pid": task, "cpus": [task], "gpus": "", "cores": 9}}
        ]
        if order["do"] == "describe":
            said.append({"key": self._kinds[node.id]})
        elif order["do"] == "begin":
            header = header_of(records_of(self._words), "", order["launches"])
            said.append({"header": {**header, "machine_key": self._kinds[node.id]}})
        else:
            said += self._measured(order, node)
        self._tasks[task] = [Told(task, what) for what in said] + [Ended(task)]
        self._lose(task)

    def happened(self, limit_s):
        if not self._tasks:
            return []
        task = self._draw.choice(sorted(self._tasks))
        event = self._tasks[task].pop(0)
        if isinstance(event, Ended):
            del self._tasks[task], self._nodes[task]
        elif "finished" in event.what:
            self.measured[row_of(event.what["finished"])] += 1
        return [event]

    def cancel(self):
        self._tasks = {task: [Ended(task, "cancelled")] for task in self._tasks}

    def _measured(self, order, node):
        assert order["header"]["machine_key"] == self._kinds[node.id]
        by_row = {row_of(record): record for record in records_of(self._words)}
        for planned in order["header"]["plan"]:
            record = by_row[row_of(planned)] | {"launch": order["launch"]}
            yield {"started": row_of(planned)}
            yield {"finished": record}
            if record["implementation"] == "looked":
                yield {"finished": record | {"further": True}}

    def _lose(self, task):
        events = self._tasks[task]
        end = next(
            (
                n + 1
                for n, event in enumerate(events)
                if isinstance(event, Told) and event.what.get("started", "") in self._deadly
            ),
            None,
        )
        if end is None and self.losses < 6 and self._draw.random() < 0.3:
            self.losses += 1
            end = self._draw.randrange(len(events))
        if end is not None:
            self._tasks[task] = [*events[:end], Ended(task, "SIGKILL")]


ORDER = {"cores": 1, "threads": 1, "launches": 1}


def fleet_of(folder: Path, engine, launches: int = 1) -> Fleet:
    def new_run(header, is_one_of_several):
        with RunDirectory.create(folder, header["machine_key"], None) as directory:
            directory.write_run(header | {"run": directory.run_id})
        return RunFiles(directory.path), FleetJsonLines()

    fleet = Fleet(engine, ORDER | {"launches": launches}, Stopping())
    fleet.begin(None, launches, new_run)
    try:
        fleet.measure()
    finally:
        assert [finish_run(kind.files) for kind in fleet.kinds] == [None] * len(fleet.kinds)
    return fleet


@pytest.mark.parametrize("seed", range(5))
def test_a_fleet_that_loses_workers_measures_each_cell_once_on_each_kind(tmp_path, seed, capsys):
    words = [f"{kind}:{n}" for n, kind in enumerate(["fine", "looked", "fine"] * 3)]
    nodes = {Node("1", "one", 2): HERE, Node("2", "two", 1): HERE, Node("3", "three", 3): "other"}
    engine = Losing(nodes, words, random.Random(seed))
    fleet = fleet_of(tmp_path, engine, launches=2)
    assert engine.losses, "nothing was lost"
    assert {kind.files.header["machine_key"] for kind in fleet.kinds} == {HERE, "other"}
    rows = {row_of(record) for record in records_of(words)}
    for kind in fleet.kinds:
        run = load_run(kind.files.path)
        assert run.state == "finished" and not run.notes
        lines = [json.loads(x) for x in (kind.files.path / "cells.jsonl").read_text().splitlines()]
        assert {line["from_device"].split(":")[0] for line in lines} <= (
            {"one", "two"} if kind.files.header["machine_key"] == HERE else {"three"}
        )
        first = Counter((row_of(x), x["launch"]) for x in lines if "further" not in x)
        assert first == Counter((row, launch) for row in rows for launch in (1, 2))
    assert capsys.readouterr().out.count('"event": "died"') >= engine.losses - 6


def test_a_cell_that_takes_its_worker_with_it_every_time_is_named_and_the_rest_measured(
    tmp_path, capsys
):
    words = ["fine:1", "fine:2", "fine:3"]
    deadly = {row_of(records_of(words)[1])}
    engine = Losing({Node("1", "one", 2): HERE}, words, random.Random(1), deadly)
    engine.losses = 6
    (kind,) = fleet_of(tmp_path, engine).kinds
    run = load_run(kind.files.path)
    assert run.counts == {"ok": 2, "crashed": 1}
    (crashed,) = [cell for cell in run.cells if cell.status == "crashed"]
    assert "its worker was lost: SIGKILL (4 tries" in crashed.reasons[0]


def test_a_fleet_where_nothing_is_finished_says_so_and_ends(tmp_path, capsys):
    words = ["fine:1"]

    class Useless(Losing):
        def _measured(self, order, node):
            yield {"ended": {"failure": "no space left", "is_usage": False}}

    engine = Useless({Node("1", "one", 2): HERE}, words, random.Random(1))
    engine.losses = 6
    with pytest.raises(CannotGoOn, match="finishes a cell: no space left"):
        fleet_of(tmp_path, engine)
    assert capsys.readouterr().out.count('"event": "died"') == 2 * FRUITLESS


def test_a_machine_whose_devices_are_all_in_use_is_told_once(monkeypatch):
    monkeypatch.setattr(asking, "PATIENCE_S", 0.05)
    said: list[str] = []

    class Busy(Losing):
        def happened(self, limit_s):
            if any("waiting" in line for line in said):
                return super().happened(limit_s)
            busy = {n: said for n, said in self._tasks.items() if self._nodes[n].name == "two"}
            self._tasks = {n: said for n, said in self._tasks.items() if n not in busy}
            events = super().happened(limit_s)
            self._tasks |= busy
            return events

    engine = Busy({Node("1", "one", 1): HERE, Node("2", "two", 1): HERE}, [], random.Random(1))
    engine.losses = 6
    kinds = Fleet(engine, ORDER, Stopping(), said.append)._by_kind(None)
    assert len(kinds[HERE]) == 2
    assert said[1:] == ["waiting for a free device, all are in use: two (Ctrl-C ends it)"]


def test_a_run_is_gone_on_with_only_on_its_own_kind(tmp_path):
    engine = Losing({Node("1", "one", 2): HERE}, ["fine:1", "fine:2"], random.Random(1))
    engine.losses = 6
    (kind,) = fleet_of(tmp_path, engine).kinds
    files = RunFiles(kind.files.path)
    other = Losing({Node("1", "one", 1): "another"}, ["fine:1", "fine:2"], random.Random(1))
    other.losses = 6
    with pytest.raises(CannotGoOn, match="another: start a new run") as raised:
        Fleet(other, ORDER, Stopping()).go_on(None, None, files, FleetJsonLines())
    assert raised.value.is_usage


@settings(max_examples=25)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 12))
def test_no_more_devices_are_used_than_were_asked_for(devices, workers):
    nodes = {Node(str(n), f"n{n}", d): HERE for n, d in enumerate(devices)}
    engine = Losing(nodes, ["fine:1"], random.Random(1))
    engine.losses = 6
    fleet = Fleet(engine, ORDER, Stopping())
    if not any(devices):
        with pytest.raises(CannotGoOn, match="1 cores for --threads 1"):
            fleet._by_kind(workers)
        return
    (found,) = fleet._by_kind(workers).values()
    assert sum(node.devices for node in found) == min(workers, sum(devices))


def test_what_is_shipped_is_the_code_and_the_files_that_the_command_line_names(tmp_path):
    kernel = tmp_path / "my kernel.py"
    kernel.write_text("def attention(q, k, v): ...\n")
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("T,H,d_h\n16,1,8\n")
    target = tmp_path / "shipped"
    target.mkdir()
    given = [str(ROOT / "suites"), "--impl", f"{kernel}:attention,naive", f"--shapes={shapes}"]
    given += ["--impl=torch.nn:functional", "--problem", "T=16,H=1,d_h=8"]
    shipment = shipping.ship(target, given)
    assert list(shipment.arguments) == given, "absolute paths stay as they are"
    assert {path.name for path in target.iterdir()} <= {
        "impls", "suites", "conftest.py", "pyproject.toml", "results", "brought",
    }  # fmt: skip
    assert not [p for p in target.rglob("*") if p.name in ("__pycache__", ".git", "runs")]
    assert sum(p.stat().st_size for p in target.rglob("*")) < 5 << 20

    here = shipping.unpacked(given, shipment.files, ROOT, target)
    assert here[0] == str(target / "suites") and here[2:] == given[2:], "the same file, there too"
    kernel.write_text("another one")
    shapes.unlink()
    here = shipping.unpacked(given, shipment.files, ROOT, target)
    place = here[2].removesuffix(":attention,naive")
    assert Path(place).read_text().startswith("def attention") and place.startswith(str(target))
    assert Path(here[3].removeprefix("--shapes=")).read_text().startswith("T,H,d_h")
    assert shipping.packed([f"{place}:attention"], shipment.files) == [f"{kernel}:attention"]


def test_a_relative_file_is_shipped_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("x = 1\n")
    target = tmp_path / "shipped"
    target.mkdir()
    shipment = shipping.ship(target, ["--impl=mine.py:f"], root=tmp_path)
    assert shipment.arguments == (f"--impl={tmp_path}/mine.py:f",)
    assert list(shipment.files) == [str(tmp_path / "mine.py")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workers", "2"], "--workers is of a fleet"),
        (["--accelerator-type", "H100"], "--accelerator-type is of a fleet"),
        (["--fleet", "ray", "--workers", "0"], "give 1 or more"),
        (["--fleet", "ray", "--plan"], "leave out --fleet"),
        (["--fleet", "ray", "--address", "ray://head:10001"], "--address auto"),
        (["--fleet", "ray", "--threads", "two"], "--threads"),
        (["--fleet", "ray", "--address", ""], "--address is empty"),
    ],
)
def test_options_that_have_no_meaning_are_refused_with_what_would_do(words, told, capsys):
    assert supervisor_command.run(words) == 2
    assert told in capsys.readouterr().err


def test_without_ray_the_command_says_what_to_type(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("RAY_USAGE_STATS_ENABLED",):
        monkeypatch.setenv(name, os.environ.get(name, "0"))
    options = arguments.FleetOptions()
    request = supervisor_command.Request(arguments=(str(ROOT / "suites"),))
    assert command.measured(request, options, as_json=False) == 2
    told = capsys.readouterr().err
    assert "pip install ray" in told and "--shard" in told
