"""`python -m results merge`: shards and launches as one run, and what may not be one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from impls.interface.problem import Problem
from results.__main__ import main
from results.merge import merge
from results.store import find_run, list_runs, load_run
from suites.session.run_on_disk import find
from tests.fake_cells import cell
from tests.fake_run import default_cells, write_run
from tests.suite_process import ROOT

PROBLEM = Problem.parse("T=63,H=2,d_h=40")


def rows(run):
    return {c.key: (c.status, c.time_s) for c in run.cells}


def shards(store, records, count):
    """The records dealt to `count` runs, each a shard, at times that no order of names tells."""

    def told(number):
        return lambda header: header.update(shard=f"{number}/{count}")

    return [
        write_run(
            store,
            records=records[number - 1 :: count],
            created=f"202611{30 - number}T190000Z",
            change=told(number),
        )
        for number in range(1, count + 1)
    ]


def test_shards_are_the_whole_again_whatever_the_order_they_are_named_in(tmp_path):
    records = default_cells()
    whole = load_run(write_run(tmp_path / "whole", records=records))
    parts = shards(tmp_path / "store", records, 3)
    for n, order in enumerate((parts, parts[::-1], random.Random(1).sample(parts, 3))):
        into = tmp_path / f"merged-{n}"
        merged = merge(order, into)
        read = load_run(into)
        assert rows(read) == rows(whole)
        assert (merged.counts, merged.repeated) == (whole.counts, 0)
        assert (read.state, read.notes, read.header.shard) == ("finished", (), None)
        assert {(p.cell, p.suite, p.series) for p in read.header.plan} == {
            (p.cell, p.suite, p.series) for p in whole.header.plan
        }
    assert not list(tmp_path.glob(".merging-*"))


def test_each_row_says_which_run_it_is_from_and_the_header_has_each_runs_ceilings(tmp_path):
    parts = shards(tmp_path, default_cells(), 2)
    merge(parts, tmp_path / "merged")
    lines = (tmp_path / "merged" / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    of = {json.loads(line)["from_run"] for line in lines}
    assert of == {part.name for part in parts}
    header = json.loads((tmp_path / "merged" / "run.json").read_text(encoding="utf-8"))
    assert {m["run"] for m in header["merged"]} == of
    assert all(m["ceilings"]["gemm"] for m in header["merged"])


def test_of_a_row_that_several_runs_have_the_newest_counts_but_not_one_it_skipped(tmp_path):
    first, again = cell("naive", PROBLEM, 0.5), cell("naive", PROBLEM, 0.25)
    ok = cell("chunked", PROBLEM, 0.75)
    skipped = cell("chunked", PROBLEM, reasons=["beyond the budget"])
    assert skipped["status"] == "skipped"
    old = write_run(tmp_path, records=[first, ok], created="20261101T000000Z")
    new = write_run(tmp_path, records=[again, skipped], created="20261102T000000Z")
    for n, order in enumerate(([old, new], [new, old])):
        merged = merge(order, tmp_path / f"m{n}")
        read = load_run(merged.path)
        assert {c.implementation: c.time_s for c in read.cells} == {"naive": 0.25, "chunked": 0.75}
        assert merged.repeated == 2 and merged.counts == {"ok": 2}
        decisions = {p.implementation: p.decision for p in read.header.plan}
        assert decisions == {"naive": "run", "chunked": "run"}


def test_further_looks_at_a_row_stay_beside_it_and_are_counted_once(tmp_path):
    looks = [cell("naive", PROBLEM, time_s) for time_s in (0.5, 0.375, 0.25)]
    other = cell("chunked", PROBLEM, 1.0)
    parts = shards(tmp_path, [looks[0], other], 2)
    with (parts[0] / "cells.jsonl").open("a", encoding="utf-8") as journal:
        journal.writelines(json.dumps(look) + "\n" for look in looks[1:])
    merged = merge(parts, tmp_path / "m")
    assert merged.counts == {"ok": 2} and merged.repeated == 0
    assert len((tmp_path / "m" / "cells.jsonl").read_text(encoding="utf-8").splitlines()) == 4
    assert {c.time_s for c in load_run(merged.path).cells} == {0.25, 1.0}


def test_two_series_that_measure_one_cell_keep_a_row_each(tmp_path):
    one = cell("naive", PROBLEM, 0.5) | {"series": "T, full"}
    parts = shards(tmp_path, [one, one | {"series": "d_h, full"}], 2)
    merged = merge(parts, tmp_path / "m")
    assert merged.counts == {"ok": 2} and merged.repeated == 0


def test_launches_are_counted_on_from_run_to_run(tmp_path):
    def launched(*numbers):
        return [cell("naive", PROBLEM, 0.5) | {"launch": n} for n in numbers]

    old = write_run(tmp_path, records=launched(1, 2), created="20261101T000000Z")
    new = write_run(tmp_path, records=launched(1, 2, 3), created="20261102T000000Z")
    merged = merge([new, old], tmp_path / "m", are_launches=True)
    read = load_run(merged.path)
    assert sorted(c.launch for c in read.cells) == [1, 2, 3, 4, 5]
    assert merged.repeated == 0
    header = json.loads((tmp_path / "m" / "run.json").read_text(encoding="utf-8"))
    assert header["launches"] == 5


def test_what_a_crash_left_is_merged_too_the_cell_it_died_in_by_name(tmp_path):
    parts = shards(tmp_path, [cell("naive", PROBLEM, 0.5), cell("chunked", PROBLEM, 1.0)], 2)
    lost = cell("sdpa_flash", PROBLEM, 1.0)
    running = {key: lost[key] for key in ("cell", "implementation", "suite", "series", "pass")}
    running |= {"problem_id": PROBLEM.id, "launch": 1, "pid": 2**22 + 1, "pid_started": 1.0}
    (parts[0] / "running.json").write_text(json.dumps(running), encoding="utf-8")
    with (parts[1] / "cells.jsonl").open("a", encoding="utf-8") as journal:
        journal.write('{"schema":1,"cell":"cut sh')
    merged = merge(parts, tmp_path / "m")
    assert merged.counts == {"ok": 2, "crashed": 1}
    (note,) = merged.notes
    assert parts[1].name in note and "cut short" in note


def differing(**fields):
    return lambda header: header.update(fields)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"machine_key": "cpu-ffffffffffff"}, "machine_key"),
        ({"commit": "7654321"}, 'commit "1234567" → "7654321"'),
        ({"change": differing(dirty=True)}, "dirty False → True"),
        ({"change": differing(device="cuda")}, 'device "cpu" → "cuda"'),
        ({"change": lambda h: h["settings"].update(threads=2)}, "threads 1 → 2"),
        ({"change": lambda h: h["environment"].update(torch="2.14.0")}, 'torch "2.13.0+cpu"'),
    ],
)
def test_runs_of_another_machine_method_or_commit_are_not_one(tmp_path, capsys, how, told):
    one = write_run(tmp_path, created="20261101T000000Z")
    other = write_run(tmp_path, created="20261102T000000Z", **how)
    assert main(["merge", str(one), str(other), "-o", str(tmp_path / "m")]) == 4
    err = capsys.readouterr().err
    assert told in err and one.name in err
    assert not (tmp_path / "m").exists()


def test_a_shard_that_is_not_there_is_named_and_may_be_missing_only_on_request(tmp_path, capsys):
    parts = [str(p) for p in shards(tmp_path / "store", default_cells(), 4)]
    some, into = [parts[3], parts[0]], str(tmp_path / "m")
    assert main(["merge", *some, "-o", into]) == 2
    assert "shard 2/4, 3/4 is not there" in capsys.readouterr().err
    assert main(["merge", *some, "-o", into, "--allow-missing"]) == 0
    read = load_run(into)
    assert (read.state, read.header.shard) == ("interrupted", "1/4, 4/4")
    # The rest may come later.
    assert main(["merge", into, *parts[1:3], "-o", str(tmp_path / "all")]) == 0
    whole = load_run(tmp_path / "all")
    assert whole.header.shard is None and len(whole.cells) == len(default_cells())


def test_shards_of_two_numbers_or_as_launches_or_a_run_twice_are_refused(tmp_path, capsys):
    of_two = shards(tmp_path / "a", default_cells(), 2)
    of_three = shards(tmp_path / "b", default_cells(), 3)
    refused = {
        "shards of 2 and 3": [of_two[0], of_three[1]],
        "merge those of each launch first": [*of_two, "--launches"],
        "is named twice": [*of_two, of_two[0]],
    }
    for told, arguments in refused.items():
        assert main(["merge", *map(str, arguments), "-o", str(tmp_path / "m")]) == 2, told
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("shard", ["6/5", "0/5", "2/0", "a/b", "2 / 5", "-1/5", "1/9999999"])
def test_a_shard_that_is_none_is_told_by_its_run(tmp_path, capsys, shard):
    (one,) = shards(tmp_path / "store", default_cells()[:3], 1)
    header = json.loads((one / "run.json").read_text())
    (one / "run.json").write_text(json.dumps(header | {"shard": shard}))
    assert main(["merge", str(one), "-o", str(tmp_path / "m")]) == 2
    told = capsys.readouterr().err
    assert f'{one}: shard "{shard}" is none: expected one such as "2/5"' in told


def test_of_many_shards_that_are_not_there_the_first_are_named(tmp_path, capsys):
    (one,) = shards(tmp_path / "store", default_cells()[:3], 1)
    header = json.loads((one / "run.json").read_text())
    (one / "run.json").write_text(json.dumps(header | {"shard": "3/500"}))
    assert main(["merge", str(one), "-o", str(tmp_path / "m")]) == 2
    told = capsys.readouterr().err
    assert "shard 1/500, 2/500, 4/500, " in told and "11/500 and 489 more is not there" in told


_KILLED = """
import os, pathlib, signal, sys
from results.__main__ import main

