"""The schema reads what suites write and names file, line, field and types of what it does not."""

import json

import pytest

from impls.interface.problem import Problem
from results.reading import Place, SchemaError, parse_strict
from results.run import read_header
from results.schema import FLAGS, STATUSES, read_cell
from tests import fake_run

PROBLEM = Problem.parse("T=63,H=4,H_kv=2,d_h=40,causal")
PLACE = Place("cells.jsonl", 3)


def record(**changes):
    return json.loads(json.dumps(fake_run.cell("naive", PROBLEM, 0.002) | changes))


def header():
    return {
        "schema": 1,
        "run": "20261129T193000Z-1234567",
        "created_utc": "2026-11-29T19:30:00Z",
        "machine_key": "cpu-1",
        "device": "cpu",
        "settings": {"settings_version": 1, "threads": 1, "warmup": "steady"},
        "ceilings": fake_run.ceilings_record(),
    }


def test_a_cell_reads_back_with_its_derived_figures():
    cell = read_cell(record(), PLACE)
    assert cell.problem == PROBLEM
    assert cell.pass_ == "forward"
    flop = 2 * 4 * (63 * 64 // 2) * 80
    moved = 4 * (2 * 4 * 63 * 40 + 2 * 2 * 63 * 40)
    assert cell.flop_per_s == pytest.approx(flop / 0.002)
    assert cell.bytes_per_s == pytest.approx(moved / 0.002)
    assert cell.intensity == pytest.approx(flop / moved)
    assert cell.percent_of_bound == pytest.approx(100 * (flop / 100e9) / 0.002)
    assert cell.is_comparable


def test_a_wrong_result_has_a_time_but_no_rate_and_no_share_of_its_bound():
    wrong = read_cell(record(status="wrong", check=fake_run.check_record(ok=False)), PLACE)
    assert wrong.time_s == 0.002
    assert (wrong.flop_per_s, wrong.bytes_per_s, wrong.percent_of_bound) == (None, None, None)


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_makes_an_ok_row_incomparable(flag):
    assert not read_cell(record(flags=[flag]), PLACE).is_comparable


@pytest.mark.parametrize("status", [s for s in STATUSES if s != "ok"])
def test_only_ok_and_wrong_may_have_a_time_and_only_ok_is_comparable(status):
    timed = record(status=status, check=fake_run.check_record(ok=False))
    if status == "wrong":
        assert read_cell(timed, PLACE).time_s == 0.002
    else:
        with pytest.raises(SchemaError, match=f'timing: expected null beside status "{status}"'):
            read_cell(timed, PLACE)
    bare = read_cell(record(status=status, timing=None, bound=None, check=None), PLACE)
    assert not bare.is_comparable
    assert (bare.time_s, bare.flop_per_s, bare.bytes_per_s, bare.percent_of_bound) == (None,) * 4


def test_ok_without_a_proof_or_a_time_is_refused():
    with pytest.raises(SchemaError, match='check: status "ok" needs a check that is ok'):
        read_cell(record(check=None), PLACE)
    with pytest.raises(SchemaError, match='check: status "ok" needs a check that is ok'):
        read_cell(record(check=fake_run.check_record(ok=False)), PLACE)
    with pytest.raises(SchemaError, match='timing: expected an object beside status "ok"'):
        read_cell(record(timing=None), PLACE)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"launch": "one"},
            'cells.jsonl line 3, field launch: expected a whole number, got the string "one"',
        ),
        ({"launch": 1.5}, "field launch: expected a whole number, got the number 1.5"),
        ({"launch": True}, "field launch: expected a whole number, got the boolean true"),
        ({"cell": None}, "field cell: expected a string, got null"),
        ({"reasons": "slow"}, 'field reasons: expected a list, got the string "slow"'),
        ({"reasons": [1]}, "field reasons.0: expected a string, got the number 1"),
        ({"timing": [1]}, r"field timing: expected an object, got the list \[1\]"),
        ({"timing": {"min_s": 1, "n": 3}}, "field timing.median_s: missing, expected a number"),
        ({"status": "fine"}, 'field status: "fine" is not known: one of ok, wrong'),
        ({"flags": ["slow"]}, 'field flags: "slow" is not known: one of host_bound'),
        ({"pass": "fwd"}, 'field pass: "fwd" is not known: one of forward'),
        (
            {"problem": {"B": 1, "T_q": 4, "T_kv": 4, "H": 3, "H_kv": 2, "d_h": 8}},
            "field problem: H=3 is not a multiple",
        ),
        ({"problem": 7}, "field problem: expected a problem, got the number 7"),
    ],
)
def test_a_mistake_is_told_by_file_line_field_and_types(change, message):
    with pytest.raises(SchemaError, match=message):
        read_cell(record(**change), PLACE)


