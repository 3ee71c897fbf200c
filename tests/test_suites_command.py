"""`python -m suites ceilings`: what it prints, where, and how it ends."""

import json

import pytest

from impls.interface import device_choice
from suites.__main__ import main
from suites.measure import ceilings


@pytest.fixture
def kept(monkeypatch):
    """The record that the command gets."""
    rate = {"flop_per_s": 107e9, "median_flop_per_s": 105e9}
    record = {
        "device": "cpu",
        "device_name": "AMD EPYC",
        "threads": 1,
        "clock": "cpu_time",
        "measured_utc": "2026-11-29T19:30:00Z",
        "contended": False,
        "foreign_load": 0.01,
        "gemm": {"float32": rate | {"provider": "torch.mm", "providers": {"torch.mm": rate}}},
        "bandwidth": {
            "dram": {
                "copy_bytes_per_s": 36e9,
                "read_bytes_per_s": 39.5e9,
                "working_set_bytes": 128 << 20,
            }
        },
        "exp": {"float32": {"exp_per_s": 1.61e9, "median_exp_per_s": 1.6e9}},
        "datasheet": None,
    }
    monkeypatch.setattr(ceilings, "ceilings_for", lambda *_, **__: record)
    return record


def test_the_command_prints_a_table_or_the_record(kept, capsys):
    assert main(["ceilings", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert ["gemm", "float32", "107", "105", "GFLOP/s", "torch.mm"] in lines
    assert ["read", "dram", "39.5", "GB/s", "over", "128", "MiB"] in lines
    assert ["exp", "float32", "1.61", "1.6", "Gexp/s", "torch.exp"] in lines
    assert main(["ceilings", "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "cpu"


def test_the_command_tells_of_contention_on_stderr(kept, capsys):
    kept.update(contended=True, foreign_load=0.5)
    assert main(["ceilings", "--device", "cpu"]) == 0
    assert "others used 50% of the machine; not kept (--keep" in capsys.readouterr().err


def test_wrong_options_end_with_2(monkeypatch, capsys):
    assert main(["ceilings", "--threads", "0"]) == 2
    assert "give 1 or more" in capsys.readouterr().err

    def refuse(wanted):
        raise ValueError("no CUDA device: planted")

    monkeypatch.setattr(device_choice, "choose", refuse)
    assert main(["ceilings", "--device", "cuda"]) == 2
    assert "no CUDA device: planted" in capsys.readouterr().err


def test_the_help_shows_two_examples_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["ceilings", "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    assert told.count("  python -m suites ceilings") == 2
    assert "\nexit codes: 0 " in told and "2 usage" in told