pathlib.Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


@pytest.mark.parametrize("into", ["out", "cpu-0123456789ab/whole"])
def test_what_a_killed_merge_leaves_is_no_run_and_merging_again_is_whole(tmp_path, into):
    """Whether it is written among the runs of a machine, or among machines."""
    parts, store = shards(tmp_path, default_cells(), 2), str(tmp_path)
    line = ["merge", *map(str, parts), "-o", str(tmp_path / into)]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *line, "--store", store], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL and list(tmp_path.rglob(".merging-*"))
    assert {run.path for run in list_runs(tmp_path)} == set(parts)
    assert find(tmp_path, "latest") in parts
    assert main([*line, "--store", store]) == 0
    assert len(load_run(tmp_path / into).cells) == len(default_cells())


@pytest.mark.parametrize(("name", "other"), [("budget", "default"), ("seconds", 60.0)])
def test_shards_of_two_budgets_are_not_one_sweep(tmp_path, capsys, name, other):
    one, two = shards(tmp_path / "store", default_cells(), 2)
    header = json.loads((two / "run.json").read_text())
    header["settings"][name] = other
    (two / "run.json").write_text(json.dumps(header))
    assert main(["merge", str(one), str(two), "-o", str(tmp_path / "m")]) == 4
    assert f"{name} " in capsys.readouterr().err and not (tmp_path / "m").exists()
    # Two whole runs of different budgets may be one.
    for path in (one, two):
        told = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps(told | {"shard": None}))
    assert main(["merge", str(one), str(two), "-o", str(tmp_path / "m")]) == 0


