"""What disturbed a run, summed at its head: others, heat, a power cap, swapping."""

from __future__ import annotations

import pytest

from impls.interface.problem import Problem
from reports.page import page
from results.__main__ import main
from results.disturbance import disturbance
from results.store import load_run
from suites.measure import trust
from tests.fake_cells import cell
from tests.fake_run import write_run

SIZES = [Problem.parse(f"T={T},H=2,d_h=40") for T in (17, 33, 63)]
SEEN = {"cpu_throttles": 0, "swapped_in_bytes": 0}


def run_of(store, hosts, states=({}, {}, {}), flags=((), (), ()), device="cpu"):
    records = []
    for problem, host, state, words in zip(SIZES, hosts, states, flags, strict=True):
        record = cell("naive", problem, 0.001) | {"flags": list(words)}
        records.append(record | {"host": host, "device_state": state})
    skipped = cell("chunked", SIZES[0], reasons=["beyond the budget"])
    path = write_run(
        store, records=[*records, skipped], change=lambda header: header.update(device=device)
    )
    return load_run(path)


def test_a_calm_run_says_over_how_many_rows_none_was_seen(tmp_path):
    run = run_of(tmp_path, [SEEN] * 3)
    assert disturbance(run) == "Disturbances over 3 timed rows: none seen"


def test_what_a_machine_does_not_count_is_named_and_not_called_absent(tmp_path):
    run = run_of(tmp_path, [{"cpu_throttles": None, "swapped_in_bytes": None}] * 3)
    assert disturbance(run).endswith("none seen (heat and swapping cannot be seen here)")


def test_heat_and_swapping_are_summed_over_the_rows(tmp_path):
    hosts = [SEEN, {"cpu_throttles": 5, "swapped_in_bytes": 3 << 20}]
    hosts.append({"cpu_throttles": 2, "swapped_in_bytes": 1 << 20})
    flags = (["contended"], ["throttled", "swapped"], ["contended", "swapped"])
    told = disturbance(run_of(tmp_path, hosts, flags=flags))
    assert "2 contended; a core slowed for heat 7 times; 4.19 MB read back from swap" in told


def test_of_a_gpu_seconds_are_summed_and_others_are_the_most_at_once(tmp_path):
    states = [
        {"thermally_throttled_s": 0.25, "power_capped_s": 1.0, "other_processes": 1},
        {"thermally_throttled_s": 0.5, "power_capped_s": None, "other_processes": 3},
        {"thermally_throttled_s": 0.0, "power_capped_s": 0.5, "other_processes": 0},
    ]
    told = disturbance(run_of(tmp_path, [SEEN] * 3, states, device="cuda"))
    assert told == (
        "Disturbances over 3 timed rows: up to 3 other processes on the GPU; "
        "slowed for heat for 0.75 s; at the power cap for 1.5 s"
    )


def test_a_run_without_a_timed_row_says_nothing(tmp_path):
    path = write_run(tmp_path, records=[cell("naive", SIZES[0], reasons=["beyond"])])
    assert disturbance(load_run(path)) == ""


def test_it_stands_at_the_head_of_the_report_and_of_show(tmp_path, capsys):
    run = run_of(tmp_path, [SEEN | {"swapped_in_bytes": 5 << 20}] * 3)
    html = page(run, [])
    head = html[html.index("<header>") : html.index("</header>")]
    assert "15.7 MB read back from swap" in head
    main(["show", str(run.path)])
    assert "15.7 MB read back from swap" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("swapped_bytes", "flags"), [((1 << 20) - 1, []), (1 << 20, ["swapped"])])
def test_a_row_is_flagged_from_a_megabyte_of_swap_on(tmp_path, swapped_bytes, flags):
    fields = {"flags": [], "device_state": {}, "host": {"looks": 1}}
    before = trust.Reading(swapped_in_bytes=7)
    told = trust.told(fields, before, trust.Reading(swapped_in_bytes=7 + swapped_bytes))
    assert told["flags"] == flags
    run = run_of(tmp_path, [told["host"], SEEN, SEEN], flags=(told["flags"], (), ()))
    assert [c.is_comparable for c in run.cells[:3]] == [not flags, True, True]
