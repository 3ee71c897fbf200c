"""One launch of a run at a time, in an order asked for, by children that are at home elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from suites.session.orders import VARIABLE, Orders
from suites.supervisor.child import Child
from suites.supervisor.display import JsonLines
from suites.supervisor.request import PYTEST, ROOT, Place, Request
from suites.supervisor.run_files import RunFiles
from suites.supervisor.stopping import Stopping
from suites.supervisor.supervisor import CannotGoOn, Supervisor, finish
from tests import supervised_process as supervised


def begun(folder, words, place=None) -> Supervisor:
    """A supervisor whose run has its first launch."""
    request = Request(
        arguments=(str(folder / "store"), *words.split()),
        command=(sys.executable, supervised.FAKE),
        place=place or Place(),
    )
    supervisor = Supervisor(request, JsonLines(), Stopping())
    supervisor.run()
    return supervisor


def rows_of(supervisor) -> list[str]:
    assert supervisor.files is not None
    return list(supervisor.files.entries)


def measured(folder, launch):
    lines = supervised.lines(folder)
    return [supervised.name_of(line) for line in lines if line["launch"] == launch]


def test_a_launch_measures_what_is_asked_in_that_order_and_once(tmp_path):
    supervisor = begun(tmp_path, "fine:1 fine:2 fine:3 fine:4")
    rows = rows_of(supervisor)
    supervisor.measure(7, [rows[3], rows[0], rows[2]])
    supervisor.measure(7, [rows[2], rows[1], rows[0]])
    finish(supervisor)
    assert measured(tmp_path, 7) == ["fine:4", "fine:1", "fine:3", "fine:2"]
    assert measured(tmp_path, 1) == ["fine:1", "fine:2", "fine:3", "fine:4"]


def test_a_cell_that_dies_in_a_launch_does_not_keep_the_others_from_it(tmp_path):
    supervisor = begun(tmp_path, "fine:1 touchy:2 fine:3")
    rows = rows_of(supervisor)
    supervisor.measure(2, [rows[0], rows[1], rows[2]])
    finish(supervisor)
    assert sorted(measured(tmp_path, 2)) == ["fine:1", "fine:3", "touchy:2"]
    assert {line["status"] for line in supervised.lines(tmp_path)} == {"ok"}


def test_children_are_in_their_own_folder(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mended").touch()
    supervisor = begun(tmp_path, "mended:1", Place(folder=tmp_path / "home"))
    finish(supervisor)
    assert supervised.statuses(tmp_path) == {"mended:1": "ok"}


def test_children_import_from_their_own_root_and_see_their_own_variables(tmp_path):
    (tmp_path / "impls").mkdir()
    (tmp_path / "impls" / "__init__.py").write_text(
        "import os; raise SystemExit(f'ERROR: this is {os.environ[\"SIDE\"]}')", encoding="utf-8"
    )
    with pytest.raises(CannotGoOn, match="this is base"):
        place = Place(tmp_path, variables={"SIDE": "base", "PYTHONPATH": str(ROOT)})
        begun(tmp_path, "fine:1", place)


def test_an_older_revision_says_what_it_cannot_be_asked(tmp_path):
    """Nor is it told of what is not asked: then it can be measured."""
    file = tmp_path / "orders"
    Orders(launch=3).write(file)
    assert json.loads(file.read_text(encoding="utf-8")) == {"launch": 3}
    file.write_text('{"launch": 3, "of_tomorrow": true}', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from suites.session import orders; orders.read()"],
        env=supervised.environment() | {VARIABLE: str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.strip().endswith("asked for of_tomorrow")


def test_a_child_collects_garbage_from_the_first_cell_on_and_nothing_of_what_it_imported():
    program = """
import gc
from suites.supervisor import plugin
told = [gc.isenabled()]
plugin.pytest_collection_finish()
print(*told, gc.isenabled(), gc.get_freeze_count() > 1000)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "True"]


@pytest.mark.parametrize("items", ["1 item / 1", "12 items / 12"])
def test_a_selection_that_leaves_no_cell_says_so(items):
    told = f"print('====\\ncollected {items} deselected / 0 selected\\n=== {items} deselected ===')"
    with Child([sys.executable, "-c", told], Orders()) as child:
        child.wait(10)
        assert child.complaint().startswith("0 cells would be measured: -k or -m leaves none of 1")


@pytest.mark.slow
def test_real_children_keep_the_order_and_look_once(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    sizes = [word for n in (40, 24, 32) for word in ("--problem", f"T={n},H=1,d_h=8")]
    arguments = (str(ROOT / "suites" / "bench_given.py"), "--store", str(tmp_path), *sizes)
    request = Request((*arguments, "--impl", "naive", "--baseline", "none"), looks_again=False)
    assert request.command == PYTEST
    supervisor = Supervisor(request, JsonLines(), Stopping())
    supervisor.run()
    files = supervisor.files
    assert files is not None and files.header["settings"]["looks"] == 1
    rows = list(files.entries)
    supervisor.measure(2, [rows[1], rows[2], rows[0]])
    finish(supervisor)
    lines = RunFiles(files.path).grown()
    found = [(line["launch"], line["problem"]["T_q"]) for line in lines]
    assert found == [(1, 40), (1, 24), (1, 32), (2, 24), (2, 32), (2, 40)]
