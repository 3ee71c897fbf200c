"""A static run as it is shown on a terminal: every profile, what limits it, and what is amiss."""

import json

import pytest

from results.__main__ import main
from results.findings import findings
from results.reading import Place
from results.static_profile import read_static
from results.static_table import arch_order, block_text, reading_order, spills_text, static_columns
from results.store import load_run
from tests.fake_profiles import profile
from tests.fake_run import write_run
from tests.fake_static_run import default_profiles, write_static_run


def read(**changes):
    return read_static(profile(**changes), Place("cells.jsonl", 1))


@pytest.fixture
def run(tmp_path):
    return load_run(write_static_run(tmp_path / "runs"))


def test_show_has_a_row_for_each_profile_in_eighty_columns(run, tmp_path, capsys):
    assert main(["show", "--store", str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split() for line in out.splitlines() if line.startswith("sm_")]
    assert [row[:2] for row in rows] == [
        ["sm_80", "128"], ["sm_90", "128"],
        ["sm_80", "64"], ["sm_90", "64"], ["sm_100", "64"],
        ["sm_80", "128"], ["sm_90", "128"], ["sm_100", "128"],
    ]  # fmt: skip
    assert rows[5] == [
        "sm_80",
        "128",
        "128×128",
        "w8",
        "s2",
        "255",
        "0",
        "160",
        "8",
        "62–100",
        "mma",
    ]
    assert "sm_80 d_h=128 128×128 w8 s2: error: shared memory: 262144 bytes of 166912" in out
    assert "the hot loop spills (12 stores and 0 loads)" in out
    # it has no times, and no interval to explain
    assert "median" not in out and "interval" not in out


def test_show_as_json_has_every_profile(run, tmp_path, capsys):
    assert main(["show", "--json", "--store", str(tmp_path / "runs")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [p["cell"] for p in shown["profiles"]] == [p["cell"] for p in default_profiles()]
    assert shown["kind"] == "static" and shown["cells"] == []


def test_findings_tell_what_failed_before_how_high_the_bounds_are(run):
    told = [finding.sentence for finding in findings(run)]
    assert told[0] == (
        "1 of 8 has no figures (1 error): triton_flash_decode sm_80 d_h=128: "
        "error: shared memory: 262144 bytes of 166912."
    )
    assert told[1].startswith("triton_flash_decode sm_90 d_h=128 breaks a promise: the hot loop")
    assert told[2] == (
        "1 of 7 default blocks spill, 1 of them in the hot loop; most: triton_flash_decode sm_90 "
        "d_h=128 with 48 stores and 50 loads."
    )
    # of sm_100's two the higher bound, whatever is left without overlap
    assert "sm_100 20 to 98 % (triton_flash_forward d_h=128, limited by exponentials)" in told[3]
    assert "matrix products 3, exponentials 3, device memory 1" in told[4]


def test_the_worst_of_several_that_spill_is_named(tmp_path):
    records = [profile(d_h=d, resources__spill_stores=n) for d, n in ((64, 2), (80, 9), (96, 3))]
    told = [f.sentence for f in findings(load_run(write_static_run(tmp_path, records)))]
    assert told[0] == (
        "3 of 3 default blocks spill, none of them in the hot loop; most: triton_flash_forward "
        "sm_90 d_h=80 with 9 stores and 0 loads."
    )


def test_a_clean_run_says_that_nothing_spills(tmp_path):
    run = load_run(write_static_run(tmp_path, [profile()]))
    assert findings(run)[0].sentence == "Of 1 default block none spills a register."


def test_a_timed_run_has_no_static_findings(tmp_path):
    words = " ".join(f.sentence for f in findings(load_run(write_run(tmp_path))))
    assert "default blocks" not in words and "matrix peak" not in words


def test_architectures_are_ordered_as_numbers():
    assert arch_order(["sm_90", "sm_100", "sm_80", "sm_90"]) == ["sm_80", "sm_90", "sm_100"]


def test_a_sweep_is_ranked_with_the_best_bound_first():
    slow, fast = (read(block__BLOCK_Q=q, bound__overlap_percent=b) for q, b in ((64, 70), (32, 90)))
    assert reading_order([slow, fast]) == [fast, slow]


def test_architectures_stay_in_order_where_their_constants_differ():
    profiles = [read(arch=a, constants__SPARE=a == "sm_80") for a in ("sm_80", "sm_90", "sm_100")]
    assert reading_order(profiles[::-1]) == profiles


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"BLOCK_Q": 128, "BLOCK_KV": 64, "num_warps": 8, "num_stages": 2}, "128×64 w8 s2"),
        ({"num_warps": 4}, "w4"),
        ({"BLOCK": 1024}, "1024"),
        ({}, "–"),
    ],
)
def test_a_block_is_told_in_few_letters(block, text):
    assert block_text(read(block=block)) == text


def test_spills_tell_those_in_the_hot_loop_apart():
    some = {"resources__spill_stores": 5, "resources__spill_loads": 4}
    assert spills_text(read()) == "0"
    assert spills_text(read(**some)) == "5+4"
    assert spills_text(read(**some, hot_loop__spill_loads=3)) == "5+4, 3 in the loop"


def test_columns_that_say_nothing_are_left_out_and_constants_are_named_where_they_differ():
    keys = [c.key for c in static_columns([read()])]
    assert "constants" not in keys and "tensor_memory" not in keys
    several = [read(), read(constants__IS_CAUSAL=False, resources__tensor_memory_columns=512)]
    columns = {c.key: c for c in static_columns(several)}
    assert [columns["constants"].show(p) for p in several] == ["IS_CAUSAL=True", "IS_CAUSAL=False"]
    assert columns["tensor_memory"].show(several[1]) == "512"
    brought = [read(d_h=None, dtype=None, hot_loop=None, bound=None)]
    keys = [c.key for c in static_columns(brought)]
    assert "d_h" not in keys and "dtype" not in keys