def test_a_row_whose_line_was_lost_is_not_forgotten_by_a_finished_run(tmp_path, capsys):
    one, two = shards(tmp_path / "store", default_cells(), 2)
    journal = two / "cells.jsonl"
    os.truncate(journal, journal.stat().st_size - 30)
    assert main(["merge", str(one), str(two), "-o", str(tmp_path / "m")]) == 0
    assert "1 planned cells have no line" in capsys.readouterr().err
    assert load_run(tmp_path / "m").state == "interrupted"


def test_a_folder_that_is_there_is_never_written_into(tmp_path, capsys):
    parts = shards(tmp_path / "s", default_cells(), 2)
    before = (parts[0] / "cells.jsonl").read_bytes()
    assert main(["merge", *map(str, parts), "-o", str(parts[0])]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (parts[0] / "cells.jsonl").read_bytes() == before


def test_in_the_store_the_merged_run_is_latest_and_its_parts_count_no_more(tmp_path, capsys):
    store = tmp_path / "store"
    parts = shards(store, default_cells(), 2)
    # A name before theirs: "latest" must not go by names.
    into = parts[0].with_name("0")
    where = ["-o", str(into), "--store", str(store)]
    assert main(["merge", *(p.name for p in parts), *where, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert find_run("latest", store).name == told["run"]
    assert main(["history", "--json", "--store", str(store)]) == 0
    series = json.loads(capsys.readouterr().out)["series"]
    assert series and {len(one["nights"]) for one in series} == {1}
    assert main(["list", "--json", "--store", str(store)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def test_a_run_that_is_being_measured_is_waited_for(tmp_path, capsys):
    parts = shards(tmp_path, default_cells(), 2)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        lost = default_cells()[0]
        running = {key: lost[key] for key in ("cell", "implementation", "pass")}
        running |= {"problem_id": PROBLEM.id, "pid": process.pid}
        (parts[0] / "running.json").write_text(json.dumps(running), encoding="utf-8")
        assert main(["merge", *map(str, parts), "-o", str(tmp_path / "m")]) == 5
        assert "is being measured" in capsys.readouterr().err
    finally:
        process.communicate(b"\n")


def test_its_help_has_two_examples(capsys):
    with pytest.raises(SystemExit):
        main(["merge", "--help"])
    assert capsys.readouterr().out.split("examples:")[1].count("python -m results") == 2