def test_a_missing_field_is_named():
    broken = record()
    del broken["implementation"]
    with pytest.raises(
        SchemaError, match="line 3, field implementation: missing, expected a string"
    ):
        read_cell(broken, PLACE)


def test_a_field_deep_in_a_check_is_named_by_its_path():
    broken = record()
    broken["check"]["outputs"]["out"]["max_error"] = "big"
    with pytest.raises(
        SchemaError,
        match=r"field check\.outputs\.out\.max_error: expected a number, got the string",
    ):
        read_cell(broken, PLACE)


def test_unknown_fields_are_tolerated_and_kept_out():
    extended = record(colour="blue")
    extended["timing"]["mood_s"] = 3
    cell = read_cell(extended, PLACE)
    assert not hasattr(cell, "colour")
    assert cell == read_cell(record(), PLACE)


@pytest.mark.parametrize("version, todo", [(2, "update the checkout"), (0, "measure again")])
def test_another_schema_version_is_refused_with_what_to_do(version, todo):
    with pytest.raises(SchemaError, match=f"version {version}, this checkout reads 1: {todo}"):
        read_cell(record(schema=version), PLACE)
    with pytest.raises(SchemaError, match=f"version {version}, this checkout reads 1: {todo}"):
        read_header(header() | {"schema": version}, Place("run.json"))


def test_no_schema_version_is_refused():
    with pytest.raises(SchemaError, match=r"run\.json, field schema: missing"):
        read_header({"run": "x"}, Place("run.json"))
    with pytest.raises(SchemaError, match="field schema: missing"):
        read_cell(["not", "an", "object"], PLACE)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_bare_nan_and_infinity_are_refused(word):
    with pytest.raises(SchemaError, match=f"cells.jsonl line 3: the bare word {word} is not JSON"):
        parse_strict(f'{{"median_s": {word}}}', PLACE)


def test_a_number_too_large_for_a_float_is_no_time():
    broken = record()
    broken["timing"]["median_s"] = json.loads("1e999")
    with pytest.raises(SchemaError, match=r"timing\.median_s: expected a number"):
        read_cell(broken, PLACE)


def test_a_header_reads_settings_ceilings_and_keeps_every_setting_for_printing():
    read = read_header(header(), Place("run.json"))
    assert read.settings.threads == 1
    assert read.settings.all["warmup"] == "steady"
    assert read.ceilings is not None
    assert read.ceilings.gemm["float32"].bound_flop_per_s == 100e9
    assert read.ceilings.bandwidth["dram"].capacity_bytes is None
    assert read.finished_utc is None


def test_a_bound_on_a_gpu_is_made_of_the_spaced_figures():
    value = header()
    value["ceilings"]["gemm"]["float32"]["spaced_flop_per_s"] = 120e9
    value["ceilings"]["bandwidth"]["dram"]["spaced_bytes_per_s"] = 40e9
    ceilings = read_header(value, Place("run.json")).ceilings
    assert ceilings is not None
    assert ceilings.gemm["float32"].bound_flop_per_s == 120e9
    assert ceilings.bandwidth["dram"].bound_bytes_per_s == 40e9


def test_a_plan_may_name_its_problems_by_id():
    planned = {"cell": "a", "implementation": "naive", "problem": PROBLEM.id, "pass": "forward"}
    planned |= {"cache": "hot", "clock": "wall", "suite": "heads", "decision": "run"}
    assert read_header(header() | {"plan": [planned]}, Place("run.json")).plan[0].problem == PROBLEM
