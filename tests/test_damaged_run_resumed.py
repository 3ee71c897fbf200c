"""Going on with a run whose files were damaged, or changed: told, or measured anew; no fault."""

from __future__ import annotations

import json
import shutil

import pytest

from results.store import load_run
from suites.measure.journal import RunDirectory
from suites.session.resume import resume
from tests import supervised_process as supervised

WORDS = "fine:1 fine:2 fine:3"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run of three cells, finished."""
    folder = tmp_path_factory.mktemp("measured")
    assert supervised.here(folder, WORDS) == 0
    return folder


@pytest.fixture
def damaged(measured, tmp_path):
    """A copy that lacks its last line."""
    shutil.copytree(measured / "store", tmp_path / "store")
    journal = supervised.run_folder(tmp_path) / "cells.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:2]))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plan", None), ("plan", [1]), ("plan", [{}]), ("settings", None), ("settings", []),
        ("launches", None), ("launches", "abc"), ("launches", 0), ("launches", 1.5),
        ("launches", 10**12),
    ],
)  # fmt: skip
def test_a_header_that_says_no_plan_is_refused_by_its_path(damaged, capsys, name, value):
    header = supervised.run_folder(damaged) / "run.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {name: value}))
    before = header.read_text()
    assert supervised.here(damaged, WORDS, which="resume") == 2
    assert f"{header} is no run" in capsys.readouterr().err
    assert header.read_text() == before


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("running.json", '{"cell": "a", "suite": "b", "series": "c", "launch": [1]}'),
        ("running.json", '{"cell": "a", "suite": "b", "series": "c", "launch": null}'),
        ("cells.jsonl", '{"cell": "a", "launch": {}, "status": "ok"}\n'),
    ],
)
def test_a_launch_that_is_no_number_is_no_launch(damaged, file, line):
    run = supervised.run_folder(damaged)
    with (run / file).open("a") as spoilt:
        spoilt.write(line)
    assert supervised.here(damaged, WORDS, which="resume") == 0
    assert load_run(run).counts == {"ok": 3}
    assert (run / "cells.jsonl").read_text().count('"fine"') == 3, "none twice"


def test_a_run_that_another_process_went_on_with_since_it_was_read_is_refused(damaged):
    run = supervised.run_folder(damaged)
    found = resume(damaged / "store", run.name)
    found.taken(None).close()
    with (run / "cells.jsonl").open("a") as journal:
        journal.write(json.dumps({**found.header["plan"][2], "launch": 1, "status": "ok"}) + "\n")
    with pytest.raises(ValueError, match="by another process meanwhile: type this again"):
        found.taken(None)
    RunDirectory(run).close()
