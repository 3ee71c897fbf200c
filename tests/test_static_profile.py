"""Static profiles are read strictly, and apart from what was timed."""

import json

import pytest

from impls.interface.problem import Problem
from results.reading import Place, SchemaError
from results.static_profile import assignments, is_static, read_static
from results.store import RunNotFound, find_run, load_run
from suites.session.run_on_disk import find
from tests.fake_cells import cell
from tests.fake_profiles import profile

PROBLEM = Problem.parse("T=63,H=4,d_h=40")
PLACE = Place("cells.jsonl", 1)


def static(header):
    header["kind"] = "static"


def test_a_profile_is_read_whole():
    read = read_static(profile(), PLACE)
    assert read.resources is not None and read.hot_loop is not None and read.bound is not None
    assert (read.kernel, read.arch, read.dtype, read.d_h) == (
        "triton_flash_forward", "sm_90", "bf16", 128,
    )  # fmt: skip
    assert read.resources.shared_bytes == 163840
    assert read.resources.occupancy.limited_by == "registers"
    assert read.hot_loop.mix["mma"] == 16 and read.other_loops[0].mix["select"] == 64
    assert read.bound.cycles["mma"] == 2048.0
    assert assignments(read.block) == "BLOCK_KV=128 BLOCK_Q=128 num_stages=2 num_warps=8"


def test_a_key_changes_with_block_and_compiler_and_the_subject_does_not():
    read = read_static(profile(), PLACE)
    for change in ({"block__num_warps": 4}, {"triton": "3.8.0"}, {"ptxas": "12.9.86"}):
        other = read_static(profile(**change), PLACE)
        assert other.subject == read.subject and other.key != read.key, change
    for change in ({"arch": "sm_80"}, {"d_h": 64}, {"constants": {"IS_CAUSAL": False}}):
        other = read_static(profile(**change), PLACE)
        assert other.subject != read.subject and other.key != read.key, change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"status": "fine"}, '"fine" is not known: one of ok, error'),
        ({"status": "error"}, "reasons: status .error. needs a reason"),
        ({"resources": None}, "needs resources"),
        ({"resources__registers": "255"}, "expected a whole number, got the string"),
        ({"bound__limited_by": "luck"}, '"luck" is not known'),
        ({"bound__cycles": {"tea": 1.0}}, '"tea" is not known'),
        ({"hot_loop__mix": {"mma": 1}}, "hot_loop.mix.mufu: missing"),
    ],
)
def test_what_a_profile_cannot_be_is_refused(change, told):
    with pytest.raises(SchemaError, match=told):
        read_static(profile(**change), PLACE)


def test_a_compiler_that_refused_leaves_its_message():
    record = profile(status="error", reasons=["no"], resources=None, hot_loop=None, bound=None)
    assert read_static(record, PLACE).reasons == ("no",)


def test_what_was_timed_and_what_was_compiled_stay_apart(run_directory):
    timed, compiled = cell("naive", PROBLEM, 0.1), profile()
    assert is_static(compiled) and not is_static(timed)
    run = load_run(run_directory(records=[timed]))
    assert run.profiles == () and run.header.kind == "timed"
    path = run_directory(records=[timed], created="20261129T200000Z")
    with (path / "cells.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(compiled) + "\n" + json.dumps(compiled | {"elapsed_s": 1}) + "\n")
    run = load_run(path)
    assert [c.implementation for c in run.cells] == ["naive"]
    assert [p.elapsed_s for p in run.profiles] == [1.0], "the last line of a profile counts"
    assert run.counts == {"ok": 2}


def test_a_profile_that_cannot_be_read_is_noted_and_left_out(run_directory):
    path = run_directory(records=[cell("naive", PROBLEM, 0.1)])
    with (path / "cells.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(profile(status="fine")) + "\n")
        journal.write(json.dumps(profile() | {"schema": 99}) + "\n")
    run = load_run(path)
    assert run.profiles == () and len(run.cells) == 1
    assert "fine" in run.notes[0] and "version 99" in run.notes[1]


def test_the_latest_run_of_one_kind_is_found(run_directory, tmp_path):
    old = run_directory(created="20261129T190000Z", records=[cell("naive", PROBLEM, 0.1)])
    store = tmp_path / "runs"
    with pytest.raises(RunNotFound, match=r"no static runs .* `python -m suites static`"):
        find_run("latest", store, kind="static")
    assert find_run("latest", store) == old
    new = run_directory(created="20261129T200000Z", records=[], change=static)
    assert find_run("latest", store) == old, "a static run hides no timed one"
    assert find_run("latest", store, kind="static") == new
    assert find_run("latest", store, kind="timed") == old


def test_where_nothing_was_timed_the_latest_is_static(run_directory, tmp_path):
    path, store = run_directory(records=[], change=static), tmp_path / "runs"
    assert find_run("latest", store) == path
    with pytest.raises(RunNotFound, match=r"no timed runs in .*: make one with `make bench`"):
        find_run("latest", store, kind="timed")


def test_a_static_run_is_never_gone_on_with(run_directory, tmp_path):
    timed = run_directory(created="20261129T190000Z", records=[cell("naive", PROBLEM, 0.1)])
    store = tmp_path / "runs"
    path = run_directory(created="20261129T200000Z", records=[], change=static)
    assert find(store, "latest") == timed
    assert find(store, "20261129T") == timed, "the beginning of both"
    for name in (path.name, "20261129T2", str(path)):
        with pytest.raises(ValueError, match=f"{path.name} is a static run"):
            find(store, name)
    with pytest.raises(ValueError, match=rf"newest are {timed.name}$"):
        find(store, "nobody")
